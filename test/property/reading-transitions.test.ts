// Walks the reader of changes through upstreams drawn at random, without its loop: it takes no way that its table does not declare, and
// each way that is declared is taken by some.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readRecords } from '../../src/streams/record.ts'
import { declaredStates, next, start } from '../../src/sync/changes/machine.ts'
import type { Anchor, Ask, Event, Reading, ReadingOptions } from '../../src/sync/changes/state.ts'
import { seenPage } from '../../src/sync/lists/listing.ts'
import type { Unread } from '../../src/sync/ports/store.ts'
import { type ModelUpstream, modelStream, modelUpstream } from '../support/model-upstream.ts'
import { openWorlds, veiledWorlds } from '../support/model-worlds.ts'
import { type Random, seededRandom } from '../support/random.ts'

const plans = fc.record({
  world: fc.oneof(
    { arbitrary: openWorlds, weight: 3 },
    { arbitrary: veiledWorlds, weight: 2 },
    { arbitrary: openWorlds.map((world) => ({ ...world, cutBeforeSort: 12, tieChance: 0.2 })), weight: 2 },
  ),
  seed: fc.nat(),
  pageSize: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 4 })),
  initialChanges: fc.integer({ min: 0, max: 90 }),
  changeChance: fc.constantFrom(0, 0.1, 0.5, 0.9),
  oddChance: fc.constantFrom(0, 0, 0.05),
  /** Proven yesterday, and today the upstream does otherwise. */
  isWronglyProven: fc.constantFrom(false, false, true),
})

const signal = new AbortController().signal

type Walk = {
  readonly upstream: ModelUpstream
  readonly random: Random
  /** How often Sorts is refused of a sudden, or a version served that was not asked for. */
  readonly oddChance: number
  readonly onTransition: (from: string, rule: string, to: string) => void
}

async function walk({ upstream, random, oddChance, onTransition }: Walk, options: ReadingOptions) {
  const seen = new Map<string, { first: number; last: number }>()
  let { reading, action } = start(options)
  let requests = 0
  while (action.kind !== 'end' && action.kind !== 'breach') {
    const event = await eventOf(action)
    const taken = next(reading, event)
    onTransition(reading.state.name, taken.rule ?? '', taken.reading.state.name)
    const { pageNumber, keys } = taken.effects.seen ?? { pageNumber: 0, keys: [] }
    if (pageNumber === 1) seen.clear()
    for (const key of keys) seen.set(key, { first: seen.get(key)?.first ?? pageNumber, last: pageNumber })
    reading = taken.reading
    action = taken.action
  }
  return reading

  async function eventOf(asked: typeof action): Promise<Event> {
    switch (asked.kind) {
      case 'ask':
        return await ask(asked)
      case 'look':
        return await look(asked.anchor)
      case 'count':
        return count(asked.around)
      case 'ranges':
        return readRanges(asked.unread)
      default:
        throw new Error(`a walk cannot ${asked.kind}`)
    }
  }

  /** Now and then one is not read to its end, or nothing is sorted in one of a sudden. */
  function readRanges({ upTo, ranges }: Unread): Event {
    const left = ranges.filter(() => random.chance(0.3)).map(({ above, upTo: end }) => ({ above, upTo: end }))
    const how = random.pick(['out of order', 'cut', 'refused'] as const)
    const fell = random.chance(0.2) ? { how, why: 'of a sudden' } : null
    return { kind: 'ranges', unread: { upTo, ranges: left }, fell }
  }

  async function ask({ request }: Ask): Promise<Event> {
    requests += 1
    if (requests > 20_000) throw new Error('asks without end')
    if (request.sorts && random.chance(oddChance)) return { kind: 'refused', status: 400 }
    const isHeeded = !random.chance(8 * oddChance)
    const answer = await upstream.changes(isHeeded ? request : { ...request, below: null }, signal)
    if ('refused' in answer) return { kind: 'refused', status: answer.refused }
    const odd = random.chance(oddChance / 5) ? [{ Id: 1, RowVersion: '0', SysDeleted: false }] : []
    const isShuffled = random.chance(oddChance)
    const records = [...odd, ...(isShuffled ? random.shuffled([...answer.records]) : answer.records)]
    const { keyFields, versionFields } = modelStream
    return { kind: 'answer', page: seenPage(records.length, readRecords(records, keyFields, versionFields)) }
  }

  /** Now and then the record cannot be read, or the answer lacked it although it is there. */
  async function look({ key }: Anchor): Promise<Event> {
    const nextAnchor = random.chance(0.7) ? anchorAmong(upstream, random) : null
    if (random.chance(oddChance)) return { kind: 'looked', found: 'unclear', next: nextAnchor }
    const row = upstream.all().find(({ id }) => String(id) === key)
    return { kind: 'looked', found: row?.version ?? 'gone', next: nextAnchor }
  }

  function count(around: number): Event {
    const keys = [...seen.values()].filter(({ first, last }) => first <= around && last > around).length
    return { kind: 'count', keys }
  }
}

it('takes the declared ways and no others, and each of them somewhere', async () => {
  const declared = new Set(
    declaredStates.flatMap(({ name, rules }) =>
      rules.map((rule) => wayOf(name ?? 'any', rule.name, rule.to)),
    ),
  )
  const taken = new Set<string>()
  const undeclared = new Set<string>()
  const onTransition = (from: string, rule: string, to: string) => {
    const way = [wayOf(from, rule, to), wayOf('any', rule, to)].find((one) => declared.has(one))
    if (way) taken.add(way)
    else undeclared.add(wayOf(from, rule, to))
  }
  await fc.assert(
    fc.asyncProperty(
      plans,
      async ({ world, seed, pageSize, initialChanges, changeChance, oddChance, isWronglyProven }) => {
        const random = seededRandom(seed)
        // The machine sees an empty page, whatever the upstream says of one that is missing.
        const upstream = modelUpstream({ ...world, dialect: 'sieve' }, random)
        for (let change = 0; change < initialChanges; change++) upstream.change(random)
        let changesLeft = 400
        upstream.onRequest = () => {
          while (changesLeft > 0 && random.chance(changeChance)) {
            changesLeft -= 1
            upstream.change(random)
          }
        }
        let last: Reading | null = null
        for (const until of [null, null, 40n, null]) {
          const from = until === null ? (last?.position ?? 0n) : 3n
          const isExpired = random.chance(0.2)
          const options: ReadingOptions = {
            from,
            restsFrom: random.chance(0.5) ? from / 2n : from,
            until,
            pageSize,
            largePageSize: pageSize + random.integer(20),
            maxPasses: 3,
            sorting: isWronglyProven ? 'proven' : isExpired ? 'unknown' : (last?.sorting ?? 'unknown'),
            largestAnswer: last?.largestAnswer ?? 0,
            anchor: random.chance(0.7) ? anchorAmong(upstream, random) : null,
            ...(random.chance(0.5) && {
              load: {
                readers: 1 + random.integer(3),
                leastPages: random.integer(2),
                unread: random.chance(0.3) ? unreadAmong(random, last?.position ?? 0n) : null,
              },
            }),
            cutsBeforeSort: last?.cutsBeforeSort ?? false,
          }
          const reading = await walk({ upstream, random, oddChance, onTransition }, options)
          if (until === null) last = reading
        }
      },
    ),
    { numRuns: 2000, seed: 22 },
  )
  expect([...undeclared]).toEqual([])
  expect([...declared].filter((way) => !taken.has(way))).toEqual([])
}, 120_000)

/** A record that is known: mostly one of the upstream, or one that it does not have any more. */
function anchorAmong(upstream: ModelUpstream, random: Random): Anchor | null {
  const rows = upstream.all()
  if (rows.length === 0 || random.chance(0.2)) return { key: '100000', version: 5n }
  const { id, version } = random.pick(rows)
  return { key: String(id), version }
}

/** What an earlier run left above the position. */
function unreadAmong(random: Random, position: bigint): Unread {
  const above = position + BigInt(random.integer(40))
  const upTo = above + BigInt(1 + random.integer(40))
  return { upTo, ranges: [{ above, upTo: above + (upTo - above + 1n) / 2n }] }
}

const wayOf = (from: string, rule: string, to: string): string => `${from} -- ${rule} --> ${to}`
