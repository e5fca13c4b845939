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
import { at, count, identity, int8, ofRow, ofStream, tidemark } from './state.ts'

/** Records that cannot be rows, each once, however often it arrived. */
export const quarantineTable = tidemark.table(
  'quarantine',
  {
    id: identity(),
    ...ofStream(),
    /** Why it cannot be a row. */
    reason: text('reason').notNull(),
    /** The record, when jsonb can hold it. */
    record: jsonb('record'),
    /** The record as JSON text, when jsonb cannot. */
    recordText: text('record_text'),
    /** Earlier values of fields that the record had twice. */
    repeated: jsonb('repeated'),
    /** Its key, if it has a usable one and the upstream may still list it. */
    key: text('key'),
    /** Equal for equal records. */
    fingerprint: text('fingerprint').notNull(),
    /** When it first arrived. */
    firstSeenAt: at('first_seen_at').notNull().defaultNow(),
    /** When it last came. */
    lastSeenAt: at('last_seen_at').notNull().defaultNow(),
    /** How often it came. */
    timesSeen: count('times_seen'),
    /** When it was dropped, or its record became a row; empty: it is open. */
    droppedAt: at('dropped_at'),
    /** Why it is closed. */
    dropReason: text('drop_reason'),
  },
  (table) => [unique('quarantine_once').on(table.stream, table.fingerprint)],
)

/** Rows that became visible after a higher version had been read, for 90 days. */
export const lateArrivalTable = tidemark.table(
  'late_arrival',
  {
    id: identity(),
    ...ofRow(),
    /** Its row version. */
    version: int8('version').notNull(),
    /** How far it was below the position. */
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

/** Rows whose record was missing from a list, and the result of looking the record up. */
export const suspectTable = tidemark.table(
  'suspect',
  {
    ...ofRow(),
    /** When it was first missing. */
    missingSince: at('missing_since').notNull().defaultNow(),
    /** What the lookup of the record showed; empty if there is no lookup. */
    evidence: text('evidence'),
    /** When a look last said that the record is there although the list lacks it. */
    thereAt: at('there_at'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.key] })],
)

/** Rows that only a reconcile found: one line a run. They are a problem until somebody acknowledges them. */
export const missedRowsTable = tidemark.table(
  'missed_rows',
  {
    id: identity(),
    ...ofStream(),
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
    /** What was done: `insert`, `update`, `delete`, `truncate`; `drop`, `replace` (another table of its name), `alter` (columns or its key were dropped, renamed or given other types), `unwatch` (its triggers were removed or disabled), `drop months` (of a history). */
    operation: text('operation').notNull(),
    /** How many rows, where that is known. */
    rows: int8('rows'),
    /** The role that did it; empty where that is not known. */
    role: text('role'),
    /** Application name of its connection. */
    application: text('application'),
    /** When it was done, or else when it was noticed. */
    notedAt: at('noted_at').notNull().defaultNow(),
    /** For a history: when the earliest of the rows was seen; empty if unknown. */
    lostFrom: at('lost_from'),
    /** When the latest of them was seen. */
    lostThrough: at('lost_through'),
    /** The transaction that did it. */
    transaction: int8('transaction').notNull(),
    /** The run that began the repair, or noticed the change in a history; empty: the next one will. */
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

/** Rows that may be wrong since somebody changed them in Postgres, until their records have come again. View `in_doubt` shows them. */
export const doubtTable = tidemark.table(
  'doubt',
  {
    ...ofRow(),
    /** Since when. */
    since: at('since').notNull().defaultNow(),
    /** Why. */
    why: text('why').notNull(),
  },
  (table) => [primaryKey({ columns: [table.stream, table.key] })],
)

/** Rows that may be wrong at the moment, and so are not settled whatever the time of their stream says. */
export const inDoubtView = tidemark
  .view('in_doubt', { stream: text('stream'), key: text('key'), since: at('since'), why: text('why') })
  .as(
    sql`select stream, key, since, why from tidemark.doubt
  union all select stream, key, lost_since, 'the upstream shows an older version of it' from tidemark.pinned_record where lost_since is not null
  union all select stream, key, first_seen_at, 'a record of it is in quarantine' from tidemark.quarantine where dropped_at is null
  union all select local_change.stream, null, noted_at, 'somebody changed the table in Postgres (' || operation || '), and no run has looked at it yet' from tidemark.local_change join tidemark.stream on stream.name = local_change.stream where run_id is null`,
  )

/**
 * What reconciles found, with the cause of each (P16), for 90 days and no more than the newest 10,000 of a stream. Of one cause a run
 * keeps 1,000 lines; how many there were in all is in `run.differences`.
 */
export const differenceTable = tidemark.table(
  'difference',
  {
    id: identity(),
    ...ofRow(),
    /** Why the row differed: `late`, `silent`, `volatile`, `fell back`, `restored`, `local damage`, `deleted`, `undeleted` or `twin`. */
    cause: text('cause').notNull(),
    /** Row version of the row here; empty when there was none. */
    versionHere: int8('version_here'),
    /** Row version of the record upstream; empty when it is gone. */
    versionThere: int8('version_there'),
    /** Columns that differed; values without a column as `_rescued.<field>`. Empty for a new row. */
    fields: text('fields').array().notNull().default(sql`'{}'`),
    /** When it was found. */
    foundAt: at('found_at').notNull().defaultNow(),
    /** The run that found it. */
    runId: int8('run_id').notNull(),
    /** When it was repaired; empty: not repaired. */
    curedAt: at('cured_at'),
    /** How it was repaired, or why not. */
    cure: text('cure'),
  },
  (table) => [index('difference_by_stream').on(table.stream, table.id)],
)

/** Rows of different ages whose records Tidemark keeps checking. An older version upstream than here means that the upstream went back. */
export const pinnedRecordTable = tidemark.table(
  'pinned_record',
  {
    ...ofRow(),
    /** Version of the row. When it changes, the record is no longer pinned. */
    version: int8('version').notNull(),
    /** When the record was last checked, or else when it was pinned; empty: it is checked next. */
    lookedAt: at('looked_at').defaultNow(),
    /** Since when every check showed an older version, or none; empty: it is the same as here. */
    lostSince: at('lost_since'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.key] })],
)

/** When the upstream went back to an older state, for example a restored backup, and everything was read again. */
export const epochTable = tidemark.table(
  'epoch',
  {
    id: identity(),
    ...ofStream(),
    /** When it began. */
    beganAt: at('began_at').notNull().defaultNow(),
    /** The run that noticed it. */
    runId: int8('run_id').notNull(),
    /** The position at that time. */
    position: int8('position').notNull(),
    /** How many pinned records were checked. */
    looked: integer('looked').notNull(),
    /** How many of these had an older version than here, or were gone. */
    lost: integer('lost').notNull(),
    /** How it was noticed. */
    evidence: text('evidence').notNull(),
  },
  (table) => [index('epoch_by_time').on(table.stream, table.beganAt)],
)

/** How the upstream behaves: what was observed, and on what evidence. */
export const beliefTable = tidemark.table(
  'belief',
  {
    ...ofStream(),
    /** What it is about. */
    name: text('name').notNull(),
    /** What was observed. */
    value: text('value').notNull(),
    /** The evidence for it. */
    evidence: text('evidence').notNull(),
    /** When it was first observed. */
    firstAt: at('first_at').notNull(),
    /** When it was last observed. */
    testedAt: at('tested_at').notNull(),
    /** When it expires and has to be tested again; empty: after the usual time for this belief. */
    expiresAt: at('expires_at'),
    /** The field of the row version at that time; empty: it was not known. What is observed of another field counts as expired. */
    versionField: text('version_field'),
    /** By which edition of the test it was observed; by an older one it counts as expired. 0: before editions were noted. */
    rule: integer('rule').notNull().default(0),
    /** What it was before. */
    previousValue: text('previous_value'),
    /** When it changed. */
    changedAt: at('changed_at'),
    /** Since when runs rely on it; empty: none does, or its consequences were taken back. */
    restsSince: at('rests_since'),
    /** Where the position was before the first of them. */
    restsFrom: int8('rests_from'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.name] })],
)

/** The data dictionary: every field that Tidemark has seen, and its column. */
export const fieldTable = tidemark.table(
  'field',
  {
    ...ofStream(),
    /** The name of the field, ignoring case: fields with the same folded name share a column. */
    folded: text('folded').notNull(),
    /** The name as the upstream writes it. */
    sourceName: text('source_name').notNull(),
    /** Its column; empty when it has none and its values are in `_rescued`. */
    columnName: text('column_name'),
    /** Type of the column. */
    columnType: text('column_type'),
    /** Why it has no column, or another type than it should. */
    note: text('note'),
    /** Type of its values according to the upstream's description; empty: not described. */
    describedAs: text('described_as'),
    /** Meaning according to the upstream's description. */
    description: text('description'),
    /** Allowed values according to the upstream's description. */
    allowedValues: text('allowed_values').array(),
    /** View whose keys its values are, if the rows confirm that. */
    refersTo: text('refers_to'),
    /** Share of its values that this view has. */
    referenceShare: numeric('reference_share', { precision: 5, scale: 4 }),
    /** What people call it, by the dictionary. */
    label: text('label'),
    /** Unit of its numbers, by the dictionary. */
    unit: text('unit'),
    /** What it means, by the dictionary. */
    meaning: text('meaning'),
    /** View whose keys its values are, by the dictionary. */
    meantReference: text('meant_reference'),
    /** Column of the view that shows the texts of its codes. */
    labelColumn: text('label_column'),
    /** The upstream's description says that every record has it. */
    isRequired: boolean('is_required'),
    /** The upstream's description says that it may be null. */
    isNullable: boolean('is_nullable'),
    /** When it first arrived. */
    firstSeenAt: at('first_seen_at').notNull().defaultNow(),
    /** When it last arrived with a value. */
    lastSeenAt: at('last_seen_at').notNull().defaultNow(),
    /** Records that were counted. */
    recordsSeen: count('records_seen'),
    /** Records in which it was empty or missing. */
    nullsSeen: count('nulls_seen'),
    /** How often a value did not fit the column. */
    rescued: count('rescued'),
    /** When that first happened. */
    rescuedSince: at('rescued_since'),
    /** When its column was widened, or should have been. */
    widenedAt: at('widened_at'),
    /**
     * Since when the field counts as volatile, because its value keeps changing at the same row version; a row that differs only in it
     * counts as unchanged. Empty: the field is compared.
     */
    volatileSince: at('volatile_since'),
    /** The evidence for that. */
    volatileEvidence: text('volatile_evidence'),
    /** Reconciles in a row in which it differed at the same row version in at least half of the rows. */
    silentRuns: integer('silent_runs').notNull().default(0),
    /** For a volatile field: reconciles in a row, at least half a day apart, in which its value was unchanged in the sampled records. */
    steadyRuns: integer('steady_runs').notNull().default(0),
    /** Its values in the sampled records at the last of these reconciles. */
    steadySample: jsonb('steady_sample'),
    /** Share of the records in which it was empty or missing. */
    nullShare: numeric('null_share', { precision: 5, scale: 4 }).generatedAlwaysAs(
      sql`nulls_seen::numeric / nullif(records_seen, 0)`,
    ),
  },
  (table) => [primaryKey({ columns: [table.stream, table.folded] })],
)

/** The text of each code, by the dictionary or the upstream’s description. */
export const labelTable = tidemark.table(
  'label',
  {
    ...ofStream(),
    /** The folded name of the field. */
    field: text('field').notNull(),
    /** The value, as text. */
    code: text('code').notNull(),
    /** What it stands for. */
    text: text('text').notNull(),
  },
  (table) => [primaryKey({ columns: [table.stream, table.field, table.code] })],
)
