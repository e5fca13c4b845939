// What a fleet costs: processor time of each part, transactions, commands, bytes of the log, connections and locks, between two moments.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Stage } from './stage.ts'

export type Usage = {
  readonly atMs: number
  readonly nodeSeconds: number
  readonly postgresSeconds: number
  readonly redisSeconds: number
  readonly transactions: number
  readonly statements: number
  readonly redisCommands: number
  readonly walBytes: number
  readonly requests: number
}

export async function measure(stage: Stage): Promise<Usage> {
  const { workers, postgres, redis, pool, fleet } = stage
  const [info, counts] = await Promise.all([
    redis.tell('INFO'),
    pool.query<{ transactions: string; wal: string; statements: string | null }>(
      `select (select xact_commit + xact_rollback from pg_stat_database where datname = current_database()) as transactions,
         (select sum(calls) from pg_stat_statements) as statements, pg_current_wal_lsn() - '0/0'::pg_lsn as wal`,
    ),
  ])
  const redisPid = Number(/process_id:(\d+)/.exec(String(info))?.[1])
  const [row] = counts.rows
  return {
    atMs: performance.now(),
    nodeSeconds: workers.reduce((sum, worker) => sum + worker.cpuSeconds(), 0),
    postgresSeconds: secondsOfFamily(postmasterOf(postgres)),
    redisSeconds: timesOf(redisPid)?.own ?? 0,
    transactions: Number(row?.transactions),
    statements: Number(row?.statements),
    redisCommands: Number(/total_commands_processed:(\d+)/.exec(String(info))?.[1]),
    walBytes: Number(row?.wal),
    requests: fleet.timesOf(fleet.clients).length,
  }
}

type Times = { readonly parent: number; readonly own: number; readonly ofEnded: number }

function timesOf(pid: number): Times | null {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').map(Number) ?? []
    const seconds = (...at: readonly number[]) => at.reduce((sum, one) => sum + (fields[one] ?? 0), 0) / 100
    return { parent: fields[1] ?? 0, own: seconds(11, 12), ofEnded: seconds(13, 14) }
  } catch {
    // It has just ended.
    return null
  }
}

const postmasterOf = ({ data }: Stage['postgres']): number =>
  Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])

const backendsOf = (postmaster: number): readonly number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && timesOf(pid)?.parent === postmaster)

function secondsOfFamily(postmaster: number): number {
  const { own = 0, ofEnded = 0 } = timesOf(postmaster) ?? {}
  return own + ofEnded + backendsOf(postmaster).reduce((sum, pid) => sum + (timesOf(pid)?.own ?? 0), 0)
}

/** Of its own, without what all share. */
function memoryMb(pid: number): number {
  try {
    return Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  } catch {
    return 0
  }
}

/** For a source and a minute, where that says more than a sum. */
export function usageInWords(before: Usage, after: Usage, sources: number): readonly string[] {
  const seconds = (after.atMs - before.atMs) / 1000
  const share = (of: keyof Usage) => (after[of] - before[of]) / seconds
  const perSource = (of: keyof Usage) => ((share(of) * 60) / sources).toFixed(1)
  const [node, postgres, redis] = [share('nodeSeconds'), share('postgresSeconds'), share('redisSeconds')]
  const cores = (value: number) => value.toFixed(2)
  return [
    `processor: ${cores(node + postgres + redis)} cores (workers ${cores(node)}, Postgres ${cores(postgres)}, Redis ${cores(redis)}), ${(((node + postgres + redis) * 1000) / share('requests')).toFixed(1)} ms for each request upstream`,
    `of each source in a minute: ${perSource('requests')} requests, ${perSource('transactions')} transactions, ${perSource('statements')} statements, ${perSource('redisCommands')} commands of Redis, ${(Number(perSource('walBytes')) / 1024).toFixed(1)} KiB of WAL`,
  ]
}

export async function sizesInWords({ pool, workers, scale, postgres }: Stage): Promise<string> {
  const { rows } = await pool.query<{ connections: number; locks: number; mb: number; relations: number }>(
    `select (select count(*)::int from pg_stat_activity where application_name like 'tidemark%') as connections,
       (select count(*)::int from pg_locks) as locks, (pg_database_size(current_database()) / 1048576)::int as mb,
       (select count(*)::int from pg_class) as relations`,
  )
  const [row] = rows
  const memory = workers.map((worker) => Math.round(worker.memoryMb() ?? 0))
  const backends = backendsOf(postmasterOf(postgres)).map(memoryMb)
  const most = Math.max(...backends).toFixed(0)
  const sum = backends.reduce((all, one) => all + one, 0).toFixed(0)
  return `${row?.connections} connections of ${workers.length} workers, ${row?.locks} locks at this moment, ${row?.mb} MB of disk for ${scale.sources} sources, ${row?.relations} relations; memory of the workers ${memory.join(', ')} MB, of all backends of Postgres ${sum} MB, of the largest ${most} MB`
}
