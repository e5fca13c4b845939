// One world of an upstream that lies for some rounds, read by every kind of run. What runs say is checked while they say it, and in the
// end the mirror is compared with what is there.

import fc from 'fast-check'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { readLookback } from '../../src/sync/changes/lookback.ts'
import { NoVersionField } from '../../src/sync/changes/version-field.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import type { RunOutcome } from '../../src/sync/perform-run.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { expectNone } from './model-checks.ts'
import { differences, watchClaims, watchReconcile } from './model-claims.ts'
import { openTruth } from './model-freshness.ts'
import { lyingUpstream, someLies } from './model-lies.ts'
import { modelStore, type ObservedStore } from './model-store.ts'
import { isOmitted, type ModelUpstream, modelStream } from './model-upstream.ts'
import { oddWorlds, type World } from './model-worlds.ts'
import { seededRandom } from './random.ts'

export const lyingWorlds = fc.record({
  world: oddWorlds,
  lies: someLies,
  seed: fc.nat(),
  pageSize: fc.integer({ min: 4, max: 40 }),
  initialChanges: fc.integer({ min: 0, max: 90 }),
  changeChance: fc.constantFrom(0, 0.1, 0.5),
})

export type LyingWorld = typeof lyingWorlds extends fc.Arbitrary<infer Plan> ? Plan : never

const rounds = 7
const quietRounds = 12
/** Some worlds are so hostile that reading them does not end; that it was not read is told. */
const mostRequests = 8_000
const lookbackFloorMs = 60_000

/** What is read into, and its time: of the world, and of its runs. */
type Mirror = {
  readonly store: ObservedStore
  readonly now: () => Date
  readonly nowOfRuns: () => Date
  pass(ms: number): void | Promise<void>
  /** What an answer takes. */
  answers(): void
  /** What is shown besides, in words where it is false. */
  readonly falseBesides?: () => readonly string[]
}

function inMemory(): Mirror {
  let timeMs = 0
  const now = () => new Date(timeMs)
  const pass = (ms: number) => {
    timeMs += ms
  }
  return { store: modelStore(now, null), now, nowOfRuns: now, pass, answers: () => pass(1_000) }
}

/** How the mirror is wrong in the end, and what runs told of that. Throws when what they said was not true. */
export async function readLyingWorld(
  { world, lies, seed, pageSize: smallPageSize, ...plan }: LyingWorld,
  mirror = inMemory(),
): Promise<{ readonly wrong: readonly string[]; readonly told: readonly string[] }> {
  const random = seededRandom(seed)
  const pageSize = world.hides ? smallPageSize + 25 : smallPageSize
  const { store, now } = mirror
  const upstream = lyingUpstream({ world, lies, random, now })
  const context = {
    store,
    source: upstream.source,
    stream: modelStream,
    pageSize,
    now: mirror.nowOfRuns,
    signal: new AbortController().signal,
    lookbackFloorMs,
    approved: 0,
  }
  const claims = watchClaims(store, upstream, { world, lies })
  const falseClaims = openTruth(upstream, { world, lies })
  store.onFinished = (kind) => {
    const found = [...falseClaims(store), ...(mirror.falseBesides?.() ?? [])]
    expectNone(found, `false after a run of ${kind}`)
  }
  const operator = seededRandom(seed + 1)
  for (let change = 0; change < plan.initialChanges; change++) upstream.change()
  let changesLeft = 300
  let requests = 0
  const perhapsChange = (chance: number) => {
    while (changesLeft > 0 && random.chance(chance)) {
      changesLeft -= 1
      upstream.change()
    }
  }
  upstream.truth.onRequest = () => {
    mirror.answers()
    requests += 1
    if (requests > mostRequests) throw new Error('asks without end')
    perhapsChange(plan.changeChance)
  }
  // So few that many missing ones are proven slice by slice.
  const slowLooks = {
    lookupsPerMinute: 1 + random.integer(8),
    wait: async (ms: number) => mirror.pass(ms),
  }
  const kinds = {
    incremental: () => readIncremental(context),
    lookback: () => readLookback(context),
    deletions: () => findDeletions(context),
    reconcile: (approved = 0) =>
      watchReconcile(store, upstream, now(), () => reconcileStream({ ...context, ...slowLooks, approved })),
  }
  for (let round = 0; round < rounds; round++) {
    upstream.beginRound(round)
    await mirror.pass(random.integer(random.chance(0.2) ? 900_000 : 40_000))
    perhapsChange(0.6)
    await kinds.incremental()
    if (random.chance(0.5)) await kinds.lookback()
    if (random.chance(0.5)) await kinds.deletions()
    if (random.chance(0.2)) await kinds.reconcile()
    // A person keeps the rows of deletions that are blocked, or has them looked for again.
    if (operator.chance(0.3)) await store.reject(operator.chance(0.6))
  }
  await store.reject(false)
  upstream.beQuiet()
  changesLeft = 0
  upstream.truth.settle()
  upstream.beginRound(-1)
  let told: readonly string[] = []
  let wrong = differences(store, upstream, world)
  for (let round = 0; round < quietRounds; round++) {
    await mirror.pass(120_000)
    const outcomes: RunOutcome[] = [
      await kinds.incremental(),
      await kinds.lookback(),
      await kinds.incremental(),
      await kinds.deletions(),
    ]
    const compared = await kinds.reconcile()
    // An operator who is asked looks, and agrees.
    const { blocked } = compared.findings
    outcomes.push(blocked ? await kinds.reconcile(blocked.missing) : compared)
    if (lies.length === 0 && requests <= mostRequests && !isNothingShown(upstream.truth, world))
      expectNone(
        outcomes.flatMap(({ error }) => (error && !isHonest(error, world) ? [error] : [])),
        'failed without a lie',
      )
    told = [...outcomes.slice(1).flatMap(whatIsTold), ...claims.told()]
    wrong = differences(store, upstream, world)
    if ((wrong.length === 0 && told.length === 0) || requests > mostRequests) break
  }
  return { wrong, told }
}

/** To some services no record is a 404, and while a list has none to show nobody can tell that from a removed route. */
const isNothingShown = (truth: ModelUpstream, { showsMarked, omits }: World): boolean =>
  truth.all().every(({ deleted }) => deleted && showsMarked !== 'everywhere') ||
  (omits && truth.all().every(({ id }) => isOmitted(id)))

/** What nobody could do better. */
const isHonest = (error: Error, { spoils, capVaries }: World): boolean =>
  // Of a page that holds nothing but broken records, or as many as it likes, nobody can tell which field the version is.
  (spoils && error instanceof NoVersionField) ||
  // There another field may answer as well, until it is seen that it does not.
  ((spoils || capVaries) && 'code' in error && error.code === 'UPSTREAM_CONTRACT')

/** Why somebody who looks knows that not everything is right. */
function whatIsTold({ kind, status, isComplete, error, note }: RunOutcome): readonly string[] {
  if (error) return [`${kind} failed: ${error.message.slice(0, 40)}`]
  const isFine =
    isComplete && status === 'done' && !/fell back|believed when|mended|epoch|not listed/.test(note ?? '')
  return isFine ? [] : [`${kind} ${status}: ${(note ?? '').replaceAll(/\d+/g, 'N').slice(0, 60)}`]
}
