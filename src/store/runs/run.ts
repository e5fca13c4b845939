// One run: the lane it holds, the pages it writes, and its line in the ledger. Its own connection carries the lock and
// what must be remembered of a listing; pages travel on others.

import type { ClientBase, Pool } from 'pg'
import type { Logger } from '../../log.ts'
import type { RunKind, Stream } from '../../streams/catalog.ts'
import type { Busy, Run, RunEnd } from '../../sync/ports/store.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { type Connection, takeConnection } from '../server/session.ts'
import { openWriters, startPageWriter } from '../writing/page-writer.ts'
import { keepSpeaking, type Lease, moveBack } from './lease.ts'
import { beginRun, endRun, giveBackLease, type RunTotals, takeLease, whoHasLease } from './ledger.ts'
import { countAbsent, settleAbsences } from './list-absences.ts'
import { beginBackfill, retreatBackfill } from './positions.ts'
import { openNotes } from './run-findings.ts'
import { openSeenKeys, type SeenKeys } from './seen-keys.ts'

type Options = {
  readonly pool: Pool
  readonly stream: Stream
  readonly kind: RunKind
  readonly collectArrivals: boolean
  readonly timeZone: string
  readonly connections: number
  /** How long the past of rows is kept, where it is. */
  readonly keptMs: number
  readonly log: Logger
  /** After so long without a word from this program its lane goes to whoever wants it. */
  readonly silenceMs: number
  /** The backfill to take up; null in every other lane. */
  readonly backfill?: string | null
  /** Called after a run that changed something. */
  readonly afterChange: (stream: string) => Promise<void>
}

/** What a run is made of, for those who add to what it can do. */
export type RunParts = {
  readonly client: ClientBase
  readonly stream: Stream
  readonly lease: Lease
  readonly timeZone: string
  readonly log: Logger
  readonly keyField: () => string | null
  readonly seenKeys: SeenKeys
  readonly onMarked: (rows: number) => void
  /** Runs on the run's own connection, when no page is being written. */
  afterWrites<Result>(work: () => Promise<Result>): Promise<Result>
}

export async function takeRun<Added>(
  options: Options,
  add: (parts: RunParts) => Added,
): Promise<(Run & Added) | Busy> {
  const connection = await takeConnection(options.pool)
  const place = { stream: options.stream.name, kind: options.kind }
  try {
    const epoch = await takeLease(connection.client, place, options.silenceMs)
    if (epoch !== null) return await startRun(connection, options, epoch, add)
    const busy = await whoHasLease(connection.client, place)
    connection.release()
    return { busy }
  } catch (error) {
    connection.release(error)
    throw error
  }
}

async function startRun<Added>(
  connection: Connection,
  options: Options,
  epoch: string,
  add: (parts: RunParts) => Added,
): Promise<Run & Added> {
  const { pool, stream, kind, backfill = null } = options
  const { client } = connection
  const { runId, state: known } = await beginRun(client, { stream: stream.name, kind })
  const lease: Lease = { stream: stream.name, kind, epoch, runId, backfill }
  const state =
    backfill === null ? known : { ...known, position: await beginBackfill(client, lease, backfill) }
  const notes = openNotes(pool, lease)
  const seenKeys = openSeenKeys(client)
  const oneAtATime = queue()
  let keyField = state.keyField
  const totals: RunTotals = {
    inserted: 0,
    updated: 0,
    unchanged: 0,
    rescued: 0,
    quarantined: 0,
    newlyQuarantined: 0,
    markedDeleted: 0,
    position: state.position,
  }
  const writers = openWriters((table, ownKeyField, onTally) =>
    startPageWriter({
      pool,
      stream: table,
      lease,
      keyField: ownKeyField,
      collectArrivals: options.collectArrivals,
      timeZone: options.timeZone,
      connections: table === stream ? options.connections : 1,
      keptMs: options.keptMs,
      log: options.log,
      onCommit({ written, tally, newlyQuarantined, position }) {
        for (const count of ['inserted', 'updated', 'unchanged', 'rescued', 'quarantined'] as const)
          totals[count] += written[count]
        totals.newlyQuarantined += newlyQuarantined
        if (position !== null && position > totals.position) totals.position = position
        if (tally) onTally(tally)
      },
    }),
  )
  const writer = writers.of(stream, () => keyField)

  async function afterWrites<Result>(work: () => Promise<Result>): Promise<Result> {
    await writers.settled()
    return await oneAtATime(work)
  }

  const listing = async () => ({ lease, tableSchema: await readTableSchema(client, stream), seenKeys })

  const fallSilent = keepSpeaking(() => oneAtATime(() => client.query('select')), options.silenceMs)

  async function finish(end: RunEnd): Promise<void> {
    await writers.settled()
    fallSilent()
    await oneAtATime(async () => {
      writers.close()
      let failure: unknown
      try {
        const isIdle = end.status === 'done' && hasChangedNothing(totals, state.position)
        await writers.flushDictionaries(pool)
        await endRun(pool, lease, totals, { ...end, isIdle })
        if (!isIdle) await options.afterChange(stream.name)
      } finally {
        await letGo().catch((error) => {
          failure = error
        })
        connection.release(failure)
      }
    })
  }

  async function letGo(): Promise<void> {
    await seenKeys.drop()
    await giveBackLease(client, { stream: stream.name, kind })
  }

  const parts: RunParts = {
    client,
    stream,
    lease,
    timeZone: options.timeZone,
    log: options.log,
    keyField: () => keyField,
    seenKeys,
    onMarked: (rows) => {
      totals.markedDeleted += rows
    },
    afterWrites,
  }

  return {
    ...add(parts),
    id: lease.runId,
    state,
    write: (page, position, beside) =>
      beside
        ? writers.of(beside.stream, () => beside.keyField).write(page, null)
        : writer.write(page, position),
    see: (pageNumber, keys) => oneAtATime(() => seenKeys.see(pageNumber, keys)),
    countSeenAround: (pageNumber) => oneAtATime(() => seenKeys.countSeenAround(pageNumber)),
    retreat: (position, reason) =>
      afterWrites(async () => {
        if (backfill === null) await moveBack(client, lease, position, reason)
        else await retreatBackfill(client, backfill, position)
        totals.position = position
      }),
    ...notes,
    async setKeyField(field) {
      await notes.setKeyField(field)
      keyField = field
    },
    countAbsent: (firstPage) => afterWrites(async () => countAbsent(client, await listing(), firstPage)),
    settleAbsences: (firstPage, approved = 0) =>
      afterWrites(async () => {
        const absences = await settleAbsences(client, await listing(), firstPage, approved)
        totals.markedDeleted += absences.marked
        return absences
      }),
    finish,
  }
}

const hasChangedNothing = (totals: RunTotals, positionBefore: bigint): boolean =>
  totals.inserted + totals.updated + totals.newlyQuarantined + totals.markedDeleted === 0 &&
  totals.position === positionBefore

/** Runs one thing at a time, in the order they came: a connection does not do two things at once. */
function queue(): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const result = last.then(work)
    last = result.catch(() => {})
    return result
  }
}
