// What reading came upon: records that are no rows, versions that came late, rows that are gone, rows only a reconcile found.

import { sql } from 'drizzle-orm'
import {
  boolean,
  index,
  integer,
  jsonb,
  numeric,
  primaryKey,
  text,
  unique,
  uniqueIndex,
} from 'drizzle-orm/pg-core'
import { at, count, identity, int8, tidemark } from './state.ts'

/** Records that cannot be rows, each once, however often it came. */
export const quarantineTable = tidemark.table(
  'quarantine',
  {
    id: identity(),
    /** The stream. */
    stream: text('stream').notNull(),
    /** Why it cannot be a row. */
    reason: text('reason').notNull(),
    /** The record, when jsonb can hold it. */
    record: jsonb('record'),
    /** The record as JSON text, when jsonb cannot. */
    recordText: text('record_text'),
    /** Earlier values of fields that the record carried twice. */
    repeated: jsonb('repeated'),
    /** Tells whether a record is the same as one that is here already. */
    fingerprint: text('fingerprint').notNull(),
    /** When it first came. */
    firstSeenAt: at('first_seen_at').notNull().defaultNow(),
    /** When it last came. */
    lastSeenAt: at('last_seen_at').notNull().defaultNow(),
    /** How often it came. */
    timesSeen: count('times_seen'),
    /** When somebody dropped it; empty: it is open. */
    droppedAt: at('dropped_at'),
    /** Why it was dropped. */
    dropReason: text('drop_reason'),
  },
  (table) => [unique('quarantine_once').on(table.stream, table.fingerprint)],
)

/** Rows that became visible after a higher version had been read, for 90 days. */
export const lateArrivalTable = tidemark.table(
  'late_arrival',
  {
    id: identity(),
    /** The stream. */
    stream: text('stream').notNull(),
    /** Key of the row. */
    key: text('key').notNull(),
    /** Its row version. */
    version: int8('version').notNull(),
    /** How far below the position that was. */
    distance: int8('distance').notNull(),
    /** How late it was, in milliseconds. */
    lateMs: int8('late_ms').notNull(),
    /** When it was found. */
    foundAt: at('found_at').notNull().defaultNow(),
    /** The run that found it. */
    runId: int8('run_id'),
  },
  (table) => [
    index('late_arrival_by_time').on(table.stream, table.foundAt),
    index('late_arrival_by_key').on(table.stream, table.key),
  ],
)

/** Rows whose record was missing from a list, and what a look at the record said. */
export const suspectTable = tidemark.table(
  'suspect',
  {
    /** The stream. */
    stream: text('stream').notNull(),
    /** Key of the row. */
    key: text('key').notNull(),
    /** When it was first missing. */
    missingSince: at('missing_since').notNull().defaultNow(),
    /** What a look at the record itself showed; empty where there is no such look. */
    evidence: text('evidence'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.key] })],
)

/** Rows that only a reconcile found: one line a run. They are a problem until somebody acknowledges them. */
export const missedRowsTable = tidemark.table(
  'missed_rows',
  {
    id: identity(),
    /** The stream. */
    stream: text('stream').notNull(),
    /** The reconcile. */
    runId: int8('run_id').notNull(),
    /** When it found them. */
    foundAt: at('found_at').notNull().defaultNow(),
    /** How many. */
    rows: count('rows'),
    /** The first of them, as `{key, version, isNew}`. */
    samples: jsonb('samples').notNull(),
    /** When somebody acknowledged them. */
    acknowledgedAt: at('acknowledged_at'),
    /** Who did. */
    acknowledgedBy: text('acknowledged_by'),
  },
  (table) => [
    index('missed_rows_open').on(table.stream).where(sql`acknowledged_at is null`),
    unique('missed_rows_once').on(table.stream, table.runId),
  ],
)

/** What others did to the tables of the mirror, for 90 days: one line for each operation of a transaction. */
export const localChangeTable = tidemark.table(
  'local_change',
  {
    id: identity(),
    /** The stream, or the name of its history table. */
    stream: text('stream').notNull(),
    /** What was done: `insert`, `update`, `delete`, `truncate`; `drop`, `replace` (another table of its name), `unwatch` (its triggers were removed or disabled), `drop months` (of a history). */
    operation: text('operation').notNull(),
    /** How many rows, where that is known. */
    rows: int8('rows'),
    /** The role that did it; empty where that is not known. */
    role: text('role'),
    /** What its connection called itself. */
    application: text('application'),
    /** When it was done, or noticed where nobody saw it done. */
    notedAt: at('noted_at').notNull().defaultNow(),
    /** Of a history: when the earliest of the rows had been seen; empty where that is not known. */
    lostFrom: at('lost_from'),
    /** When the latest of them had been seen. */
    lostThrough: at('lost_through'),
    /** The transaction that did it. */
    transaction: int8('transaction').notNull(),
    /** The run that began to mend it, or noticed it in a history; empty: the next one will. */
    runId: int8('run_id'),
  },
  (table) => [
    // Restored to another server, transactions have the numbers of others.
    uniqueIndex('local_change_open')
      .on(table.stream, table.operation, table.transaction)
      .where(sql`run_id is null`),
    index('local_change_by_time').on(table.stream, table.notedAt),
  ],
)

/**
 * What reconciles found, with the cause of each (P16), for 90 days and no more than the newest 10,000 of a stream. Of one cause a run
 * keeps 1,000 lines; how many there were in all is in `run.differences`.
 */
export const differenceTable = tidemark.table(
  'difference',
  {
    id: identity(),
    /** The stream. */
    stream: text('stream').notNull(),
    /** Key of the row. */
    key: text('key').notNull(),
    /** Why the row differed: `late`, `silent`, `volatile`, `fell back`, `restored`, `local damage`, `deleted`, `undeleted` or `twin`. */
    cause: text('cause').notNull(),
    /** Row version of the row here; empty when there was none. */
    versionHere: int8('version_here'),
    /** Row version of the record upstream; empty when it is gone. */
    versionThere: int8('version_there'),
    /** Columns that differed; values without a column as `_rescued.<field>`. Empty where all is new. */
    fields: text('fields').array().notNull().default(sql`'{}'`),
    /** When it was found. */
    foundAt: at('found_at').notNull().defaultNow(),
    /** The run that found it. */
    runId: int8('run_id').notNull(),
    /** When it was mended; empty: it was not. */
    curedAt: at('cured_at'),
    /** How it was mended, or why it was not. */
    cure: text('cure'),
  },
  (table) => [index('difference_by_stream').on(table.stream, table.id)],
)

/** Rows of different ages whose records are looked at again and again: one with an older version than here fell, because the upstream went back. */
export const pinnedRecordTable = tidemark.table(
  'pinned_record',
  {
    /** The stream. */
    stream: text('stream').notNull(),
    /** Key of the row. */
    key: text('key').notNull(),
    /** Version of the row. When it changes the record is pinned no more. */
    version: int8('version').notNull(),
    /** When the record was last looked at; of one that was not yet, when it was pinned. */
    lookedAt: at('looked_at').notNull().defaultNow(),
    /** Since when each look at it showed an older version, or none; empty: it is as here. */
    lostSince: at('lost_since'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.key] })],
)

/** When the upstream went back to an older state, as after a restored backup, and everything was read again. */
export const epochTable = tidemark.table(
  'epoch',
  {
    id: identity(),
    /** The stream. */
    stream: text('stream').notNull(),
    /** When it began. */
    beganAt: at('began_at').notNull().defaultNow(),
    /** The run that noticed it. */
    runId: int8('run_id').notNull(),
    /** The position that was held then. */
    position: int8('position').notNull(),
    /** How many pinned records were looked at. */
    looked: integer('looked').notNull(),
    /** How many of them had an older version than here, or were gone. */
    lost: integer('lost').notNull(),
    /** By what it was noticed. */
    evidence: text('evidence').notNull(),
  },
  (table) => [index('epoch_by_time').on(table.stream, table.beganAt)],
)

/** How the upstream behaves: what was observed, and on what evidence. */
export const beliefTable = tidemark.table(
  'belief',
  {
    /** The stream. */
    stream: text('stream').notNull(),
    /** What it is about. */
    name: text('name').notNull(),
    /** What was observed. */
    value: text('value').notNull(),
    /** By what it was observed. */
    evidence: text('evidence').notNull(),
    /** When it was first observed. */
    firstAt: at('first_at').notNull(),
    /** When it was last observed. */
    testedAt: at('tested_at').notNull(),
    /** From then on it is not relied on until it is tested again; empty: as long as beliefs of its kind last. */
    expiresAt: at('expires_at'),
    /** What it was before. */
    previousValue: text('previous_value'),
    /** When it changed. */
    changedAt: at('changed_at'),
    /** Since when runs rely on it; empty: none does, or what rested on it was taken back. */
    restsSince: at('rests_since'),
    /** Where the position was before the first of them. */
    restsFrom: int8('rests_from'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.name] })],
)

/** The dictionary: every field that was seen, and its column. */
export const fieldTable = tidemark.table(
  'field',
  {
    /** The stream. */
    stream: text('stream').notNull(),
    /** The name of the field without regard to case: what makes it the same field. */
    folded: text('folded').notNull(),
    /** The name as the upstream writes it. */
    sourceName: text('source_name').notNull(),
    /** Its column; empty when it has none and its values are in `_rescued`. */
    columnName: text('column_name'),
    /** Type of the column. */
    columnType: text('column_type'),
    /** Why it has no column, or another type than it should. */
    note: text('note'),
    /** What the upstream says that its values are; empty: it does not describe the field. */
    describedAs: text('described_as'),
    /** What the upstream says that it means. */
    description: text('description'),
    /** The only values that it may have, as the upstream says. */
    allowedValues: text('allowed_values').array(),
    /** View that its values are keys of, where rows confirmed that. */
    refersTo: text('refers_to'),
    /** The upstream says that every record has it. */
    isRequired: boolean('is_required'),
    /** The upstream says that it may be null. */
    isNullable: boolean('is_nullable'),
    /** When it first came. */
    firstSeenAt: at('first_seen_at').notNull().defaultNow(),
    /** When it last came with a value. */
    lastSeenAt: at('last_seen_at').notNull().defaultNow(),
    /** Records that were counted. */
    recordsSeen: count('records_seen'),
    /** Records in which it was empty or missing. */
    nullsSeen: count('nulls_seen'),
    /** How often a value did not fit the column. */
    rescued: count('rescued'),
    /** When that happened first. */
    rescuedSince: at('rescued_since'),
    /** When its column was widened, or should have been. */
    widenedAt: at('widened_at'),
    /** Since when it is known to have other values at the same row version, again and again: a row that differs in it alone is no changed row. Empty: it is compared. */
    volatileSince: at('volatile_since'),
    /** By what that was found out. */
    volatileEvidence: text('volatile_evidence'),
    /** Reconciles in a row in which it differed at the same row version in at least half of the rows. */
    silentRuns: integer('silent_runs').notNull().default(0),
    /** Of a volatile field: reconciles in a row, at least half a day apart, in which it was as before in the records that were looked at. */
    steadyRuns: integer('steady_runs').notNull().default(0),
    /** What it was in some records at the last of them. */
    steadySample: jsonb('steady_sample'),
    /** Share of the records in which it was empty or missing. */
    nullShare: numeric('null_share', { precision: 5, scale: 4 }).generatedAlwaysAs(
      sql`nulls_seen::numeric / nullif(records_seen, 0)`,
    ),
  },
  (table) => [primaryKey({ columns: [table.stream, table.folded] })],
)
