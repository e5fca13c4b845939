// What reading came upon: records that are no rows, versions that came late, rows that are gone, rows only a census found.

import { sql } from 'drizzle-orm'
import { index, jsonb, primaryKey, text, unique } from 'drizzle-orm/pg-core'
import { at, count, identity, int8 } from './columns.ts'
import { tidemark } from './schemas.ts'

export const quarantineTable = tidemark.table(
  'quarantine',
  {
    id: identity(),
    stream: text('stream').notNull(),
    reason: text('reason').notNull(),
    /** The record, when jsonb can hold it. */
    record: jsonb('record'),
    /** The record as JSON text, when jsonb cannot. */
    recordText: text('record_text'),
    /** Earlier values of fields that the record carried twice. */
    repeated: jsonb('repeated'),
    fingerprint: text('fingerprint').notNull(),
    firstSeenAt: at('first_seen_at').notNull().defaultNow(),
    lastSeenAt: at('last_seen_at').notNull().defaultNow(),
    timesSeen: count('times_seen'),
    droppedAt: at('dropped_at'),
    dropReason: text('drop_reason'),
  },
  (table) => [unique('quarantine_once').on(table.stream, table.fingerprint)],
)

export const lateArrivalTable = tidemark.table(
  'late_arrival',
  {
    id: identity(),
    stream: text('stream').notNull(),
    key: text('key').notNull(),
    version: int8('version').notNull(),
    distance: int8('distance').notNull(),
    lateMs: int8('late_ms').notNull(),
    foundAt: at('found_at').notNull().defaultNow(),
    runId: int8('run_id'),
  },
  (table) => [index('late_arrival_by_time').on(table.stream, table.foundAt)],
)

export const absenceTable = tidemark.table(
  'absence',
  {
    stream: text('stream').notNull(),
    key: text('key').notNull(),
    missingSince: at('missing_since').notNull().defaultNow(),
    /** What a look at the record itself showed; null where no such look exists. */
    evidence: text('evidence'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.key] })],
)

/** Rows that only a census found: one line a run. They stand until somebody has taken note of them. */
export const rescueTable = tidemark.table(
  'rescue',
  {
    id: identity(),
    stream: text('stream').notNull(),
    runId: int8('run_id').notNull(),
    foundAt: at('found_at').notNull().defaultNow(),
    rows: count('rows'),
    /** The first of them, as `{key, version, isNew}`. */
    samples: jsonb('samples').notNull(),
    acknowledgedAt: at('acknowledged_at'),
    acknowledgedBy: text('acknowledged_by'),
  },
  (table) => [
    index('rescue_open').on(table.stream).where(sql`acknowledged_at is null`),
    unique('rescue_once').on(table.stream, table.runId),
  ],
)
