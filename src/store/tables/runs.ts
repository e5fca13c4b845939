// What was read and what is to be read: the ledger of runs, and backfills.

import { sql } from 'drizzle-orm'
import { boolean, index, integer, jsonb, primaryKey, text } from 'drizzle-orm/pg-core'
import { at, count, identity, int8, ofStream, tidemark } from './state.ts'

/** Which run wrote which rows: all rows of a page have the same time. */
export const pageTable = tidemark.table(
  'page',
  {
    /** The table of the mirror. */
    table: text('table').notNull(),
    /** `_synced_at` of its rows. */
    writtenAt: at('written_at').notNull(),
    /** The run. */
    runId: int8('run_id').notNull(),
  },
  (table) => [index('page_by_time').on(table.table, table.writtenAt), index('page_by_run').on(table.runId)],
)

/** The history of runs, one line each; runs in a row that found nothing share one. */
export const runTable = tidemark.table(
  'run',
  {
    id: identity(),
    ...ofStream(),
    /** Why the stream was read. */
    kind: text('kind').notNull(),
    /** How it ended, or `running`. */
    status: text('status', { enum: ['running', 'done', 'failed', 'inconclusive'] }).notNull(),
    /** When it began. */
    startedAt: at('started_at').notNull().defaultNow(),
    /** When it ended. */
    finishedAt: at('finished_at'),
    /** Machine of the program that ran it. */
    host: text('host').notNull(),
    /** Process of that program. */
    pid: integer('pid').notNull(),
    /** Position at its beginning. */
    positionFrom: int8('position_from'),
    /** Position at its end. */
    positionTo: int8('position_to'),
    /** New rows. */
    inserted: count('inserted'),
    /** Rows that changed. */
    updated: count('updated'),
    /** Records that arrived unchanged. */
    unchanged: count('unchanged'),
    /** Values that did not fit their column. */
    rescued: count('rescued'),
    /** Records that cannot be rows. */
    quarantined: count('quarantined'),
    /** Rows that were marked deleted. */
    markedDeleted: count('marked_deleted'),
    /** How many differences a reconcile found, by cause; empty for runs that compare nothing. */
    differences: jsonb('differences'),
    /** Requests to the upstream. */
    requests: count('requests'),
    /** Bytes of its answers. */
    bytes: count('bytes'),
    /** Why it failed. */
    error: text('error'),
    /** Error code, if there is one. */
    errorCode: text('error_code'),
    /** What else is worth knowing. */
    note: text('note'),
    /** True when nothing changed here. */
    isIdle: boolean('is_idle').notNull().default(false),
    /** How many runs in a row this line stands for. */
    polls: integer('polls').notNull().default(1),
    /** The last of them; empty: this line's own run. */
    lastId: int8('last_id'),
    /**
     * Its steps, as `[{what, from, to, requests, records, waitedMs, waits}]` in milliseconds since it began; empty for a very short run.
     */
    steps: jsonb('steps'),
  },
  (table) => [
    index('run_by_kind').on(table.stream, table.kind, table.id),
    index('run_by_time').on(table.stream, table.kind, table.startedAt),
    index('run_in_progress').on(table.stream, table.kind).where(sql`status = 'running'`),
  ],
)

/** Requested backfills and their progress. */
export const backfillTable = tidemark.table(
  'backfill',
  {
    id: identity(),
    ...ofStream(),
    /** It reads what is above this row version. */
    positionFrom: int8('position_from').notNull(),
    /** It reads up to this row version. */
    positionTo: int8('position_to').notNull(),
    /** Read again up to here. */
    position: int8('position').notNull(),
    /** While versions are read in ranges: the ranges above the position that are still unread, and up to which version. */
    unread: jsonb('unread'),
    /** Its state. */
    status: text('status', { enum: ['waiting', 'running', 'done', 'cancelled'] })
      .notNull()
      .default('waiting'),
    /** When it was asked for. */
    requestedAt: at('requested_at').notNull().defaultNow(),
    /** Who asked for it. */
    requestedBy: text('requested_by').notNull(),
    /** When the first run took it up. */
    startedAt: at('started_at'),
    /** When it ended. */
    finishedAt: at('finished_at'),
    /** Rows that were read. */
    rowsRead: count('rows_read'),
    /** New rows among them. */
    inserted: count('inserted'),
    /** Changed rows among them. */
    updated: count('updated'),
    /** Records among them that cannot be rows. */
    quarantined: count('quarantined'),
    /** How many runs took it up. */
    attempts: integer('attempts').notNull().default(0),
    /** Why the last attempt did not finish it. */
    error: text('error'),
    /** Earliest time of the next attempt, because the upstream kept changing during the last one; empty: at once. */
    retryAt: at('retry_at'),
    /** What else is worth knowing. */
    note: text('note'),
  },
  (table) => [index('backfill_by_stream').on(table.stream, table.id)],
)

/**
 * Runs that are due at another time than their schedule says: a person asked for one, or a backfill is to be tried again. A line goes when
 * its run has ended. What comes as its schedule says has no line here.
 */
export const dueTable = tidemark.table(
  'due',
  {
    ...ofStream(),
    /** The kind of run. */
    kind: text('kind').notNull(),
    /** From when on it is due. While it waits in the queue or runs, this is when it would be handed to the queue again. */
    dueAt: at('due_at').notNull().defaultNow(),
    /** When it was last asked for; tells a new request from one whose run is under way. */
    askedAt: at('asked_at').notNull().default(sql`clock_timestamp()`),
  },
  (table) => [primaryKey({ columns: [table.stream, table.kind] })],
)
