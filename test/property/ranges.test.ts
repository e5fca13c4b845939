// Reads in ranges of versions, side by side, from upstreams that sort, which change between any two requests and whose reader crashes
// between any two steps; some stop to sort in the middle. At every moment what counts as read is there (P6), and in the end all is (P8).

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import type { DialectName } from '../../src/simulator/dialects.ts'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import type { Answer, ChangesRequest, Refusal, Source } from '../../src/sync/ports/source.ts'
import { forgetGone, watch, withOtherTiming } from '../support/model-checks.ts'
import { modelStore } from '../support/model-store.ts'
import { expectPage, modelStream, orRefused } from '../support/model-upstream.ts'
import { someDialects } from '../support/model-worlds.ts'
import { type Random, seededRandom } from '../support/random.ts'
import { worldSeed } from '../support/worlds.ts'

type Row = {
  readonly id: number
  readonly version: bigint
  /** Rises with the version: to sort by numbers is ten times as fast. */
  readonly place: number
  readonly record: JsonObject
}
type Sorted = {
  readonly rows: number
  /** From one version to the next: evenly, in a few dense heaps, or ever farther. */
  readonly spacing: 'even' | 'heaps' | 'wider'
  readonly tieChance: number
  readonly inclusive: boolean
  readonly cap: number | null
  readonly dialect: DialectName
  /** From this request on nothing is sorted, or `Sorts` is refused; or it is answered with nothing. */
  readonly breaks: { readonly at: number; readonly how: 'unsorted' | 'refused' | 'empty' } | null
}

const worlds: fc.Arbitrary<Sorted> = fc.record({
  rows: fc.integer({ min: 20, max: 300 }),
  spacing: fc.constantFrom('even', 'heaps', 'wider'),
  tieChance: fc.constantFrom(0, 0, 0.3, 0.9),
  inclusive: fc.boolean(),
  cap: fc.option(fc.integer({ min: 2, max: 30 })),
  dialect: someDialects,
  breaks: fc.option(
    fc.record({
      at: fc.integer({ min: 1, max: 80 }),
      how: fc.constantFrom('unsorted', 'refused', 'empty'),
    }),
  ),
})

const plans = fc.record({
  world: worlds,
  seed: fc.nat(),
  pageSize: fc.integer({ min: 2, max: 30 }),
  readers: fc.integer({ min: 2, max: 12 }),
  leastPages: fc.constantFrom(0, 2),
  changeChance: fc.constantFrom(0, 0.1, 0.5),
  crashChance: fc.constantFrom(0, 0.05),
  yieldChance: fc.constantFrom(0, 0, 0.05),
})

/** Worlds that once ended with rows that were not read. */
const foundEarlier: readonly (typeof plans extends fc.Arbitrary<infer Plan> ? Plan : never)[] = [
  // Every record that was known when the position moved last was gone, so that no poll was shown anything known.
  {
    world: {
      rows: 21,
      spacing: 'even',
      tieChance: 0.3,
      inclusive: false,
      cap: null,
      dialect: 'sieve',
      breaks: null,
    },
    seed: 302959190,
    pageSize: 22,
    readers: 2,
    leastPages: 0,
    changeChance: 0.5,
    crashChance: 0,
    yieldChance: 0,
  },
  // The last range ended while another reader looked for a part of it, and that one waited for ever.
  {
    world: {
      rows: 299,
      spacing: 'wider',
      tieChance: 0,
      inclusive: false,
      cap: 17,
      dialect: 'first-page',
      breaks: { at: 33, how: 'refused' },
    },
    seed: 491217145,
    pageSize: 3,
    readers: 4,
    leastPages: 2,
    changeChance: 0,
    crashChance: 0.05,
    yieldChance: 0.05,
  },
]

class Crash extends Error {}

const numRuns = Number(process.env.WORLDS ?? 120)

describe('reading in ranges', () => {
  it(
    `loses nothing in ${numRuns} random upstreams (P6, P8)`,
    async () => {
      let rangesKept = 0
      let mostAtOnce = 0
      await fc.assert(
        fc.asyncProperty(
          plans,
          async ({ world: anyWorld, seed, pageSize: size, readers, leastPages, ...chances }) => {
            const { world, pageSize } = tellable(anyWorld, size)
            const random = seededRandom(seed)
            const upstream = sortedUpstream(world, random)
            let time = 0
            const now = () => {
              time += 1000
              return new Date(time)
            }
            const store = modelStore(now)
            let changesLeft = 60
            upstream.onRequest = () => {
              while (changesLeft > 0 && random.chance(chances.changeChance)) {
                changesLeft -= 1
                upstream.change()
              }
            }
            let isQuiet = false
            const read = async () => {
              const outcome = await readIncremental({
                ...{ store, stream: modelStream, source: withOtherTiming(upstream, random), pageSize, now },
                load: { readers, leastPages },
                shouldYield: () => !isQuiet && random.chance(chances.yieldChance),
                signal: new AbortController().signal,
              })
              if (outcome.error && !(outcome.error instanceof Crash)) throw outcome.error
              // All that was known up to the position may be gone.
              if (outcome.status === 'inconclusive') forgetGone(store, upstream)
              return outcome
            }
            watch(store, upstream, () => {
              if (store.unread()) rangesKept += 1
              if (random.chance(chances.crashChance)) throw new Crash('killed here')
            })
            for (let run = 0; run < 4; run++) await read()
            upstream.onRequest = () => {}
            upstream.mend()
            isQuiet = true
            watch(store, upstream, () => {})
            for (let poll = 0; poll < 8; poll++) if ((await read()).isComplete) break
            mostAtOnce = Math.max(mostAtOnce, upstream.mostAtOnce())
            const missing = upstream
              .visible()
              .filter(({ id, version }) => store.rows.get(String(id))?.version !== version)
            expect(missing).toEqual([])
          },
        ),
        { numRuns, examples: foundEarlier.map((plan) => [plan]), ...worldSeed() },
      )
      expect(rangesKept, 'states with ranges').toBeGreaterThan(numRuns)
      expect(mostAtOnce).toBeGreaterThan(6)
    },
    120_000 + 300 * numRuns,
  )
})

/** A page of a few records, or of one version, looks sorted by chance. */
function tellable(world: Sorted, pageSize: number): { world: Sorted; pageSize: number } {
  if (world.breaks?.how !== 'unsorted') return { world, pageSize }
  return { world: { ...world, tieChance: 0, cap: world.cap && world.cap + 10 }, pageSize: pageSize + 10 }
}

function sortedUpstream(world: Sorted, random: Random) {
  const rows = new Map<number, Row>()
  let version = 0n
  let place = 0
  let lastId = 0
  let requests = 0
  let atOnce = 0
  let mostAtOnce = 0
  let breaks = world.breaks
  const step = () => {
    if (version > 0n && random.chance(world.tieChance)) return 0n
    if (world.spacing === 'even') return BigInt(1 + random.integer(3))
    if (world.spacing === 'wider') return 1n + version / BigInt(10 + random.integer(30))
    return random.chance(0.02) ? 100_000n : 1n
  }
  const put = (id: number) => {
    const before = version
    version += step()
    if (version !== before) place += 1
    rows.set(id, { id, version, place, record: recordOf(id, version) })
  }
  for (let row = 0; row < world.rows; row++) put(++lastId)

  const upstream = {
    onRequest: () => {},
    beginRun() {},
    visible: () => [...rows.values()],
    all: () => [...rows.values()],
    mostAtOnce: () => mostAtOnce,
    mend() {
      breaks = null
    },
    change() {
      // What is written now is above all that was.
      version += 1n
      place += 1
      const some = random.pick([...rows.keys()])
      if (random.chance(0.2)) rows.delete(some)
      else put(random.chance(0.5) ? some : ++lastId)
    },
    async changes(request: ChangesRequest): Promise<Answer | Refusal> {
      requests += 1
      if (requests > 20_000) throw new Error('asks without end')
      upstream.onRequest()
      atOnce += 1
      mostAtOnce = Math.max(mostAtOnce, atOnce)
      const answer = orRefused(request.sorts !== null, () => serve(request))
      await null
      await null
      atOnce -= 1
      return answer
    },
    sortedBy: (): Source => upstream,
    list: async () => ({ records: [], bytes: 0 }),
    listHasPages: true,
    async lookup(key: string) {
      const row = rows.get(Number(key))
      return row ? { found: row.record } : ('gone' as const)
    },
  }
  return upstream

  function serve({ since, page, pageSize, sorts }: ChangesRequest): Answer | Refusal {
    const how = breaks && requests >= breaks.at ? breaks.how : null
    if (how === 'refused' && sorts) return { refused: 400 }
    if (how === 'empty' && breaks?.at === requests) return { records: [], bytes: 0 }
    const wanted = [...rows.values()].filter((row) =>
      world.inclusive ? row.version >= since : row.version > since,
    )
    const isSorted = sorts !== null && how !== 'unsorted'
    const order = sorts === 'descending' ? -1 : 1
    const ordered = isSorted
      ? random.shuffled(wanted).sort((a, b) => order * (a.place - b.place))
      : random.shuffled(wanted)
    const size = Math.min(pageSize, world.cap ?? pageSize)
    const served = ordered.slice((page - 1) * pageSize, (page - 1) * pageSize + size)
    if (served.length === 0) expectPage(world.dialect, page)
    return { records: served.map(({ record }) => record), bytes: served.length * 100_000 }
  }
}

const recordOf = (id: number, version: bigint) => ({
  Id: id,
  RowVersion: version.toString(),
  SysDeleted: false,
})
