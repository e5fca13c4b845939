// What must hold of a mirror in memory whose upstream lies for a while: what runs say of the whole stream is checked when they say
// it, and in the end the mirror is compared with what is there.

import type { RunOutcome } from '../../src/sync/perform-run.ts'
import type { RunEnd } from '../../src/sync/ports/store.ts'
import { expectNone } from './model-checks.ts'
import type { Lie, LieKind, LyingUpstream } from './model-lies.ts'
import type { ObservedStore } from './model-store.ts'
import { type ModelRow, versionIn, versionNameOf } from './model-upstream.ts'
import type { World } from './model-worlds.ts'

/** While these are told, nobody can know how old an answer is. */
const oldAnswers: readonly LieKind[] = [
  'lists come from a cache',
  'everything comes from a cache',
  'a replica lags',
  'a replica lags for some reads',
  'lists are empty and reads gone',
  'some reads find nothing',
  'lists stand still',
  'changes stand still',
  'reads stand still',
]
/** Data that goes back: what was settled or known before says nothing about what is there now. */
const goesBack: readonly LieKind[] = [
  'a backup is restored',
  'a backup is restored and versions go on',
  'a failover loses the last writes',
  'a transaction that was read is rolled back',
  'some records are away',
  'another copy answers',
  'another copy answers some requests',
  'a record falls back',
  'a record changes in silence',
]

const hidesMarked = ({ showsMarked }: World): boolean => showsMarked !== 'everywhere'

/** How the mirror differs from what is there; records that no list shows, that cannot be rows, or that share a key, aside. */
export function differences(store: ObservedStore, { truth }: LyingUpstream, world: World): readonly string[] {
  const there = new Map(truth.all().map((row) => [String(row.id), row]))
  return [
    ...truth.visible().flatMap(({ id, version, deleted, text = 0 }) => {
      if (truth.isTwin(id)) return []
      const row = store.rows.get(String(id))
      if (deleted && hidesMarked(world)) return row?.gone === null ? [`${id} is marked there`] : []
      if (!row || (row.gone === 'absent' && !deleted)) return [`${id} is missing`]
      // By the record, because another field may have been taken for its version.
      const shown = JSON.stringify(row.record[versionNameOf(world)])
      const wanted = JSON.stringify(versionIn(world.versions, version))
      if (shown !== wanted) return [`${id} is ${shown} instead of ${wanted}`]
      return Math.abs(Number(row.record.Text)) === Math.abs(text) ? [] : [`${id} has other content`]
    }),
    ...[...store.rows.values()].flatMap(({ key, gone }) =>
      gone === null && !there.has(key) ? [`${key} is gone there`] : [],
    ),
  ]
}

/** What has not changed since a reconcile began is here as it is there when it ends, or it tells that something is not (P13, P16). */
export async function watchReconcile<Outcome extends RunOutcome>(
  store: ObservedStore,
  { truth, told, visibleSince, goneSince }: LyingUpstream,
  began: Date,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const outcome = await run()
  const { status, isComplete, note } = outcome
  const isTold = /fell back|twin|not listed|could not be looked at/.test(note ?? '')
  if (status !== 'done' || !isComplete || isTold) return outcome
  const copies = ['another copy answers', 'another copy answers some requests'] as const
  if ([...oldAnswers, ...copies].some((kind) => told.has(kind))) return outcome
  // An empty list, even by mistake, fits a mirror without a living row.
  const rows = [...store.rows.values()]
  const { inserted, updated, unchanged, quarantined } = outcome.tally
  const listed = inserted + updated + unchanged + quarantined
  if (listed === 0 && rows.every(({ gone }) => gone !== null)) return outcome
  const wrong = truth.visible().flatMap(({ id, version, deleted, text = 0 }) => {
    const row = store.rows.get(String(id))
    const isRead = version <= store.position()
    if (truth.isTwin(id) || deleted || !isRead || visibleSince(id) >= began) return []
    return row?.record.Text === text && row.gone === null
      ? []
      : [`${id} is ${row?.version} ${row?.gone} instead of ${version}`]
  })
  const alive = rows.filter(({ key, gone }) => {
    const since = goneSince(Number(key))
    return gone === null && since !== null && since < began
  })
  expectNone([...wrong, ...alive], 'a complete reconcile told of nothing')
  return outcome
}

/** What runs say of the whole stream is checked when they say it. */
export function watchClaims(
  store: ObservedStore,
  upstream: LyingUpstream,
  { world, lies }: { readonly world: World; readonly lies: readonly Lie[] },
) {
  const neverGoesBack = !lies.some(({ kind }) => goesBack.includes(kind))
  const mayComeBack = world.deletes === 'hidden' || hidesMarked(world)
  const { truth, told } = upstream
  let settled: RunEnd['settled']
  /** Marked when an old answer lacked them; the next search or reconcile takes that back. */
  const doubtful = new Set<number>()
  /** Although another field is taken for its version. */
  const hasContentOf = ({ id, text = 0 }: ModelRow) => store.rows.get(String(id))?.record.Text === text
  const tellsAny = (kinds: readonly LieKind[]) => kinds.some((kind) => told.has(kind))
  store.onFinish = (end, kind) => {
    if (end.settled) settled = end.settled
    if (!neverGoesBack) return
    const isMarkedAndThere = ({ id, deleted }: ModelRow) =>
      !deleted &&
      store.rows.get(String(id))?.gone === 'absent' &&
      (!mayComeBack || upstream.visibleSince(id) < (store.rows.get(String(id))?.markedAt ?? new Date(0)))
    const livingMarked = truth.visible().filter(isMarkedAndThere)
    if (tellsAny(oldAnswers)) {
      for (const { id } of truth.all().filter(isMarkedAndThere)) doubtful.add(id)
      return
    }
    if (kind === 'reconcile' && end.isComplete) for (const { id } of truth.visible()) doubtful.delete(id)
    expectNone(
      livingMarked.filter(({ id }) => !doubtful.has(id)),
      'marked as deleted, and there',
    )
    if (end.settled) {
      const { version, at } = end.settled
      const missing = truth
        .visible()
        .filter(
          (row) =>
            row.version <= version &&
            upstream.visibleSince(row.id) <= at &&
            !((store.rows.get(String(row.id))?.version ?? -1n) >= row.version) &&
            !hasContentOf(row) &&
            !(row.deleted && hidesMarked(world) && store.rows.get(String(row.id))?.gone !== null),
        )
      expectNone(missing, `settled through ${version}, and missing`)
    }
  }
  return {
    told: () => [
      ...(store.isBlocked() ? ['deletions are blocked'] : []),
      ...(settled ? [] : ['never settled']),
    ],
  }
}
