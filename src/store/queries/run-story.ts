// One run with all that was noted of it; and how busy each worker was. Read-only.

import type { ClientBase } from 'pg'
import type { RunStep } from '../../streams/run-steps.ts'

type Queryable = Pick<ClientBase, 'query'>

export type RunStory = {
  readonly id: string
  readonly stream: string
  readonly kind: string
  readonly status: string
  readonly startedAt: Date
  readonly finishedAt: Date | null
  readonly host: string
  readonly pid: number
  readonly positionFrom: string | null
  readonly positionTo: string | null
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly rescued: number
  readonly quarantined: number
  readonly markedDeleted: number
  readonly requests: number
  readonly bytes: number
  readonly error: string | null
  readonly errorCode: string | null
  readonly note: string | null
  readonly polls: number
  /** What it did; where runs share a line, what the last one did. Null where it was over at once. */
  readonly steps: readonly RunStep[] | null
  /** How many differences it found, by cause. */
  readonly causes: Readonly<Record<string, number>> | null
  /** Some of them. */
  readonly differences: readonly {
    readonly key: string
    readonly cause: string
    readonly fields: readonly string[]
    readonly cure: string | null
  }[]
  readonly lateArrivals: readonly { readonly key: string; readonly lateMs: number }[]
  readonly checkpoints: readonly { readonly position: string; readonly at: string }[]
}

const mostOfEach = 25

/** Null when it is not known, or was forgotten. */
export async function readRun(client: Queryable, id: string): Promise<RunStory | null> {
  const { rows } = await client.query<RunStory>(
    `select id::text, stream, kind, status, started_at as "startedAt", finished_at as "finishedAt", host, pid,
       position_from::text as "positionFrom", position_to::text as "positionTo",
       inserted::float8 as inserted, updated::float8 as updated, unchanged::float8 as unchanged,
       rescued::float8 as rescued, quarantined::float8 as quarantined, marked_deleted::float8 as "markedDeleted",
       requests::float8 as requests, bytes::float8 as bytes, error, error_code as "errorCode", note, polls, steps,
       differences as causes,
       coalesce((
         select jsonb_agg(jsonb_build_object('key', key, 'cause', cause, 'fields', fields, 'cure', cure)) from (
           select * from tidemark.difference
           where difference.stream = run.stream and run_id = run.id order by difference.id limit ${mostOfEach}
         ) as shown
       ), '[]') as differences,
       coalesce((
         select jsonb_agg(jsonb_build_object('key', key, 'lateMs', late_ms)) from (
           select * from tidemark.late_arrival
           where late_arrival.stream = run.stream and run_id = run.id
             and found_at between run.started_at and coalesce(run.finished_at, now())
           order by late_arrival.id limit ${mostOfEach}
         ) as shown
       ), '[]') as "lateArrivals",
       coalesce((
         select jsonb_agg(jsonb_build_object('position', position::text, 'at', reached_at)) from (
           select * from tidemark.checkpoint
           where checkpoint.stream = run.stream and run_id = run.id
             and reached_at between run.started_at and coalesce(run.finished_at, now()) + interval '1 second'
           order by checkpoint.id limit ${mostOfEach}
         ) as shown
       ), '[]') as checkpoints
     from tidemark.run where id = $1`,
    [id],
  )
  return rows[0] ?? null
}

export type RunsOfHost = {
  readonly host: string
  readonly pid: number
  readonly runs: number
  readonly failed: number
}

/** Ids rise with time, so that the newest are the recent past whatever the size of the ledger. */
const recentRuns = 20_000

/** Of the last `ms`, by the program that did them. */
export async function countRuns(client: Queryable, ms: number): Promise<readonly RunsOfHost[]> {
  const { rows } = await client.query<RunsOfHost>(
    `select host, pid, sum(polls)::float8 as runs, count(*) filter (where status = 'failed')::float8 as failed
     from (select * from tidemark.run order by id desc limit ${recentRuns}) as run
     where coalesce(finished_at, now()) > now() - $1::float8 * interval '1 millisecond'
     group by host, pid`,
    [ms],
  )
  return rows
}
