// What reading came upon: records that are no rows, versions that came late, rows that are gone, rows only a reconcile found.

import { sql } from 'drizzle-orm'
import { index, integer, jsonb, numeric, primaryKey, text, unique } from 'drizzle-orm/pg-core'
import { at, bytes, count, identity, int8, tidemark } from './state.ts'

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

export const suspectTable = tidemark.table(
  'suspect',
  {
    stream: text('stream').notNull(),
    key: text('key').notNull(),
    missingSince: at('missing_since').notNull().defaultNow(),
    /** What a look at the record itself showed; null where no such look exists. */
    evidence: text('evidence'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.key] })],
)

/** Rows that only a reconcile found: one line a run. They stand until somebody has taken note of them. */
export const missedRowsTable = tidemark.table(
  'missed_rows',
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
    index('missed_rows_open').on(table.stream).where(sql`acknowledged_at is null`),
    unique('missed_rows_once').on(table.stream, table.runId),
  ],
)

// What was learnt about the upstream: facts about its behaviour, and the fields of its records.
export const beliefTable = tidemark.table(
  'belief',
  {
    stream: text('stream').notNull(),
    name: text('name').notNull(),
    value: text('value').notNull(),
    evidence: text('evidence').notNull(),
    firstAt: at('first_at').notNull(),
    testedAt: at('tested_at').notNull(),
    previousValue: text('previous_value'),
    changedAt: at('changed_at'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.name] })],
)

export const fieldTable = tidemark.table(
  'field',
  {
    stream: text('stream').notNull(),
    /** The field's name without regard to case: what makes it the same field. */
    folded: text('folded').notNull(),
    sourceName: text('source_name').notNull(),
    /** Null when the field has no column: its values are in `_rescued`. */
    columnName: text('column_name'),
    columnType: text('column_type'),
    note: text('note'),
    firstSeenAt: at('first_seen_at').notNull().defaultNow(),
    lastSeenAt: at('last_seen_at').notNull().defaultNow(),
    recordsSeen: count('records_seen'),
    nullsSeen: count('nulls_seen'),
    rescued: count('rescued'),
    /** When the first value of it did not fit its column. */
    rescuedSince: at('rescued_since'),
    /** When its column was widened, or should have been. */
    widenedAt: at('widened_at'),
    nullShare: numeric('null_share', { precision: 5, scale: 4 }).generatedAlwaysAs(
      sql`nulls_seen::numeric / nullif(records_seen, 0)`,
    ),
  },
  (table) => [primaryKey({ columns: [table.stream, table.folded] })],
)

// Assignments' related records: as of when they were read, and which they are.
/** What is known of an assignment's related records: as of which of its rows they were read. */
export const relatedFetchTable = tidemark.table(
  'related_fetch',
  {
    assignmentId: int8('assignment_id').primaryKey(),
    /** The row of the assignment that was there before its related records were asked for; another one asks for them again. */
    hash: bytes('hash').notNull(),
    groups: text('groups').array().notNull(),
    fetchedAt: at('fetched_at'),
    /** Why the last attempt brought nothing; null when it did. */
    problem: text('problem'),
    attempts: integer('attempts').notNull().default(0),
    retryAt: at('retry_at'),
  },
  (table) => [
    index('related_fetch_by_age').on(table.fetchedAt),
    index('related_fetch_to_retry').on(table.retryAt).where(sql`retry_at is not null`),
  ],
)

/** Which related records each assignment has. */
export const relatedLinkTable = tidemark.table(
  'related_link',
  {
    assignmentId: int8('assignment_id').notNull(),
    stream: text('stream').notNull(),
    key: text('key').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.assignmentId, table.stream, table.key] }),
    index('related_link_by_key').on(table.stream, table.key),
  ],
)

// What people were told: one line for each problem that was seen lately.
export const problemTable = tidemark.table('problem', {
  key: text('key').primaryKey(),
  kind: text('kind').notNull(),
  stream: text('stream'),
  what: text('what').notNull(),
  whatToDo: text('what_to_do').notNull(),
  since: at('since').notNull(),
  /** Since when it is no longer seen; null while it stands. */
  goneSince: at('gone_since'),
  /** Null until people were told that it began. */
  toldAt: at('told_at'),
  /** How often the telling failed, and when it is tried again. */
  attempts: integer('attempts').notNull().default(0),
  retryAt: at('retry_at'),
})
