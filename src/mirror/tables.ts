// The fixed tables: Tidemark's own state. Migrations are generated from this file; the tables of schema `mirror` are not
// here, because their columns are found in the data.

import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  customType,
  index,
  integer,
  jsonb,
  numeric,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  unique,
} from 'drizzle-orm/pg-core'

export const mirrorSchema = pgSchema('mirror')
export const biSchema = pgSchema('bi')
export const tidemark = pgSchema('tidemark')

const at = (name: string) => timestamp(name, { withTimezone: true })
const int8 = (name: string) => bigint(name, { mode: 'bigint' })
const count = (name: string) => int8(name).notNull().default(sql`0`)
const bytes = customType<{ data: Buffer }>({ dataType: () => 'bytea' })
const identity = () => int8('id').primaryKey().generatedAlwaysAsIdentity()

export const streamTable = tidemark.table('stream', {
  name: text('name').primaryKey(),
  position: int8('position').notNull().default(sql`0`),
  positionReachedAt: at('position_reached_at'),
  /** When the last successful head run began: everything up to then is in the mirror. */
  completeAt: at('complete_at'),
  keyField: text('key_field'),
  lookbackMs: int8('lookback_ms'),
  lookbackReason: text('lookback_reason'),
  stoppedReason: text('stopped_reason'),
  stoppedAt: at('stopped_at'),
  /** A listing that was too small to be believed: what it lacked, and when. */
  held: jsonb('held'),
  lastSuccessAt: at('last_success_at'),
  lastCensusAt: at('last_census_at'),
  /** Rises when the columns of the mirror table change, so that no other program writes by an old list of columns. */
  columnsVersion: integer('columns_version').notNull().default(0),
  /**
   * After a rewind, rows above this version that were last written before that time take any version that comes: the
   * upstream may have been restored from a backup. Null again after the next complete census.
   */
  unguardedAbove: int8('unguarded_above'),
  unguardedBefore: at('unguarded_before'),
})

export const laneTable = tidemark.table(
  'lane',
  {
    stream: text('stream').notNull(),
    lane: text('lane').notNull(),
    /** Rises with every run and every rewind; a run that carries an older one has lost its turn (P2). */
    epoch: int8('epoch').notNull(),
  },
  (table) => [primaryKey({ columns: [table.stream, table.lane] })],
)

export const checkpointTable = tidemark.table(
  'checkpoint',
  {
    id: identity(),
    stream: text('stream').notNull(),
    position: int8('position').notNull(),
    reachedAt: at('reached_at').notNull().defaultNow(),
    runId: int8('run_id'),
    /** Why the position went back; null when it rose. */
    reason: text('reason'),
    /** The person who moved it; null when a run did. */
    movedBy: text('moved_by'),
  },
  (table) => [
    index('checkpoint_by_time').on(table.stream, table.reachedAt),
    index('checkpoint_by_position').on(table.stream, table.position),
  ],
)

export const runTable = tidemark.table(
  'run',
  {
    id: identity(),
    stream: text('stream').notNull(),
    lane: text('lane').notNull(),
    status: text('status', { enum: ['running', 'done', 'failed', 'skipped'] }).notNull(),
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
    note: text('note'),
    /** Nothing in the mirror changed. */
    isIdle: boolean('is_idle').notNull().default(false),
    /** How many runs in a row this line stands for: idle ones share one. */
    polls: integer('polls').notNull().default(1),
  },
  (table) => [
    index('run_by_lane').on(table.stream, table.lane, table.id),
    index('run_in_progress').on(table.stream, table.lane).where(sql`status = 'running'`),
  ],
)

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

export const factTable = tidemark.table(
  'fact',
  {
    stream: text('stream').notNull(),
    name: text('name').notNull(),
    value: text('value').notNull(),
    evidence: text('evidence').notNull(),
    firstAt: at('first_at').notNull(),
    checkedAt: at('checked_at').notNull(),
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
    nullShare: numeric('null_share', { precision: 5, scale: 4 }).generatedAlwaysAs(
      sql`nulls_seen::numeric / nullif(records_seen, 0)`,
    ),
  },
  (table) => [primaryKey({ columns: [table.stream, table.folded] })],
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
    /** What ended the last attempt. */
    error: text('error'),
    note: text('note'),
  },
  (table) => [index('backfill_by_stream').on(table.stream, table.id)],
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

/** How complete each stream is, for BI to join. */
export const freshnessView = tidemark
  .view('freshness', {
    stream: text('stream'),
    completeThroughVersion: int8('complete_through_version'),
    completeThroughTime: at('complete_through_time'),
    lastSuccessAt: at('last_success_at'),
    lastCensusAt: at('last_census_at'),
  })
  .as(
    sql`select name as stream, nullif(position, 0) as complete_through_version, complete_at as complete_through_time, last_success_at, last_census_at from tidemark.stream`,
  )
