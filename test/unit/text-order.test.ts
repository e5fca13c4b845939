// Whether what sorts by row version sorts numbers, or their texts (P6).

import { expect, it } from 'vitest'
import { next, start } from '../../src/sync/changes/machine.ts'
import type { Transition } from '../../src/sync/changes/state.ts'
import { hasRoomForShorter } from '../../src/sync/changes/text-order.ts'

type Upstream = { readonly versions: readonly number[]; readonly cap: number; readonly asText: boolean }

/** Reads until the decision whether the first page is to be believed has been made, and counts the questions it took. */
function decide(upstream: Upstream, onQuestion = (_question: number) => upstream) {
  let transition: Transition = start({
    from: 0n,
    until: null,
    pageSize: upstream.cap,
    largePageSize: 100,
    maxPasses: 3,
    sorting: 'proven',
    largestAnswer: upstream.cap,
    anchor: null,
  })
  let questions = 0
  do {
    const { reading, action } = transition
    if (action.kind !== 'ask') throw new Error(`it does not ask: ${action.kind}`)
    const { since, page, pageSize, sorts } = action.request
    const { versions, cap, asText } = onQuestion(++questions)
    const sorted = versions
      .filter((version) => version > since)
      .toSorted((a, b) => (asText ? Number(String(a) > String(b)) || -1 : a - b))
    if (sorts === 'descending') sorted.reverse()
    const from = (page - 1) * pageSize
    const rows = sorted
      .slice(from, from + Math.min(cap, pageSize))
      .map((version) => ({ key: String(version), version: BigInt(version) }))
    transition = next(reading, { kind: 'answer', page: { received: rows.length, rows } })
  } while (transition.reading.state.name === 'text')
  return { reading: transition.reading, retreat: transition.effects.retreat, questions }
}
const long = Array.from({ length: 297 }, (_, index) => 105 + 3 * index)

it('believes a first page when nothing is shorter: there are as many long versions as there are', () => {
  const { reading, questions } = decide({ versions: long, cap: 10, asText: false })
  expect(reading).toMatchObject({ sorting: 'proven', position: 131n })
  expect(questions).toBeLessThan(25)
})

it('needs no look where a page holds 9 before 10', () => {
  const versions = Array.from({ length: 30 }, (_, index) => index + 1)
  expect(decide({ versions, cap: 10, asText: false })).toMatchObject({ questions: 1, retreat: null })
})

it('counts the shorter versions of the page with the long ones', () => {
  const shorter = [1, 10]
  expect(decide({ versions: [...shorter, ...long], cap: 10, asText: false })).toMatchObject({ retreat: null })
  const { retreat } = decide({ versions: [...shorter, 4, ...long], cap: 10, asText: true })
  expect(retreat).toEqual(expect.stringContaining('297 records above 99'))
})

it.each([
  ['one in the middle', [83]],
  ['some', [41, 54, 83]],
])('takes the proof back when shorter versions stand behind: %s', (_what, shorter) => {
  const { reading, retreat } = decide({ versions: [...long, ...shorter], cap: 10, asText: true })
  expect(reading).toMatchObject({ sorting: 'ignored', position: 0n })
  expect(retreat).toEqual(expect.stringContaining('297 records above 99, and more in all'))
})

it('is not fooled by a source that grows or shrinks while it is counted', () => {
  for (const asText of [false, true]) {
    const shorter = asText ? [83] : []
    const at = (question: number) => {
      const grown = question > 20 ? [2000, 2001] : []
      const left = question > 12 ? long.slice(4) : long
      return { versions: [...left, ...grown, ...shorter], cap: 10, asText }
    }
    expect(decide(at(0), at).reading.sorting).toBe(asText ? 'ignored' : 'proven')
  }
})

it('gives up counting a source that grows with each question', () => {
  const at = (question: number) => ({
    versions: [...long, ...Array.from({ length: 3 * question }, (_, index) => 2000 + index)],
    cap: 10,
    asText: false,
  })
  const { reading, questions } = decide(at(0), at)
  expect(reading.sorting).toBe('proven')
  expect(questions).toBeLessThan(150)
})

it.each([
  [0n, 104n, 917n, true],
  // A poll that passes a power of ten: all shorter ones would be at the end.
  [97n, 102n, 105n, false],
  [9_999_990n, 10_000_003n, 10_000_005n, false],
  [0n, 12n, 15n, false],
  [0n, 12n, 30n, true],
  // 11 to 13 would stand there.
  [0n, 1000n, 1399n, true],
  [50n, 1000n, 1399n, true],
  [500n, 1000n, 1399n, false],
])('knows whether above %s a shorter one may stand between %s and %s', (cursor, last, end, expected) => {
  expect(hasRoomForShorter(cursor, last, end)).toBe(expected)
})
