import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { openLog } from '../../src/log.ts'
import { keepOverrides, lookAtDictionary, lookRegularly } from '../../src/worker/changed-settings.ts'

const quietLog = openLog({ level: 'fatal' })
beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('takes up a changed HISTORY, which the dictionary keeps, with the look that sees it', async () => {
  const ending = new AbortController()
  const looks = lookRegularly({ log: quietLog, signal: ending.signal })
  let [kept, known] = [0, 0]
  const overrides = {
    async read() {
      kept += 1
      return { asked: '', alerts: [], overrides: [] }
    },
    takeUp: () => (kept === 1 ? [''] : []),
  }
  keepOverrides(looks, { overrides }, { planNow: async () => {}, onTaken: () => lookAtDictionary(looks) })
  looks.add('the dictionary', () => {
    known = kept
  })
  await vi.advanceTimersByTimeAsync(4_000)
  expect([kept, known]).toEqual([1, 1])
  ending.abort()
})

it('plans when other runs are asked for, until that succeeds', async () => {
  const ending = new AbortController()
  const looks = lookRegularly({ log: quietLog, signal: ending.signal })
  const seen = ['', 'one', 'one', 'one', 'another', 'another']
  const plans: string[] = []
  let asked = ''
  const overrides = {
    async read() {
      asked = seen.shift() ?? asked
      return { asked, alerts: [], overrides: [] }
    },
    takeUp: () => [],
  }
  keepOverrides(
    looks,
    { overrides },
    {
      onTaken() {},
      async planNow() {
        plans.push(asked)
        if (plans.length === 1) throw new Error('the queue is away')
      },
    },
  )
  await vi.advanceTimersByTimeAsync(6 * 4_000)
  expect(plans).toEqual(['one', 'one', 'another'])
  ending.abort()
})

it('takes up settings while the queue does not answer, and asks it for one plan at a time', async () => {
  const ending = new AbortController()
  const looks = lookRegularly({ log: quietLog, signal: ending.signal })
  let [reads, plans] = [0, 0]
  const taken: number[] = []
  let answer = () => {}
  const overrides = {
    async read() {
      reads += 1
      return { asked: 'one', alerts: [], overrides: [] }
    },
    takeUp() {
      taken.push(reads)
      return reads === 3 ? [''] : []
    },
  }
  keepOverrides(
    looks,
    { overrides },
    {
      onTaken() {},
      planNow: () => {
        plans += 1
        return new Promise<void>((resolve) => {
          answer = resolve
        })
      },
    },
  )
  await vi.advanceTimersByTimeAsync(5 * 4_000)
  expect([taken, plans]).toEqual([[1, 2, 3, 4, 5], 1])
  // Once more for what changed meanwhile.
  for (const expected of [2, 2]) {
    answer()
    await vi.advanceTimersByTimeAsync(3 * 4_000)
    expect(plans).toBe(expected)
  }
  ending.abort()
})

it('looks once more when it is asked to while it looks', async () => {
  const ending = new AbortController()
  const looks = lookRegularly({ log: quietLog, signal: ending.signal })
  let begun = 0
  let end = () => {}
  looks.add('files', async () => {
    begun += 1
    await new Promise<void>((resolve) => {
      end = resolve
    })
  })
  looks.now('files')
  looks.now('files')
  looks.now('files')
  expect(begun).toBe(1)
  end()
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toBe(2)
  end()
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toBe(2)
  ending.abort()
})
