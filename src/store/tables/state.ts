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
  real,
  text,
  timestamp,
} from 'drizzle-orm/pg-core'
import type { ServiceName } from '../../streams/catalog.ts'

// The kinds of column that Tidemark's own tables are made of. Migrations are generated from the files of this folder.
export const at = (name: string) => timestamp(name, { withTimezone: true })
export const int8 = (name: string) => bigint(name, { mode: 'bigint' })
export const count = (name: string) => bigint(name, { mode: 'number' }).notNull().default(sql`0`)
export const bytes = customType<{ data: Buffer }>({ dataType: () => 'bytea' })
export const identity = () => int8('id').primaryKey().generatedAlwaysAsIdentity()

// Columns that many tables have alike.
export const ofStream = () => ({
  /** The stream. */
  stream: text('stream').notNull(),
})
export const ofRow = () => ({
  ...ofStream(),
  /** Key of the row. */
  key: text('key').notNull(),
})

// The three schemas. The tables of `mirror` are described nowhere, because their columns are found in the data.
export const mirrorSchema = pgSchema('mirror')
export const biSchema = pgSchema('bi')
export const tidemark = pgSchema('tidemark')

/** One line per stream: how far it was read, and what keeps it from being read. */
export const streamTable = tidemark.table('stream', {
  /** The stream: the name of its table and view, behind `acme.` for one of the source `acme`. */
  name: text('name').primaryKey(),
  /** For a changes stream: every row version up to and including this one has been read. */
  position: int8('position').notNull().default(sql`0`),
  /** When the position last moved. */
  positionReachedAt: at('position_reached_at'),
  /**
   * While versions are read in ranges: the ranges above the position that are still unread, and up to which version. Empty if nothing
   * above the position was read.
   */
  unread: jsonb('unread'),
  /** When the last successful reading of changes began: every change that was visible then is here. */
  readThroughAt: at('read_through_at'),
  /** When that was first so: fields that appear later were added by the upstream. */
  firstReadThroughAt: at('first_read_through_at'),
  /** Key field, if it was found in the data. */
  keyField: text('key_field'),
  /** In which time zones its date-times without an offset were read. Empty before that was noted. */
  readZones: text('read_zones'),
  /** For a stream that the settings add: the result of the tests, as `{kind, keyField, hasLookup}`. */
  foundOut: jsonb('found_out'),
  /** How far back the recent past is read again, in milliseconds. */
  lookbackMs: int8('lookback_ms'),
  /** Why it is so far. */
  lookbackReason: text('lookback_reason'),
  /** When an operator paused it; empty: not paused. */
  pausedAt: at('paused_at'),
  /** Who paused it. */
  pausedBy: text('paused_by'),
  /** Why. */
  pauseReason: text('pause_reason'),
  /** Deletions that wait for an operator: how many, and since when. */
  blockedDeletions: jsonb('blocked_deletions'),
  /** When a person last approved deletions, or let marked rows live again: what was marked before does not count with what is missing later. */
  deletionsApprovedAt: at('deletions_approved_at'),
  /** When a search found more records missing than it looks at singly. A reconcile that begins later compares the whole list first. */
  reconcileWantedAt: at('reconcile_wanted_at'),
  /** When a run that asked the upstream last ended well. */
  lastSuccessAt: at('last_success_at'),
  /** When everything was last listed and compared. */
  lastReconcileAt: at('last_reconcile_at'),
  /** Up to this version the stream was read by row version and by list, and both agreed: nothing late is expected there (P13). */
  settledThroughVersion: int8('settled_through_version'),
  /** Changes made before this moment are here, also those that became visible late. */
  settledThroughAt: at('settled_through_at'),
  /** Every record that vanished before then has been noticed. */
  deletionsKnownAt: at('deletions_known_at'),
  /**
   * When the list last had as many records as there are rows here; this counts after a whole look-back and another such count. Empty: not
   * since the stream was read from the beginning.
   */
  ranksAgreedAt: at('ranks_agreed_at'),
  /**
   * Differences between the list and the rows that no look has explained, as `{since, differences}`. Over when ranks agree, or when the
   * sweep has been everywhere since.
   */
  unexplained: jsonb('unexplained'),
  /** The key that the current round of the sweep has reached. */
  sweptKey: text('swept_key'),
  /** When that round began; empty: of some records in it, it is not known whether they are there. */
  sweepBeganAt: at('sweep_began_at'),
  /** How many runs in a row were inconclusive (P11). */
  inconclusiveRuns: integer('inconclusive_runs').notNull().default(0),
  /** Since when. */
  inconclusiveSince: at('inconclusive_since'),
  /** How many runs in a row did not read everything and made no progress. */
  stuckRuns: integer('stuck_runs').notNull().default(0),
  /** Since when. */
  stuckSince: at('stuck_since'),
  /** When the last complete reading of the recent past began. */
  lastLookbackAt: at('last_lookback_at'),
  /** Since when the upstream shows nothing of this stream although there are rows; empty: it shows something. */
  hiddenSince: at('hidden_since'),
  /** Rises when the columns of the table change, so that no program writes with an old list of columns. */
  columnsVersion: integer('columns_version').notNull().default(0),
  /**
   * After a rewind or in a new epoch, rows above this version accept any version, because the upstream may have gone back. Empty again
   * after the next complete reconcile.
   */
  unguardedAbove: int8('unguarded_above'),
  /** This applies only to rows last written before this moment. */
  unguardedBefore: at('unguarded_before'),
  /** OID of its table: another table of the same name was put there by somebody else. Empty while there is none. */
  tableOid: int8('table_oid'),
  /** OID of table `stream` when that was noted. It is different in a restored database, where all OIDs are. */
  stateOid: int8('state_oid'),
  /** From when on its history shows the rows as they were. Empty while there is none. */
  historyFrom: at('history_from'),
  /** Rows that were written up to then have been compared with their last line in the history. */
  historyComparedAt: at('history_compared_at'),
  /** Tables that hold its history, to notice if somebody drops or replaces one. Empty while there is none. */
  historyWatch: jsonb('history_watch'),
})

/** Whose data is here: one line for each service of each source. Programs with settings for another source refuse to write. */
export const sourceTable = tidemark.table(
  'source',
  {
    /** The source; empty: the one that the environment describes. */
    name: text('name').notNull().default(''),
    /** The service. */
    service: text('service').$type<ServiceName>().notNull(),
    /** Its base URL. */
    baseUrl: text('base_url').notNull(),
    /** Whose data it shows: the client GUID, or the user that signs in. */
    account: text('account').notNull(),
    /** When this was noted. */
    notedAt: at('noted_at').notNull().defaultNow(),
    /** Who adopted it as the same source under another name; empty: not needed. */
    adoptedBy: text('adopted_by'),
    /** Why. */
    reason: text('reason'),
  },
  (table) => [primaryKey({ columns: [table.name, table.service] })],
)

/** The sources beside the one that the environment describes, as the file of sources was last applied. Secrets are never here. */
export const sourceConfigTable = tidemark.table('source_config', {
  /** The source. */
  name: text('name').primaryKey(),
  /** Its variables; a secret says only where it is. */
  settings: jsonb('settings').$type<Readonly<Record<string, string>>>().notNull(),
  /** Groups that it belongs to. */
  tags: text('tags').array().notNull(),
  /** Rises with every change. */
  revision: int8('revision').notNull().default(sql`1`),
  /** The number of the file that said so. */
  generation: int8('generation').notNull(),
  /** When it was last changed. */
  changedAt: at('changed_at').notNull().defaultNow(),
  /** The person or worker that applied the file. */
  changedBy: text('changed_by').notNull(),
  /** Since when the file does not name it any more; empty: it does. */
  goneAt: at('gone_at'),
  /** By which version and settings its tables were last made as its upstream describes them; empty: they have to be looked at. */
  madeBy: text('made_by'),
})

/** Who may write: one line for each stream and lane. */
export const leaseTable = tidemark.table(
  'lease',
  {
    ...ofStream(),
    /** Runs of one lane exclude each other. */
    lane: text('lane').notNull(),
    /** Rises with every run and every rewind; a run with an older one can no longer write (P2). */
    epoch: int8('epoch').notNull(),
    /** Postgres process of the run that took it last. */
    holderPid: integer('holder_pid'),
    /** Advisory lock that shows that this run is alive; different for each run. */
    holderKey: int8('holder_key'),
    /** That run, as `{id, kind, host, pid, at}`. A run that finds nothing gets no line of its own in `run`. */
    run: jsonb('run'),
    /** The run before it, which may have been killed. */
    runBefore: jsonb('run_before'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.lane] })],
)

/** Tasks that only one program does at a time: it locks the line of the task. No other role may read this table, so none can lock it. */
export const turnTable = tidemark.table('turn', {
  /** The task. */
  name: text('name').primaryKey(),
})

/** Positions that were reached. Reading can start again from any of them. */
export const checkpointTable = tidemark.table(
  'checkpoint',
  {
    id: identity(),
    ...ofStream(),
    /** The position. */
    position: int8('position').notNull(),
    /** When it was reached. */
    reachedAt: at('reached_at').notNull().defaultNow(),
    /** The run that reached it. */
    runId: int8('run_id'),
    /** Why the position went back; empty when it rose. */
    reason: text('reason'),
    /** The person who moved it; empty when a run did. */
    movedBy: text('moved_by'),
  },
  (table) => [
    index('checkpoint_by_time').on(table.stream, table.reachedAt),
    index('checkpoint_by_position').on(table.stream, table.position),
  ],
)

/** Fields that are left out or masked. A program whose dictionary says something else of a stream does not read it. */
export const privateFieldTable = tidemark.table(
  'private_field',
  {
    ...ofStream(),
    /** The field: its name in lower case, letters and digits only. */
    field: text('field').notNull(),
    /** What becomes of its values: `omit`, `hash`, `null`, `year` or `first N`. */
    rule: text('rule').notNull(),
    /** For a hash: tells one MASK_KEY from another. */
    keyMark: text('key_mark'),
    /** Since when. */
    since: at('since').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.stream, table.field] })],
)

/** State of each stream, as a worker last saw it. */
export const standingTable = tidemark.table('standing', {
  /** The stream. */
  stream: text('stream').primaryKey(),
  /** `loading`, `live`, `behind`, `stopped` or `paused`. */
  state: text('state').notNull(),
  /** What is wrong with it; empty: nothing. */
  reason: text('reason'),
  /** When the worker looked. */
  seenAt: at('seen_at').notNull(),
})

/** Limits that Tidemark has set for a role that only reads: each once, so that whoever takes one back is not overruled. */
export const roleLimitTable = tidemark.table(
  'role_limit',
  {
    /** The role. */
    role: text('role').notNull(),
    /** The limit. */
    name: text('name').notNull(),
    /** What it was set to, if that depends on the settings of Tidemark. */
    value: text('value'),
    /** When it was set. */
    setAt: at('set_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.role, table.name] })],
)

/** Indexes that Tidemark has made for reports and for those who follow the changes: each once, so that whoever drops one is not overruled. */
export const madeIndexTable = tidemark.table(
  'made_index',
  {
    /** The table in `mirror`. */
    stream: text('stream').notNull(),
    /** The column. */
    columnName: text('column_name').notNull(),
    /** Which column of which table that was, by their numbers in Postgres: one that is made anew gets its index anew. */
    place: text('place').notNull(),
    /** When it was made, or found to be there already. */
    madeAt: at('made_at').notNull().defaultNow(),
    /** Since when it is seen to be gone; empty: it is there. */
    droppedAt: at('dropped_at'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.columnName] })],
)

/** Rights that Tidemark has given to a role that only reads: each once, so that whoever takes one back is not overruled. */
export const grantedTable = tidemark.table(
  'granted',
  {
    /** The role. */
    role: text('role').notNull(),
    /** Its number in Postgres. A role that was dropped and made anew gets everything anew. */
    roleId: int8('role_id').notNull(),
    /** The schema, table, view or function. */
    object: text('object').notNull(),
    /** `usage` of a schema, `select` of a table or view, `execute` of a function, or `select by default`: of all that a role makes in a schema later. */
    privilege: text('privilege').notNull(),
    /** When it was given, or found to be there already. */
    grantedAt: at('granted_at').notNull().defaultNow(),
    /** Since when the role is seen not to have it any more; empty: it has. */
    revokedAt: at('revoked_at'),
  },
  (table) => [primaryKey({ columns: [table.role, table.object, table.privilege] })],
)

/**
 * How far each stream has been read, for BI to join. What a worker noted counts for five minutes, or until the first load is over; without
 * a worker, a stream that was not read through for an hour is behind.
 */
export const freshnessView = tidemark
  .view('freshness', {
    stream: text('stream'),
    readThroughVersion: int8('read_through_version'),
    readThroughTime: at('read_through_time'),
    lastSuccessAt: at('last_success_at'),
    lastReconcileAt: at('last_reconcile_at'),
    settledThroughVersion: int8('settled_through_version'),
    settledThroughTime: at('settled_through_time'),
    deletionsKnownThrough: at('deletions_known_through'),
    state: text('state'),
    loadedShare: real('loaded_share'),
    reason: text('reason'),
    historyFrom: at('history_from'),
    source: text('source'),
    base: text('base'),
  })
  .as(
    sql`select name as stream, nullif(position, 0) as read_through_version, read_through_at as read_through_time, last_success_at, last_reconcile_at, settled_through_version, settled_through_at as settled_through_time, deletions_known_at as deletions_known_through,
  case when paused_at is not null then 'paused' when seen.state <> 'paused' and (seen.state <> 'loading' or read_through_at is null) and (seen.state <> 'live' or read_through_at is not null) then seen.state when read_through_at is null then case when last_success_at is not null or exists (select from tidemark.progress where progress.stream = name and reading = 'first load') then 'loading' end when read_through_at > now() - interval '1 hour' then 'live' else 'behind' end as state,
  case when read_through_at is not null then 1::real else (select share from tidemark.progress where progress.stream = name and reading = 'first load' and not is_complete) end as loaded_share,
  case when paused_at is not null then pause_reason when seen.state <> 'loading' or read_through_at is null and seen.stream is not null then seen.reason when read_through_at is null then null when read_through_at <= now() - interval '1 hour' then case when exists (select from tidemark.worker where worker.seen_at > now() - interval '1 minute') then 'It was not read through for an hour.' else 'No worker is running.' end when blocked_deletions ? 'rejected' then 'Deletions are frozen: somebody kept the rows that the list lacks.' when blocked_deletions is not null then 'Deletions wait for a decision.' end as reason,
  history_from,
  left(name, greatest(0, strpos(name, '.') - 1)) as source, substr(name, strpos(name, '.') + 1) as base
  from tidemark.stream left join tidemark.standing as seen on seen.stream = name and seen.seen_at > now() - interval '5 minutes'`,
  )
