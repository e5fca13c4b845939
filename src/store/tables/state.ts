// How far each stream has come: its state, who may move it, where it has been, and the view that tells BI.

import { sql } from 'drizzle-orm'
import {
  bigint,
  customType,
  index,
  integer,
  jsonb,
  pgSchema,
  primaryKey,
  text,
  timestamp,
} from 'drizzle-orm/pg-core'

// The kinds of column that Tidemark's own tables are made of. Migrations are generated from the files of this folder.
export const at = (name: string) => timestamp(name, { withTimezone: true })
export const int8 = (name: string) => bigint(name, { mode: 'bigint' })
export const count = (name: string) => int8(name).notNull().default(sql`0`)
export const bytes = customType<{ data: Buffer }>({ dataType: () => 'bytea' })
export const identity = () => int8('id').primaryKey().generatedAlwaysAsIdentity()

// The three schemas. The tables of `mirror` are described nowhere, because their columns are found in the data.
export const mirrorSchema = pgSchema('mirror')
export const biSchema = pgSchema('bi')
export const tidemark = pgSchema('tidemark')

export const streamTable = tidemark.table('stream', {
  name: text('name').primaryKey(),
  position: int8('position').notNull().default(sql`0`),
  positionReachedAt: at('position_reached_at'),
  /** When the last successful incremental run began: everything up to then is in the mirror. */
  readThroughAt: at('read_through_at'),
  /** When it was complete for the first time: fields that come later were added by the upstream. */
  firstReadThroughAt: at('first_read_through_at'),
  keyField: text('key_field'),
  lookbackMs: int8('lookback_ms'),
  lookbackReason: text('lookback_reason'),
  stoppedReason: text('stopped_reason'),
  stoppedAt: at('stopped_at'),
  /** An operator wants no runs of it for now; null: it is read as usual. */
  pausedAt: at('paused_at'),
  pausedBy: text('paused_by'),
  pauseReason: text('pause_reason'),
  /** Deletions that are too many to believe without a person: how many, and since when. */
  blockedDeletions: jsonb('blocked_deletions'),
  lastSuccessAt: at('last_success_at'),
  lastReconcileAt: at('last_reconcile_at'),
  /** When the last complete reading of the recent past began. */
  lastLookbackAt: at('last_lookback_at'),
  /** Since when the upstream shows nothing of it, although there are rows; null: it shows something. */
  hiddenSince: at('hidden_since'),
  /** Rises when the columns of the mirror table change, so that no other program writes by an old list of columns. */
  columnsVersion: integer('columns_version').notNull().default(0),
  /**
   * After a rewind, rows above this version that were last written before that time take any version that comes: the
   * upstream may have been restored from a backup. Null again after the next complete reconcile.
   */
  unguardedAbove: int8('unguarded_above'),
  unguardedBefore: at('unguarded_before'),
})

export const leaseTable = tidemark.table(
  'lease',
  {
    stream: text('stream').notNull(),
    /** Which runs exclude each other: those of one lane. */
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

/** How far each stream has been read, for BI to join. */
export const freshnessView = tidemark
  .view('freshness', {
    stream: text('stream'),
    readThroughVersion: int8('read_through_version'),
    readThroughTime: at('read_through_time'),
    lastSuccessAt: at('last_success_at'),
    lastReconcileAt: at('last_reconcile_at'),
  })
  .as(
    sql`select name as stream, nullif(position, 0) as read_through_version, read_through_at as read_through_time, last_success_at, last_reconcile_at from tidemark.stream`,
  )
