// How far readings have come while they go on, what each minute brought, and which workers there are: what people watch.

import { boolean, index, integer, jsonb, primaryKey, real, smallint, text } from 'drizzle-orm/pg-core'
import { at, count, int8, ofStream, tidemark } from './state.ts'

/** Progress of readings: one line for each stream and purpose, until the next reading of the same kind begins. */
export const progressTable = tidemark.table(
  'progress',
  {
    ...ofStream(),
    /** `first load`, or the kind of its runs. A first load can take many runs. */
    reading: text('reading').notNull(),
    /** The run that last wrote it. */
    runId: int8('run_id').notNull(),
    /** For a backfill: which one. */
    subject: text('subject'),
    /** When it began. */
    beganAt: at('began_at').notNull(),
    /** When this line was last written. */
    updatedAt: at('updated_at').notNull(),
    /** When it ended, or its run failed or paused for others; empty while a run reads. */
    endedAt: at('ended_at'),
    /** True when everything was read. */
    isComplete: boolean('is_complete').notNull().default(false),
    /** Rows read: for a first load the stored rows, otherwise the rows received. */
    rows: count('rows'),
    /** When rows last arrived. */
    rowsAt: at('rows_at'),
    /** Requests to the upstream. */
    requests: count('requests'),
    /** Bytes of its answers. */
    bytes: count('bytes'),
    /** How many rows there are to read, at the last count; empty: unknown. */
    total: int8('total'),
    /** When they were counted. */
    totalAt: at('total_at'),
    /** How many requests the count took; 0: counted in this database. */
    totalRequests: integer('total_requests'),
    /** Share of the rows that was read, from 0 to 1; it never falls. Empty: the total is unknown. */
    share: real('share'),
    /** What the run waits for, if it waits. */
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

/** Statistics per minute, or per five minutes without news, for 8 days, then per hour for 90 days. */
export const minuteTable = tidemark.table(
  'minute',
  {
    /** The stream, or a table of related records. */
    stream: text('stream').notNull(),
    /** When the minute or the hour began. */
    at: at('at').notNull(),
    /** How long the line stands for: 1 or 60 minutes, or up to 5 in which the stream stayed up to date or paused. */
    minutes: smallint('minutes').notNull().default(1),
    /** New rows. */
    inserted: count('inserted'),
    /** Rows that changed. */
    updated: count('updated'),
    /** Rows that were marked deleted. */
    deleted: count('deleted'),
    /** Records that cannot be rows and were not known before. */
    quarantined: count('quarantined'),
    /** The greatest age of *read through*, in seconds; empty: no worker ran. */
    readAge: real('read_age'),
    /** The same for *settled through*. */
    settledAge: real('settled_age'),
    /** The same for *deletions known through*. */
    deletionsAge: real('deletions_age'),
    /** The worst state that a worker saw: `up to date`, `loading`, `behind`, `paused` or `needs you`; empty: no worker ran. */
    state: text('state'),
    /** Of an hour, by target: in how many of its minutes the target was kept, and how many count, as `{"read": [59, 60]}`. */
    kept: jsonb('kept'),
  },
  (table) => [
    primaryKey({ columns: [table.stream, table.at, table.minutes] }),
    index('minute_by_time').on(table.at),
  ],
)

/** Requests to a service of the upstream per minute and worker; kept as long as `minute`. */
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
    /** Requests that runs made, by stream and kind of run, as `{"assignment incremental": 20}`. */
    askedFor: jsonb('asked_for').notNull().default({}),
    /** How many answers took up to 10, 20, 40 … 40,960 ms, and more: 14 numbers. */
    latency: int8('latency').array().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.service, table.at, table.minutes, table.worker] }),
    index('service_minute_by_time').on(table.at),
  ],
)

type WorkerRun = { readonly stream: string; readonly kind: string; readonly since: string }
type WorkerWait = {
  readonly what: string
  /** Null: as soon as it works. */
  readonly until: string | null
  /** What the worker knows of a part that does not work. */
  readonly part?: Readonly<Record<string, unknown>>
}

/** The workers and what each last reported. A worker that has not reported for a minute is gone. */
export const workerTable = tidemark.table('worker', {
  /** Unique id of the worker. */
  id: text('id').primaryKey(),
  /** Its machine. */
  host: text('host').notNull(),
  /** Its process. */
  pid: integer('pid').notNull(),
  /** Its version of Tidemark. */
  version: text('version').notNull(),
  /** When it began. */
  startedAt: at('started_at').notNull(),
  /** When it last reported. */
  seenAt: at('seen_at').notNull(),
  /** Its current runs, as `{stream, kind, since}`. */
  runs: jsonb('runs').$type<readonly WorkerRun[]>().notNull().default([]),
  /** What it waits for before it tries again, as `{what, until}`. */
  waits: jsonb('waits').$type<readonly WorkerWait[]>().notNull().default([]),
})
