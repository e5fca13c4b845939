// Whether somebody holds a lease, in SQL: a line of the ledger says `running` also of a run whose program was killed.

/** Of a line `held` of tidemark.lease: whether the process of Postgres that it names still serves the run. */
export const isAliveSql = `exists (
  select from pg_locks
  where locktype = 'advisory' and granted and objsubid = 1 and pid = held.holder_pid
    and (classid::bigint << 32) | objid::bigint = held.holder_key)`

/** `stream` is an expression. */
export const isHeldSql = (stream: string, lane: 'incremental' | 'whole' | 'probe'): string => `exists (
  select from tidemark.lease as held where held.stream = ${stream} and held.lane = '${lane}' and ${isAliveSql})`
