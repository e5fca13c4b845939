// Searches for records that vanished from the upstream, and what the mirror says of them afterwards.

import type { SyncContext } from '../../src/context.ts'
import { streamsLackingReconcile } from '../../src/store/book/due.ts'
import { pickStream, knownStreams as streams } from '../../src/streams/catalog.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { neverAborted as signal } from './context.ts'
import type { TestDatabase } from './database.ts'

export const assignment = pickStream('assignment', streams)

export function contextOf(context: SyncContext) {
  if (assignment.kind !== 'changes') throw new Error('assignments are read by row version')
  return { ...context.contextOf(assignment), signal }
}
/** Looks at record 17 tell nothing until it is shown. */
export function hidingFromLooks(context: SyncContext) {
  const given = contextOf(context)
  let isHidden = true
  const source: typeof given.source = {
    ...given.source,
    lookup: async (key, until) =>
      isHidden && key === '17' ? 'unclear' : ((await given.source.lookup?.(key, until)) ?? 'unclear'),
  }
  return {
    search: () => findDeletions({ ...given, source }),
    show() {
      isHidden = false
    },
  }
}
export const search = (context: SyncContext) => findDeletions(contextOf(context))
/** What changed, and the recent past. Returns what the look-back brought. */
export async function readAgain(context: SyncContext) {
  await context.read(assignment, 'incremental', { signal })
  return await context.read(assignment, 'lookback', { signal })
}
export const reconcile = (context: SyncContext, approved: number) =>
  reconcileStream({ ...contextOf(context), approved })

export const deletionsIn = (database: Pick<TestDatabase, 'pool'>) => ({
  async gone() {
    const { rows } = await database.pool.query<{ id: string; reason: string }>(
      `select assignment_id as id, _deleted_reason as reason from mirror.assignment
       where _deleted_at is not null order by assignment_id`,
    )
    return rows.map(({ id, reason }) => `${id} ${reason}`)
  },
  /** Streams whose reconcile the worker would begin now. */
  lacking: () =>
    streamsLackingReconcile(database.pool, ['assignment'], {
      ...{ slot: new Date(0), restMs: 0, lookbackMs: () => 600_000, replicaLagMs: 360_000 },
    }),
  async knownThrough() {
    const { rows } = await database.pool.query<{ at: Date | null }>(
      `select deletions_known_through as at from tidemark.freshness where stream = 'assignment'`,
    )
    return rows[0]?.at ?? null
  },
})
