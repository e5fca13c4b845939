// How far readings have come while they go on, what each minute brought, and which workers there are: what people watch.

import { boolean, index, integer, jsonb, primaryKey, real, smallint, text } from 'drizzle-orm/pg-core'
import { at, count, int8, tidemark } from './state.ts'

/** How far each reading has come: one line for each stream and what it is read for, until the next reading of the same kind begins. */
export const progressTable = tidemark.table(
  'progress',
  {
    /** The stream. */
    stream: text('stream').notNull(),
    /** `first load`, or the kind of its runs. A first load goes on through many runs. */
    reading: text('reading').notNull(),
    /** The run that noted it last. */
    runId: int8('run_id').notNull(),
    /** Of a backfill, which one it is. */
    subject: text('subject'),
    /** When it began. */
    beganAt: at('began_at').notNull(),
    /** When this line was last written. */
    updatedAt: at('updated_at').notNull(),
    /** When it was over, or its run failed or gave way; empty while a run reads. */
    endedAt: at('ended_at'),
    /** True when everything there was is read. */
    isComplete: boolean('is_complete').notNull().default(false),
    /** Rows that are read: of a first load those that are stored, of others those that came. */
    rows: count('rows'),
    /** When rows last came. */
    rowsAt: at('rows_at'),
    /** Requests to the upstream. */
    requests: count('requests'),
    /** Bytes of its answers. */
    bytes: count('bytes'),
    /** How many rows there are to read, as they were last counted; empty: that is not known. */
    total: int8('total'),
    /** When they were counted. */
    totalAt: at('total_at'),
    /** How many requests the count took; 0: they were counted here. */
    totalRequests: integer('total_requests'),
    /** Share of the rows that is read, from 0 to 1; it never falls. Empty: nobody knows how many there are. */
    share: real('share'),
    /** What the run waits for, when it waits. */
    waitsFor: text('waits_for'),
    /** Until when. */
    waitsUntil: at('waits_until'),
    /** Why its last run failed. */
    error: text('error'),
    /** How many rows were read when, every five seconds for the last six minutes, as `[seconds since 1970, rows]`. */
    marks: jsonb('marks').notNull().default([]),
  },
  (table) => [primaryKey({ columns: [table.stream, table.reading] })],
)

/** What each minute brought, for 8 days; after that each hour, for 90 days. */
export const minuteTable = tidemark.table(
  'minute',
  {
    /** The stream, or a table of related records. */
    stream: text('stream').notNull(),
    /** When the minute or the hour began. */
    at: at('at').notNull(),
    /** How long the line stands for: 1 or 60 minutes. */
    minutes: smallint('minutes').notNull().default(1),
    /** New rows. */
    inserted: count('inserted'),
    /** Rows that changed. */
    updated: count('updated'),
    /** Rows that were marked deleted. */
    deleted: count('deleted'),
    /** Records that cannot be rows and were not known before. */
    quarantined: count('quarantined'),
    /** The longest that the moment lay back through which the stream was read, in seconds; empty: no worker looked. */
    readAge: real('read_age'),
    /** The same of what is settled. */
    settledAge: real('settled_age'),
    /** The same of deletions. */
    deletionsAge: real('deletions_age'),
    /** The worst state that a worker saw: `up to date`, `loading`, `behind`, `paused` or `needs you`; empty: no worker looked. */
    state: text('state'),
  },
  (table) => [
    primaryKey({ columns: [table.stream, table.at, table.minutes] }),
    index('minute_by_time').on(table.at),
  ],
)

/** What each minute brought of requests to a service of the upstream, by worker, so that workers add up; kept as long as `minute`. */
export const serviceMinuteTable = tidemark.table(
  'service_minute',
  {
    /** The service. */
    service: text('service').notNull(),
    /** When the minute or the hour began. */
    at: at('at').notNull(),
    /** How long the line stands for: 1 or 60 minutes. */
    minutes: smallint('minutes').notNull().default(1),
    /** The worker; empty where the line stands for all of them. */
    worker: text('worker').notNull().default(''),
    /** Requests. */
    requests: count('requests'),
    /** Bytes of the answers. */
    bytes: count('bytes'),
    /** Requests that failed, by class: `429`, `5xx`, `4xx`, `none` (no answer). */
    failures: jsonb('failures').notNull().default({}),
    /** How many answers took up to 10, 20, 40 … 40,960 ms, and more: 14 numbers. */
    latency: int8('latency').array().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.service, table.at, table.minutes, table.worker] }),
    index('service_minute_by_time').on(table.at),
  ],
)

/** The workers, as each last said: one that has not for a minute is gone. */
export const workerTable = tidemark.table('worker', {
  /** Tells it from all others. */
  id: text('id').primaryKey(),
  /** Its machine. */
  host: text('host').notNull(),
  /** Its process. */
  pid: integer('pid').notNull(),
  /** Its version of Tidemark. */
  version: text('version').notNull(),
  /** When it began. */
  startedAt: at('started_at').notNull(),
  /** When it last said so. */
  seenAt: at('seen_at').notNull(),
  /** The runs that it does, as `{stream, kind, since}`. */
  runs: jsonb('runs').notNull().default([]),
  /** What it waits for before it tries again, as `{what, until}`. */
  waits: jsonb('waits').notNull().default([]),
})
