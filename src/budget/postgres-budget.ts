// The budgets of a deployment in Postgres: one row for each, by the clock of Postgres. Each is asked for by a statement that commits by
// itself: within the transaction of a run, it would make all others wait for that run. What is known of a host while it fails is a row as well.

import type { Pool } from 'pg'
import type { BudgetStore, SharedPause } from '../upstream/http/budget.ts'
import type { StoredCircuit } from '../upstream/http/circuit.ts'
import { fieldsOfState, readCircuitState } from '../upstream/http/circuit-state.ts'
import { tooFarAheadMs } from './redis-budget.ts'

/** One of a longer time was noted before the clock of Postgres went back. */
const pausedSql = `held.paused_until > clock_timestamp() and held.paused_until < clock_timestamp() + interval '1 h 1 s'`
const circuitSql = `(select paused_why from tidemark.budget where bucket = $5) as circuit,
  floor(extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs"`
/** The time is taken once the row is locked. */
const reserveSql = `
  insert into tidemark.budget as held (bucket, free_at)
  values ($1, clock_timestamp() + $2::float8 * interval '1 ms')
  on conflict (bucket) do update set free_at =
    case when held.free_at > clock_timestamp() + $4::float8 * interval '1 ms' then clock_timestamp()
      else greatest(held.free_at, clock_timestamp()) end + $2::float8 * interval '1 ms'
  where (${pausedSql}) is not true
    and (held.free_at <= clock_timestamp() + $3::float8 * interval '1 ms'
      or held.free_at > clock_timestamp() + $4::float8 * interval '1 ms')
  returning greatest(0, extract(epoch from free_at - clock_timestamp()) * 1000 - $2::float8)::float8 as "waitMs", ${circuitSql}`
const lookSql = `
  select greatest(0, extract(epoch from free_at - clock_timestamp()) * 1000)::float8 as "waitMs",
    ceil(extract(epoch from paused_until - clock_timestamp()) * 1000)::float8 as "leftMs",
    case when ${pausedSql} then paused_why end as why, ${circuitSql.replace('$5', '$2')}
  from (select) as one left join tidemark.budget as held on bucket = $1`
const pauseSql = `
  insert into tidemark.budget as held (bucket, free_at, paused_until, paused_why)
  values ($1, clock_timestamp(), clock_timestamp() + $2::float8 * interval '1 ms', $3)
  on conflict (bucket) do update set paused_until = excluded.paused_until, paused_why = excluded.paused_why
  where (${pausedSql} and held.paused_until > excluded.paused_until) is not true`
/** Unless others have changed it meanwhile. What another version has written counts as nothing. */
const changeCircuitSql = `
  insert into tidemark.budget as held (bucket, free_at, paused_why)
  select $1, clock_timestamp(), $3::jsonb
  where $2::jsonb = 'null' or exists (select from tidemark.budget where bucket = $1)
  on conflict (bucket) do update set free_at = excluded.free_at, paused_why = excluded.paused_why
  where case when held.paused_why ?& '{${fieldsOfState}}'::text[] then held.paused_why else 'null' end = $2::jsonb
  returning paused_why as circuit, floor(extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs"`

type Held = {
  readonly waitMs: number
  readonly leftMs: number | null
  readonly why: Omit<SharedPause, 'leftMs'> | null
  readonly circuit: unknown
  readonly nowMs: number
}

const circuitOf = (host: string | null): string => `${host} circuit`
const stateOf = ({ circuit, nowMs }: Pick<Held, 'circuit' | 'nowMs'>): StoredCircuit => ({
  state: readCircuitState(circuit),
  nowMs,
})

export function openPostgresBudget(pool: Pick<Pool, 'query'>): BudgetStore {
  const ask = async (name: string, text: string, values: readonly unknown[]) =>
    (await pool.query<Held>({ name: `tidemark_budget_${name}`, text, values: [...values] })).rows[0]
  const look = async (bucket: string, host: string | null) => {
    const found = await ask('look', lookSql, [bucket, circuitOf(host)])
    if (!found) throw new Error('Postgres did not say what it holds')
    return found
  }
  return {
    place: 'Postgres',
    async reserve(bucket, { count, gapMs, longestMs }, host = null) {
      const asked = [bucket, count * gapMs, longestMs, tooFarAheadMs(gapMs), circuitOf(host)]
      const reserved = count === 0 ? undefined : await ask('reserve', reserveSql, asked)
      if (reserved)
        return { isReserved: true, waitMs: reserved.waitMs, pause: null, circuit: stateOf(reserved) }
      const found = await look(bucket, host)
      const { waitMs, leftMs, why } = found
      const pause = why !== null && leftMs !== null && leftMs > 0 ? { ...why, leftMs } : null
      return { isReserved: false, waitMs: waitMs ?? 0, pause, circuit: stateOf(found) }
    },
    async pause(bucket, { leftMs, ...why }) {
      await ask('pause', pauseSql, [bucket, leftMs, JSON.stringify(why)])
    },
    async circuit(host, change = null) {
      const states = change && [change.before, change.after].map((state) => JSON.stringify(state))
      const changed = states && (await ask('circuit', changeCircuitSql, [circuitOf(host), ...states]))
      return {
        ...stateOf(changed ?? (await look('', host))),
        isChanged: changed !== undefined && changed !== null,
      }
    },
  }
}
