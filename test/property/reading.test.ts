// Reads upstreams drawn at random, which change between any two requests and whose reader crashes between any two steps.
// At every moment: what was visible when a run began, at or below the position it reached, is in the mirror or newer there (P6).
// After the source is quiet: mirror equals source (P8).

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { readLookback } from '../../src/sync/changes/lookback.ts'
import type { RunOutcome } from '../../src/sync/perform-run.ts'
import { forgetGone, watch, withOtherTiming } from '../support/model-checks.ts'
import { type ModelStore, modelStore } from '../support/model-store.ts'
import { modelStream, modelUpstream, NoPage } from '../support/model-upstream.ts'
import {
  cannotBeReadWhole,
  hidingWorlds,
  openWorlds,
  ordinaryWorld,
  veiledWorlds,
  type World,
} from '../support/model-worlds.ts'
import { seededRandom } from '../support/random.ts'
import { worldSeed } from '../support/worlds.ts'

const plans = fc.record({
  world: fc.oneof(
    { arbitrary: openWorlds, weight: 5 },
    { arbitrary: hidingWorlds, weight: 1 },
    { arbitrary: veiledWorlds, weight: 1 },
  ),
  seed: fc.nat(),
  pageSize: fc.integer({ min: 1, max: 40 }),
  initialChanges: fc.integer({ min: 0, max: 90 }),
  rounds: fc.integer({ min: 1, max: 6 }),
  changeChance: fc.constantFrom(0, 0.1, 0.5, 0.9),
  crashChance: fc.constantFrom(0, 0, 0.05),
  /** Ranges of versions, side by side. */
  load: fc.record({ readers: fc.constantFrom(1, 2, 5, 12), leastPages: fc.constantFrom(0, 1, 4) }),
})

/** Worlds in which something was lost once, by code that is no more. */
const foundEarlier: readonly (typeof plans extends fc.Arbitrary<infer Plan> ? Plan : never)[] = [
  // One empty answer behind a page of known records was taken for the end.
  {
    world: {
      ...ordinaryWorld,
      ...{
        order: 'row version',
        sorts: 'ignored',
        slips: true,
        versions: 'number',
        deletes: 'hard',
        tieChance: 0.7,
      },
    },
    seed: 1218533723,
    pageSize: 1,
    initialChanges: 60,
    rounds: 1,
    changeChance: 0,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // Behind a page that held nothing but a record without a version, an empty answer was taken for an empty upstream.
  {
    world: {
      ...ordinaryWorld,
      ...{ sorts: 'ascending only', cap: 1, dialect: 'dotnet-404', spoils: true, slips: true },
      ...{ versions: 'number', deletes: 'soft' },
    },
    seed: 1368119217,
    pageSize: 23,
    initialChanges: 68,
    rounds: 1,
    changeChance: 0,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // All records changed between the questions of the proof, so any record was above those that had been shown.
  {
    world: {
      ...ordinaryWorld,
      ...{
        order: 'unstable',
        sorts: 'within the page',
        dialect: 'dotnet-404',
        hides: 'some',
        versions: 'number',
      },
      ...{ deletes: 'soft', tieChance: 0.2 },
    },
    seed: 681772449,
    pageSize: 1,
    initialChanges: 11,
    rounds: 2,
    changeChance: 0.9,
    crashChance: 0.05,
    load: { readers: 1, leastPages: 0 },
  },
  // What a look from the middle of a page showed behind it was taken for the next page.
  {
    world: {
      ...ordinaryWorld,
      ...{ cap: 24, versions: 'number', deletes: 'soft', tieChance: 0.2, lateChance: 0.1 },
    },
    seed: 560916022,
    pageSize: 24,
    initialChanges: 32,
    rounds: 2,
    changeChance: 0.9,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // Each page had a cap of its own, and the pass that had been shown least was believed: one that counted more did not matter.
  {
    world: {
      ...ordinaryWorld,
      ...{ cap: 3, capVaries: true, paging: 'last page again', versions: 'number', tieChance: 0.7 },
    },
    seed: 1092019628,
    pageSize: 1,
    initialChanges: 43,
    rounds: 3,
    changeChance: 0,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // Records of one version changed their places between two pages, beside such as rights hide: a pass was shown fewer than there are.
  {
    world: { ...ordinaryWorld, paging: 'own size', hides: 'some', versions: 'number' },
    seed: 983449564,
    pageSize: 1,
    initialChanges: 88,
    rounds: 6,
    changeChance: 0.5,
    crashChance: 0.05,
    load: { readers: 1, leastPages: 0 },
  },
  // Sorted as text, 40 stood between 396 and 493. The page from the end showed it, and only its first version was looked at.
  {
    world: {
      ...ordinaryWorld,
      ...{ sorts: 'as text', paging: 'last page again', slips: true, versions: 'number', lateChance: 0.1 },
    },
    seed: 2081859591,
    pageSize: 1,
    initialChanges: 89,
    rounds: 2,
    changeChance: 0.5,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // Pages were of another size than asked for, and a total that counts hidden records spoke against the end.
  {
    world: {
      ...ordinaryWorld,
      ...{ sorts: 'within the page', paging: 'own size', dialect: 'wordpress', hides: 'some' },
      ...{ cap: 28, inclusive: true, versions: 'base64' },
    },
    seed: 21,
    pageSize: 9,
    initialChanges: 10,
    rounds: 6,
    changeChance: 0,
    crashChance: 0,
    load: { readers: 5, leastPages: 1 },
  },
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'id', cap: 49, capArithmetic: 'capped', paging: 'own size', dialect: 'postgrest' },
      ...{ hides: 'some', spoils: true, lateChance: 0.1 },
    },
    seed: 15,
    pageSize: 19,
    initialChanges: 62,
    rounds: 5,
    changeChance: 0,
    crashChance: 0.05,
    load: { readers: 2, leastPages: 1 },
  },
  // Nothing sorts, the known record filled the page, and the question behind it was answered with nothing by mistake.
  {
    world: {
      ...ordinaryWorld,
      ...{ sorts: 'ascending only', dialect: 'dotnet-404', slips: true, versions: 'number', lateChance: 0.1 },
    },
    seed: 0,
    pageSize: 1,
    initialChanges: 48,
    rounds: 4,
    changeChance: 0,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // Rows moved so that the second page looked like the first, which comes again far behind the end: it was taken for all there is.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'descending', sorts: 'within the page', cap: 18, dialect: 'first-page', slips: true },
      ...{ versions: 'number', deletes: 'hard', tieChance: 0.7 },
    },
    seed: 1936951031,
    pageSize: 2,
    initialChanges: 1,
    rounds: 4,
    changeChance: 0.9,
    crashChance: 0.05,
    load: { readers: 1, leastPages: 0 },
  },
  // Numbers were sorted as text, and passes were shown that. The proof of the next run met versions of one length at both ends.
  {
    world: {
      ...ordinaryWorld,
      ...{
        sorts: 'as text',
        cap: 26,
        dialect: 'dotnet-404',
        hides: 'some',
        byKey: 'ignored',
        versions: 'number',
      },
      ...{ deletes: 'hard', lateChance: 0.1 },
    },
    seed: 1929061809,
    pageSize: 1,
    initialChanges: 75,
    rounds: 1,
    changeChance: 0.9,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // The last page was cut when it came first, and whole when it came again: what it had lacked was not counted.
  {
    world: {
      ...ordinaryWorld,
      ...{
        cap: 10,
        capVaries: true,
        paging: 'last page again',
        slips: true,
        versions: 'number',
        deletes: 'soft',
      },
      ...{ tieChance: 0.7, lateChance: 0.1 },
    },
    seed: 1895913769,
    pageSize: 1,
    initialChanges: 85,
    rounds: 3,
    changeChance: 0,
    crashChance: 0.05,
    load: { readers: 1, leastPages: 0 },
  },
  // The first record changed while it was tested whether the first page came again.
  {
    world: {
      order: 'row version',
      inclusive: false,
      sorts: 'ascending only',
      cap: 15,
      capHalvesAt: null,
      capVaries: false,
      capArithmetic: 'requested',
      paging: 'first page again',
      dialect: 'dotnet-404',
      hides: false,
      spoils: true,
      slips: false,
      byKey: 'ignored',
      cutBeforeSort: null,
      omits: false,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'everywhere',
      tieChance: 0.7,
      leapChance: 0,
      counters: 1,
      lateChance: 0.1,
    },
    seed: 28,
    pageSize: 2,
    initialChanges: 75,
    rounds: 5,
    changeChance: 0.5,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // Pages of the service's own size lack records, and those of one version come in another order each time.
  {
    world: {
      order: 'row version',
      inclusive: false,
      sorts: 'honoured',
      cap: null,
      capHalvesAt: null,
      capVaries: false,
      capArithmetic: 'requested',
      paging: 'own size',
      dialect: 'dotnet-404',
      hides: 'some',
      spoils: true,
      slips: false,
      byKey: 'ignored',
      cutBeforeSort: null,
      omits: false,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'everywhere',
      tieChance: 0.7,
      leapChance: 0,
      counters: 1,
      lateChance: 0.1,
    },
    seed: 1064487752,
    pageSize: 1,
    initialChanges: 45,
    rounds: 3,
    changeChance: 0.5,
    crashChance: 0,
    load: { readers: 1, leastPages: 0 },
  },
  // Rights hid most records, and the newest had moved on when the page with the version that was to be reached last came: it was asked for
  // again and again.
  {
    world: {
      order: 'row version',
      inclusive: true,
      sorts: 'honoured',
      cap: 29,
      capHalvesAt: null,
      capVaries: false,
      capArithmetic: 'requested',
      paging: 'works',
      dialect: 'dotnet-404',
      hides: 'most',
      spoils: false,
      slips: true,
      byKey: 'ignored',
      cutBeforeSort: null,
      omits: false,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'everywhere',
      tieChance: 0.2,
      leapChance: 0,
      counters: 1,
      lateChance: 0,
    },
    seed: 635205282,
    pageSize: 13,
    initialChanges: 52,
    rounds: 5,
    changeChance: 0.5,
    crashChance: 0,
    load: { readers: 2, leastPages: 0 },
  },
]

class Crash extends Error {}

const numRuns = Number(process.env.WORLDS ?? 800)

describe('reading', () => {
  it(
    `loses nothing in ${numRuns} random worlds (P6, P8)`,
    async () => {
      await fc.assert(
        fc.asyncProperty(
          plans,
          async ({
            world,
            seed,
            pageSize: smallPageSize,
            initialChanges,
            rounds,
            changeChance,
            crashChance,
            load,
          }) => {
            const random = seededRandom(seed)
            const pageSize = smallPageSize + (world.hides === 'some' ? 25 : world.hides === 'most' ? 4 : 0)
            const upstream = modelUpstream(world, random)
            for (let change = 0; change < initialChanges; change++) upstream.change(random)
            let time = 0
            // A source that changes faster than it can be read would be read forever.
            let changesLeft = 400
            let requests = 0
            let wasEmpty = false
            // What is not shown up to here may be lost until a reconcile.
            let passedBlindly = 0n
            const request = () => {
              time += 1000
              requests += 1
              if (requests > 100_000) expect.fail('asks without end')
            }
            const perhapsChange = (chance: number) => {
              while (changesLeft > 0 && random.chance(chance)) {
                changesLeft -= 1
                upstream.change(random)
              }
            }
            const now = () => new Date(time)
            /** Pages of the service's own size, of which rights leave out some: records that share a version may count for others. */
            const isTied = ({ id, version }: { readonly id: number; readonly version: bigint }) =>
              world.hides !== false &&
              world.paging === 'own size' &&
              upstream.all().some((row) => row.id !== id && row.version === version)
            const store = modelStore(now)
            const context = {
              store,
              source: withOtherTiming(upstream, random),
              stream: modelStream,
              pageSize,
              load,
              now,
              signal: new AbortController().signal,
            }

            for (let round = 0; round < rounds; round++) {
              upstream.onRequest = () => {
                request()
                perhapsChange(changeChance)
                wasEmpty ||= upstream.all().length === 0
              }
              watch(
                store,
                upstream,
                () => {
                  if (random.chance(crashChance)) throw new Crash('killed here')
                },
                (row) => isBlind(world, store) || (row !== undefined && isTied(row)),
                !cannotBeReadWhole(world) && !world.capVaries,
              )
              wasEmpty = upstream.all().length === 0
              const outcome = await readIncremental(context)
              if (isBlind(world, store)) passedBlindly = store.position()
              const isExpected = outcome.error instanceof Crash || (wasEmpty && saysNothing(outcome))
              if (outcome.error && !isExpected) throw outcome.error
              if (outcome.status === 'inconclusive') forgetGone(store, upstream)
              perhapsChange(0.7)
            }

            upstream.onRequest = request
            upstream.settle()
            watch(
              store,
              upstream,
              () => {},
              (row) => isBlind(world, store) || (row !== undefined && isTied(row)),
              !cannotBeReadWhole(world) && !world.capVaries,
            )
            const missing = () =>
              upstream
                .visible()
                .filter(
                  ({ id, version }) =>
                    version > passedBlindly &&
                    !(version <= store.position() && isTied({ id, version })) &&
                    !upstream.late.has(id) &&
                    store.rows.get(String(id))?.version !== version,
                )
            // What no page shows nobody can read: it must not be called complete.
            let isGivenUp = false
            const read = async () => {
              const outcome = await readIncremental(context)
              if (upstream.all().length === 0 && saysNothing(outcome)) return
              if (outcome.error) throw outcome.error
              isGivenUp = (!outcome.isComplete || isBlind(world, store)) && cannotBeReadWhole(world)
              // A page that is too small for more than a record without a version shows nothing else: that is told.
              isGivenUp ||= outcome.status === 'inconclusive' && world.spoils
              if (outcome.status === 'inconclusive') forgetGone(store, upstream)
            }
            for (let poll = 0; poll < 40 && (poll < 2 || missing().length > 0); poll++) await read()
            if (!isGivenUp) expect(missing()).toEqual([])

            // What became visible late is the look-back run's to find.
            const stale = () =>
              upstream
                .visible()
                .filter(
                  ({ id, version }) =>
                    version > passedBlindly && store.rows.get(String(id))?.version !== version,
                )
            for (let round = 0; round < 40 && stale().length > 0; round++) {
              await read()
              const { error, isComplete } = await readLookback({ ...context, lookbackFloorMs: 1e12 })
              if (error) throw error
              isGivenUp ||= (!isComplete || isBlind(world, store)) && cannotBeReadWhole(world)
              const passed = stale().filter(({ version }) => version <= store.position())
              if (isComplete && !cannotBeReadWhole(world))
                expect(passed, 'lost by a complete look-back run').toEqual([])
            }
            if (!isGivenUp) expect(stale()).toEqual([])
          },
        ),
        { numRuns, examples: foundEarlier.map((plan) => [plan]), ...worldSeed() },
      )
    },
    120_000 + 300 * numRuns,
  )
})

/** Where whole pages are hidden, what is behind them is known by the order alone, and when some record is shown from either end. */
const isBlind = ({ hides }: World, store: ModelStore): boolean => {
  const sorting = store.state().beliefs.find(({ name }) => name === 'sorting')
  return hides === 'most' && (store.rows.size === 0 || sorting?.value !== 'proven')
}

/** A service to which no record is a 404 looks, while it has none, like one whose route was removed. */
const saysNothing = ({ error }: RunOutcome): boolean => error instanceof NoPage
