// What was read and what is to be read: the ledger of runs, and backfills.

import { sql } from 'drizzle-orm'
import { boolean, index, integer, text } from 'drizzle-orm/pg-core'
import { at, count, identity, int8, tidemark } from './state.ts'

export const runTable = tidemark.table(
  'run',
  {
    id: identity(),
    stream: text('stream').notNull(),
    kind: text('kind').notNull(),
    status: text('status', { enum: ['running', 'done', 'failed'] }).notNull(),
    startedAt: at('started_at').notNull().defaultNow(),
    finishedAt: at('finished_at'),
    host: text('host').notNull(),
    pid: integer('pid').notNull(),
    positionFrom: int8('position_from'),
    positionTo: int8('position_to'),
    inserted: count('inserted'),
    updated: count('updated'),
    unchanged: count('unchanged'),
    rescued: count('rescued'),
    quarantined: count('quarantined'),
    markedDeleted: count('marked_deleted'),
    requests: count('requests'),
    bytes: count('bytes'),
    error: text('error'),
    /** What kind of error it was, where it has a code. */
    errorCode: text('error_code'),
    note: text('note'),
    /** Nothing in the mirror changed. */
    isIdle: boolean('is_idle').notNull().default(false),
    /** How many runs in a row this line stands for: idle ones share one. */
    polls: integer('polls').notNull().default(1),
  },
  (table) => [
    index('run_by_kind').on(table.stream, table.kind, table.id),
    index('run_in_progress').on(table.stream, table.kind).where(sql`status = 'running'`),
  ],
)

/** A part of the past to be read again, as it was asked for and as far as it has come. */
export const backfillTable = tidemark.table(
  'backfill',
  {
    id: identity(),
    stream: text('stream').notNull(),
    positionFrom: int8('position_from').notNull(),
    positionTo: int8('position_to').notNull(),
    /** Read again up to here. */
    position: int8('position').notNull(),
    status: text('status', { enum: ['waiting', 'running', 'done', 'cancelled'] })
      .notNull()
      .default('waiting'),
    requestedAt: at('requested_at').notNull().defaultNow(),
    requestedBy: text('requested_by').notNull(),
    startedAt: at('started_at'),
    finishedAt: at('finished_at'),
    rowsRead: count('rows_read'),
    inserted: count('inserted'),
    updated: count('updated'),
    quarantined: count('quarantined'),
    /** How often a run took it up. */
    attempts: integer('attempts').notNull().default(0),
    /** Why the last attempt did not finish it. */
    error: text('error'),
    /** Not to be tried before, because the upstream kept disturbing the last attempt; null: at once. */
    retryAt: at('retry_at'),
    note: text('note'),
  },
  (table) => [index('backfill_by_stream').on(table.stream, table.id)],
)
