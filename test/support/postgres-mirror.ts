// A mirror in Postgres for random worlds: what runs leave is read back after each of them. A time that passes makes all that is stored
// older, so that nothing waits.

import { noAlertFile } from '../../src/config/alert-file.ts'
import { readProblems } from '../../src/problems/find-problems.ts'
import { problemsByKey, stateOfStream } from '../../src/problems/stream-state.ts'
import { lookAgain, rejectDeletions } from '../../src/store/book/deletions.ts'
import { noteStandings, readStandings } from '../../src/store/book/watch.ts'
import { openStore } from '../../src/store/runs/open-store.ts'
import type { RunKind } from '../../src/streams/catalog.ts'
import type { Run, RunEnd } from '../../src/sync/ports/store.ts'
import { quietLog, type TestDatabase } from './database.ts'
import { type Freshness, nothingRead } from './model-freshness.ts'
import type { ObservedStore, StoredRow } from './model-store.ts'
import { modelStream, versionIn, versionNameOf } from './model-upstream.ts'
import type { World } from './model-worlds.ts'
import { dynamicIn } from './settings.ts'

const { name } = modelStream
const dynamic = dynamicIn({ STALE_AFTER: '30m' })

export type Shown = Freshness & {
  readonly state: string | null
  readonly reason: string | null
  readonly loadedShare: number | null
}

export async function openPostgresMirror(
  { pool }: Pick<TestDatabase, 'pool'>,
  { world, isWatched }: { readonly world: World; readonly isWatched: boolean },
) {
  await pool.query(`
    drop view if exists bi.${name} cascade;
    drop table if exists mirror.${name} cascade;
    truncate tidemark.run, tidemark.lease, tidemark.checkpoint, tidemark.belief, tidemark.suspect, tidemark.quarantine, tidemark.difference,
      tidemark.late_arrival, tidemark.missed_rows, tidemark.pinned_record, tidemark.epoch, tidemark.local_change, tidemark.progress,
      tidemark.standing, tidemark.field;
    delete from tidemark.stream where name = '${name}';
    insert into tidemark.stream (name) values ('${name}')`)
  let passedMs = 0
  const open = () =>
    openStore({ database: { pool }, streams: [modelStream], sourceTimezone: 'UTC', log: quietLog })
  let inner = open()
  const rows = new Map<string, StoredRow>()
  let shown: Shown = nothing
  let isBlocked = false
  let isRunning = false
  /** In the time of the world. */
  const asThere = (at: Date | null) => at && new Date(at.getTime() + passedMs)

  async function look(): Promise<void> {
    if (isWatched) await noteState()
    const {
      rows: [found],
    } = await pool.query<Shown & { isBlocked: boolean }>(shownSql, [name])
    if (!found) throw new Error('the stream is not there')
    isBlocked = found.isBlocked
    shown = {
      ...found,
      readThroughVersion: BigInt(found.readThroughVersion),
      readThroughTime: asThere(found.readThroughTime),
      settledThroughVersion:
        found.settledThroughVersion === null ? null : BigInt(found.settledThroughVersion),
      settledThroughTime: asThere(found.settledThroughTime),
      deletionsKnownThrough: asThere(found.deletionsKnownThrough),
      lookedBackAt: asThere(found.lookedBackAt),
    }
    rows.clear()
    for (const row of await readRows()) rows.set(row.key, row)
  }

  /** As a worker notes it; without one the view has to do. */
  async function noteState(): Promise<void> {
    const now = new Date()
    const problems = await readProblems({
      ...{ pool, streams: [modelStream], view: { parts: [] }, now },
      config: { dynamic, alertFile: noAlertFile },
    })
    const [standing] = await readStandings(pool, [name])
    if (!standing) return
    const { state, reason } = stateOfStream(standing, modelStream.service, problemsByKey(problems))
    await noteStandings(pool, [{ stream: name, state, reason }])
  }

  async function readRows(): Promise<readonly StoredRow[]> {
    const {
      rows: [table],
    } = await pool.query(`select from pg_tables where schemaname = 'mirror' and tablename = $1`, [name])
    if (!table) return []
    const versionColumn = world.hasLegacyVersion ? 'sys_row_version' : 'row_version'
    const { rows: found } = await pool.query<{
      key: string
      version: string | null
      text: string
      gone: StoredRow['gone']
      at: Date | null
      seen: Date
    }>(
      `select id::text as key, to_jsonb(mine) ->> '${versionColumn}' as version, to_jsonb(mine) ->> 'text' as text,
         _deleted_reason as gone, _deleted_at as at, _first_seen_at as seen
       from mirror.${name} as mine`,
    )
    return found.map(({ key, version: digits, text, gone, at, seen }) => {
      const version = digits === null ? null : versionOf(digits)
      const record = {
        Text: Number(text),
        [versionNameOf(world)]: version === null ? null : versionIn(world.versions, version),
      }
      return {
        key,
        version,
        record,
        gone,
        writtenAt: 0,
        firstSeenAt: seen,
        markedAt: asThere(at) ?? new Date(0),
      }
    })
  }

  const store: ObservedStore = {
    nextBackfill: (stream) => inner.nextBackfill(stream),
    history: {
      positionAt: (...asked) => inner.history.positionAt(...asked),
      reachedAt: (...asked) => inner.history.reachedAt(...asked),
      anchors: (...asked) => inner.history.anchors(...asked),
      known: (...asked) => inner.history.known(...asked),
      hasRows: (...asked) => inner.history.hasRows(...asked),
    },
    async openRun<Kind extends RunKind>(kind: Kind, stream: string) {
      const run = await inner.openRun(kind, stream)
      if ('busy' in run) return run
      isRunning = true
      const finish = async (end: RunEnd) => {
        await run.finish(end)
        isRunning = false
        await look()
        store.onFinish(end, kind)
        store.onFinished(kind)
      }
      return { ...run, finish } as Run<Kind>
    },
    rows,
    position: () => shown.readThroughVersion,
    isBlocked: () => isBlocked,
    freshness: () => shown,
    async reject(isRejected) {
      const rejecting = { stream: modelStream, by: 'somebody', reason: null, restores: false }
      if (isRejected) await rejectDeletions(pool, rejecting)
      else await lookAgain(pool, name)
    },
    onFinish: () => {},
    onFinished: () => {},
  }
  return {
    store,
    shown: () => shown,
    /** In the time of the world. */
    now: () => new Date(Date.now() + passedMs),
    /** No run waits. */
    async pass(ms: number): Promise<void> {
      if (isRunning) return
      await pool.query(agingSql(ms))
      passedMs += ms
      inner = open()
    },
  }
}

const nothing: Shown = { ...nothingRead, state: null, reason: null, loadedShare: null }

/** Bytes stay text where another field was taken for the version when they first came. */
const versionOf = (digits: string): bigint =>
  /^\d+$/.test(digits) ? BigInt(digits) : Buffer.from(digits, 'base64').readBigInt64BE()

const shownSql = `
  select coalesce(read_through_version, 0)::text as "readThroughVersion", read_through_time as "readThroughTime",
    fresh.settled_through_version::text as "settledThroughVersion", settled_through_time as "settledThroughTime",
    deletions_known_through as "deletionsKnownThrough", state, reason, loaded_share as "loadedShare",
    last_lookback_at as "lookedBackAt", blocked_deletions is not null as "isBlocked"
  from tidemark.freshness as fresh join tidemark.stream on name = fresh.stream where name = $1`

/** The rows are not damaged by that. */
const agingSql = (ms: number): string => `do $$ declare found record; begin
  perform set_config('tidemark.writer', 'on', true);
  for found in
    select format('%I.%I', table_schema, table_name) as name,
      string_agg(format('%1$I = %1$I - interval ''${ms} ms''', column_name), ', ') as shifts
    from information_schema.columns join information_schema.tables using (table_schema, table_name)
    where table_type = 'BASE TABLE' and data_type = 'timestamp with time zone'
      and table_name in ('${name}', 'run', 'checkpoint', 'belief', 'suspect', 'stream', 'late_arrival', 'pinned_record', 'epoch', 'standing', 'quarantine')
      and (table_schema = 'tidemark' or column_name like '\\_%')
    group by 1
  loop execute format('update %s set %s', found.name, found.shifts); end loop;
end $$`
