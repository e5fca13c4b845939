// One run: the lease it holds, the pages it writes, and its line in the ledger. Its own connection carries the lock and what must
// be remembered of a listing; pages travel on others.

import type { ClientBase, Pool, PoolClient } from 'pg'
import type { Logger } from '../../log.ts'
import { type RunKind, type ServiceName, type Stream, versionedBy } from '../../streams/catalog.ts'
import type { Busy, Position, Run, RunCore, RunEnd, RunRoles, StreamState } from '../../sync/ports/store.ts'
import type { RelatedOptions } from '../book/related.ts'
import { readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { type Connection, takeConnection } from '../server/session.ts'
import type { PositionStore } from '../writing/commit-page.ts'
import type { Dictionary } from '../writing/dictionary.ts'
import type { MergeReturns } from '../writing/merge-sql.ts'
import { openWriters, type Writers } from '../writing/writers.ts'
import {
  forgetRun,
  giveBackLease,
  keepSpeaking,
  type Lease,
  leaseHolder,
  openSession,
  type RunSession,
  takeLease,
} from './lease.ts'
import { beginRun, endRun, noTotals, type RunLine, type RunTotals } from './ledger.ts'
import { endDoubts, mendLocalChanges } from './local-changes.ts'
import { takeUpBackfill } from './positions.ts'
import { type RunRecorder, startRecorder, type Waiting } from './progress.ts'
import { openFindings } from './run-findings.ts'
import { openSeenKeysTable, type SeenKeysTable } from './seen-keys.ts'
import type { StartingPoint } from './unread.ts'

/** What runs of a kind need, and what they can do. */
export type KindOfRun<Kind extends RunKind> = {
  /** Which position its pages move; `id` is that of the backfill. */
  position(lease: Lease, start: StartingPoint, id: string): PositionStore
  /** What it is told of the rows that it wrote. */
  readonly returns: MergeReturns
  roles(parts: RunParts): RunRoles[Kind]
}

export type RunOptions<Kind extends RunKind> = {
  readonly pool: Pool
  readonly stream: Stream
  readonly kind: Kind
  readonly needs: KindOfRun<Kind>
  /** The backfill to take up; null for runs of other kinds. */
  readonly backfill: string | null
  readonly timeZone: string
  readonly connections: number
  /** Which related records are wanted. */
  readonly related: RelatedOptions
  readonly log: Logger
  /** If this program is silent for so long, whoever wants the lease gets it. */
  readonly silenceMs: number
  /** Rejects if the run must not happen, which writes rows of these streams. Asked when the run has its lease: whoever forbids it later revokes the lease. */
  readonly beforeRun: (client: ClientBase, streams: readonly string[]) => Promise<void>
  /** What requests to a service wait for at the moment, to be shown with the progress of its runs. */
  readonly waitsFor: (service: ServiceName) => Waiting | null
  readonly dictionaryOf: (table: string) => Dictionary
  /** Called after a run that changed something. */
  readonly afterChange: (stream: string) => Promise<void>
}

/** What a run is made of, for its roles. */
export type RunParts = Pick<RunOptions<RunKind>, 'stream' | 'timeZone' | 'log' | 'related'> & {
  readonly session: RunSession
  readonly positions: PositionStore
  readonly seenKeys: SeenKeysTable
  /** The table of the stream, as it was when this run last wrote rows; null: there is none yet. */
  tableSchema(): Promise<TableSchema | null>
  /** When the run began, by the clock of Postgres. */
  readonly startedAt: Date
  /** Before it writes what belongs to the run. */
  noteLine(): Promise<void>
  onMarked(rows: number): void
  onRetreat(to: bigint): void
}

export async function takeRun<Kind extends RunKind>(options: RunOptions<Kind>): Promise<Run<Kind> | Busy> {
  const connection = await takeConnection(options.pool)
  const place = { stream: options.stream.name, kind: options.kind }
  try {
    const lease = await takeLease(connection.client, place, options.silenceMs)
    if (lease !== null) return await startRun(connection, options, lease)
    const busy = await leaseHolder(connection.client, place)
    connection.release()
    return { busy }
  } catch (error) {
    connection.release(error)
    throw error
  }
}

async function startRun<Kind extends RunKind>(
  connection: Connection,
  options: RunOptions<Kind>,
  lease: Lease,
): Promise<Run<Kind>> {
  const { client } = connection
  const { runId } = lease
  const { from, begun } = await beginLine(client, options, lease)
  const { line, state: found, ...before } = begun
  const noteLine = () => line.note(client)
  const { state, beginsAnew } = await mendLocalChanges(client, lease, found, {
    ...options,
    ...before,
    noteLine,
  })
  // If the position went back, nothing above it counts as read.
  const live = { position: state.position, unread: beginsAnew ? null : before.unread }
  const positions = options.needs.position(lease, from ?? live, options.backfill ?? '')
  const totals = noTotals(positions.start)
  const recorder = startRecorder({
    ...options,
    runId,
    startedAt: found.startedAt,
    noteLine: () => line.note(options.pool),
    isFirst: before.isFirst || beginsAnew,
    isReadAgain: before.isReadAgain || beginsAnew,
    versionField: state.versionField,
    from: from ?? live,
    waitsFor: () => options.waitsFor(options.stream.service),
  })
  const mirrored = mirroredAs(options.stream, state)
  const table = rememberTable(client, () => mirrored.stream)
  const expectSession = allButFirst(() => session.expectHeld())
  const written = { runId, noteRun: line.note, onPage: table.forget, expectSession }
  const writers = openRunWriters({ ...options, ...written }, positions, totals, recorder)
  const [session, seenKeys] = [openSession(client, lease, writers.settled), openSeenKeysTable(client)]
  const silence = keepSpeaking(session.speak, options.silenceMs)
  const core: RunCore = {
    id: runId,
    state,
    pages: {
      commit: (page, to, { into, unread = null } = {}) =>
        into
          ? writers.of(into.stream, () => into.keyField).write(page, null)
          : writers.of(mirrored.stream, () => mirrored.keyField).write(page, to, unread),
    },
    findings: openFindings(session, options.stream, mirrored.onKeyField, mirrored.onVersionField),
    progress: recorder,
    finish: (end) =>
      finish(
        { connection, options, session, line, positions, totals, writers, seenKeys, silence, recorder },
        end,
      ),
  }
  const parts: RunParts = {
    ...options,
    get stream() {
      return mirrored.stream
    },
    session,
    positions,
    seenKeys,
    tableSchema: table.read,
    startedAt: found.startedAt,
    noteLine,
    onMarked: (rows) => {
      totals.markedDeleted += rows
      recorder.marked(options.stream.name, rows)
    },
    onRetreat: (to) => {
      totals.position = to
    },
  }
  return { ...core, ...options.needs.roles(parts) }
}

/** The session was opened just before the first. */
function allButFirst(work: () => Promise<unknown>): () => Promise<unknown> {
  let calls = 0
  return async () => (calls++ > 0 ? await work() : null)
}

/** A run asks for the same again and again. */
function rememberTable(client: ClientBase, streamNow: () => Stream) {
  let known: TableSchema | null = null
  return {
    async read() {
      const stream = streamNow()
      if (known?.stream !== stream) known = await readTableSchema(client, stream)
      return known
    },
    forget() {
      known = null
    },
  }
}

/** The stream as far as its key and row version are known, which the run may find out. */
function mirroredAs(stream: Stream, { keyField, versionField }: StreamState) {
  const mirrored = {
    stream: versionedBy(stream, versionField),
    keyField,
    onKeyField(field: string) {
      mirrored.keyField = field
    },
    onVersionField(field: string) {
      mirrored.stream = versionedBy(mirrored.stream, field)
    },
  }
  return mirrored
}

/** That a run could not begin leaves no line. */
async function beginLine(client: PoolClient, options: RunOptions<RunKind>, lease: Lease) {
  const { backfill, beforeRun, stream, kind, related } = options
  try {
    await beforeRun(client, [stream.name, ...(kind === 'related' ? related.groups : [])])
    const from = backfill === null ? null : await takeUpBackfill(client, backfill)
    return { from, begun: await beginRun(client, lease, from?.position ?? null) }
  } catch (error) {
    await forgetRun(client, lease).catch(() => {})
    throw error
  }
}

export const positionOf = ({ session, positions, noteLine, onRetreat }: RunParts): Position => ({
  start: positions.start,
  unread: positions.unread,
  retreat: (reason, to) =>
    session.afterWrites(async () => {
      await noteLine()
      await positions.retreat(session.client, reason, to)
      onRetreat(to)
    }),
})

function openRunWriters(
  options: RunOptions<RunKind> & {
    readonly runId: string
    readonly noteRun: RunLine['note']
    readonly expectSession: () => Promise<unknown>
    readonly onPage: () => void
  },
  positions: PositionStore,
  totals: RunTotals,
  recorder: RunRecorder,
): Writers {
  return openWriters({
    ...options,
    positions,
    returns: options.needs.returns,
    onCommit(table, outcome) {
      const { written, newlyQuarantined, position } = outcome
      for (const count of ['inserted', 'updated', 'unchanged', 'rescued', 'quarantined'] as const)
        totals[count] += written[count]
      totals.newlyQuarantined += newlyQuarantined
      if (position !== null && position > totals.position) totals.position = position
      if (written.inserted + written.updated > 0) totals.changed.add(table)
      recorder.committed(table, outcome)
      options.onPage()
    },
  })
}

type Ending = {
  readonly connection: Connection
  readonly options: RunOptions<RunKind>
  readonly session: RunSession
  readonly line: RunLine
  readonly positions: PositionStore
  readonly totals: RunTotals
  readonly writers: Writers
  readonly seenKeys: SeenKeysTable
  /** Ends the words that keep the lease. */
  readonly silence: () => void
  readonly recorder: RunRecorder
}

async function finish(ending: Ending, end: RunEnd): Promise<void> {
  const { connection, options, session, positions, totals, writers, seenKeys, recorder } = ending
  const { pool, stream } = options
  await writers.settled()
  await recorder.end(end)
  ending.silence()
  await session.alone(async () => {
    writers.close()
    let failure: unknown
    try {
      const isIdle = end.status === 'done' && hasChangedNothing(totals, positions.start)
      await writers.flushDictionaries(pool, isIdle)
      // What was read counts only where its rows are: another server may have taken over since, and lack the last of them.
      const client = end.status === 'failed' ? pool : session.client
      await positions.end(client, end)
      const ended = { ...end, isIdle, steps: recorder.steps(end) }
      const hasDoubts = await endRun(client, session.lease, ending.line, totals, ended)
      if (hasDoubts) await endDoubts(session.client, stream)
      if (!isIdle) await options.afterChange(stream.name)
      await hint(pool, stream, totals)
    } finally {
      await seenKeys
        .empty()
        .then(() => giveBackLease(session.client))
        .catch((error) => {
          failure = error
        })
      connection.release(failure)
    }
  })
}

/** Tells whoever listens. Once a run: Postgres commits transactions that tell something one after the other. It may fail: they look now and then anyway. */
async function hint(pool: Pool, { name }: Stream, { changed, markedDeleted }: RunTotals): Promise<void> {
  const names = new Set([...changed, ...(markedDeleted > 0 ? [name] : [])])
  if (names.size === 0) return
  await pool
    .query(`select pg_notify('tidemark', name) from unnest($1::text[]) as name`, [[...names]])
    .catch(() => {})
}

const hasChangedNothing = (totals: RunTotals, positionBefore: bigint): boolean =>
  totals.inserted + totals.updated + totals.newlyQuarantined + totals.markedDeleted === 0 &&
  totals.position === positionBefore
