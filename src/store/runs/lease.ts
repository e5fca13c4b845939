// Who may write (P2). A run holds the lease of its stream and lane: its line says which process of Postgres serves the run, an advisory
// lock shows that this process still does, and an epoch, which every transaction proves, keeps out whoever lost the lease without
// noticing. Everybody who can connect can take advisory locks. So the key of the lock is another one with each run, and nobody is
// believed to hold a lease but the process that its line names.

import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { ClientBase } from 'pg'
import { laneOfKind, type RunKind } from '../../streams/catalog.ts'
import { RunFenced } from '../../sync/ports/store.ts'
import { isAliveSql } from '../book/runs.ts'
import { queryCount, queryRow } from '../server/query.ts'
import { inTransaction, type Queryable } from '../server/session.ts'

type Lane = (typeof laneOfKind)[RunKind]

/** The kinds that a run of this kind excludes, its own among them. */
export const kindsBeside = (kind: RunKind): readonly string[] =>
  Object.entries(laneOfKind).flatMap(([other, lane]) => (lane === laneOfKind[kind] ? [other] : []))

export type Place = { readonly stream: string; readonly kind: RunKind }
export type Lease = Place & {
  readonly lane: Lane
  readonly epoch: string
  readonly holderKey: string
  /** Of the run that holds it. */
  readonly runId: string
  /** As JSON, who held it before; null: nobody did. */
  readonly runBefore: string | null
}

/**
 * Returns the lease with its new epoch, or null when somebody else has it. The lock is held by the connection until it is given
 * back or closed: a killed program gives it back by dying, one that is silent for too long loses it (P8).
 */
export async function takeLease(client: ClientBase, place: Place, silenceMs: number): Promise<Lease | null> {
  const lane = laneOfKind[place.kind]
  const holderKey = String(randomBytes(8).readBigInt64BE())
  // The last commit of the run before locks the epoch. This waits for it, so that what is read afterwards includes that commit.
  const taken = await queryRow<Pick<Lease, 'epoch' | 'runId' | 'runBefore'>>(client, {
    name: 'tidemark_take_lease',
    text: `with mark as materialized (
       select pg_advisory_lock($4), set_config('idle_session_timeout', $3, false),
         set_config('idle_in_transaction_session_timeout', $3, false),
         jsonb_build_object(
           'id', nextval(pg_get_serial_sequence('tidemark.run', 'id'))::text, 'kind', $5::text, 'host', $6::text, 'pid', $7::int,
           'at', clock_timestamp()
         ) as run
       where not exists (select from tidemark.lease as held where stream = $1 and lane = $2 and ${isAliveSql})
     )
     insert into tidemark.lease as held (stream, lane, epoch, holder_pid, holder_key, run)
     select $1, $2, 1, pg_backend_pid(), $4, run from mark
     on conflict (stream, lane) do update
     set epoch = held.epoch + 1, holder_pid = excluded.holder_pid, holder_key = excluded.holder_key,
         run = excluded.run, run_before = held.run
     where not ${isAliveSql}
     returning epoch, run ->> 'id' as "runId", run_before::text as "runBefore"`,
    values: [place.stream, lane, `${silenceMs}ms`, holderKey, place.kind, hostname(), process.pid],
  })
  if (taken) return { ...place, lane, holderKey, ...taken }
  await giveBackLease(client)
  return null
}

/** There was no run after all: the one before it is the last, and may have been killed. */
export const forgetRun = (client: ClientBase, { stream, lane, epoch }: Lease) =>
  client.query(
    'update tidemark.lease set run = run_before, run_before = null where stream = $1 and lane = $2 and epoch = $3',
    [stream, lane, epoch],
  )

/** The connection of a run holds no other advisory lock. Also lifts the limit of silence, since it goes back to the pool. All in one message. */
export const giveBackLease = (client: ClientBase) =>
  client.query(
    'select pg_advisory_unlock_all(); reset idle_session_timeout; reset idle_in_transaction_session_timeout',
  )

/** Who holds the lease, in words. */
export async function leaseHolder(client: ClientBase, { stream, kind }: Place): Promise<string> {
  const owner = await queryRow<{ host: string; pid: string; at: Date }>(
    client,
    `select run ->> 'host' as host, run ->> 'pid' as pid, (run ->> 'at')::timestamptz as at
     from tidemark.lease where stream = $1 and lane = $2 and run is not null`,
    [stream, laneOfKind[kind]],
  )
  if (!owner) return 'another program that has only just started'
  return `process ${owner.pid} on ${owner.host}, since ${owner.at.toISOString()}`
}

/** Finds nothing when the lease is lost. Locks it, so that a rewind waits for this commit or is seen here. */
export const holdSql = 'select from tidemark.lease where stream = $1 and lane = $2 and epoch = $3 for share'

export const lostLease = ({ stream, kind }: Lease): RunFenced => new RunFenced(stream, kind)

/**
 * Proves the lease and keeps it until the transaction ends. Whatever locks more of the stream before its last statement begins
 * with this: a rewind takes the leases first as well, and neither waits for the other.
 */
export async function holdLease(client: ClientBase, lease: Lease): Promise<void> {
  if ((await queryCount(client, holdSql, [lease.stream, lease.lane, lease.epoch])) === 0)
    throw lostLease(lease)
}

/**
 * After this no run of these streams that is in progress can write (P2). `only`: only runs of one lane; `but`: all but those of one lane.
 * Waits for commits under way.
 */
export const fenceRuns = (
  client: Queryable,
  streams: readonly string[],
  { only = null, but = null }: { readonly only?: Lane | null; readonly but?: Lane | null } = {},
) =>
  client.query(
    `update tidemark.lease set epoch = epoch + 1
     where stream = any ($1) and ($2::text is null or lane = $2) and lane is distinct from $3`,
    [streams, only, but],
  )

/** A transaction of a run that writes no page. */
export const withinLease = <Result>(client: ClientBase, lease: Lease, work: () => Promise<Result>) =>
  inTransaction(client, async () => {
    await holdLease(client, lease)
    return await work()
  })

// How long Postgres keeps a lease for a program that says nothing. A frozen program, or one whose machine is gone, leaves a session
// that looks alive, and with it the lock: so the session says a word now and then, and Postgres itself ends one that does not (P8).
/** Longer than any page of JSON keeps this program from speaking. */
export const longestSilenceMs = 30_000
const wordsPerSilence = 3

/** Returns a function that ends it. A word that fails needs no report: the next statement of the run fails as well. */
export function keepSpeaking(speak: () => Promise<unknown>, silenceMs: number): () => void {
  let isSpeaking = false
  const timer = setInterval(async () => {
    if (isSpeaking) return
    isSpeaking = true
    await speak().catch(() => {})
    isSpeaking = false
  }, silenceMs / wordsPerSilence)
  timer.unref()
  return () => clearInterval(timer)
}

/** The connection of a run, and what keeps the things that are done on it apart. */
export type RunSession = ReturnType<typeof openSession>

export function openSession(client: ClientBase, lease: Lease, writesSettled: () => Promise<void>) {
  let last: Promise<unknown> = Promise.resolve()
  const alone = <Result>(work: () => Promise<Result>): Promise<Result> => {
    const result = last.then(work)
    last = result.catch(() => {})
    return result
  }
  const speak = () => alone(() => client.query('select'))
  const afterWrites = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    await writesSettled()
    return await alone(work)
  }
  return {
    client,
    lease,
    /** One thing at a time, in the order they came. */
    alone,
    /** Alone, and when no page is being written. */
    afterWrites,
    speak,
    /** Rejects when the connection has ended, and with it the lock of the lease. */
    expectHeld: () =>
      speak().catch(() => {
        throw lostLease(lease)
      }),
    /** In a transaction that proves the lease, though pages may be written meanwhile. */
    fenced: <Result>(work: () => Promise<Result>) => alone(() => withinLease(client, lease, work)),
    /** In such a transaction, when no page is being written. */
    fencedAfterWrites: <Result>(work: () => Promise<Result>) =>
      afterWrites(() => withinLease(client, lease, work)),
  }
}
