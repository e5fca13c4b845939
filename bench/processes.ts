// What programs of the bench cost, as Linux tells it: CPU seconds are what counts, other work on the machine only stretches the clock.

import { readdirSync, readFileSync } from 'node:fs'
import type { Database } from '../src/store/server/connect.ts'

const ticksPerSecond = 100

type Stat = { readonly parent: number; readonly ticks: number; readonly childTicks: number }

function statOf(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15)
    return { parent: fields[1] ?? 0, ticks: user + system, childTicks: childUser + childSystem }
  } catch {
    return null
  }
}

/** The server began the process that serves this connection, so any role can ask. */
export async function postmasterOf(database: Database): Promise<number> {
  const { rows } = await database.pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  return statOf(rows[0]?.pid ?? 0)?.parent ?? 0
}

/** CPU seconds so far of a Postgres server and all of its backends, also of those that have ended. */
export function postgresSeconds(postmasterPid: number): number {
  const own = statOf(postmasterPid)
  let ticks = own ? own.ticks + own.childTicks : 0
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null
    if (stat?.parent === postmasterPid) ticks += stat.ticks
  }
  return ticks / ticksPerSecond
}

/** Of a program that is running. */
export const programSeconds = (pid: number): number => (statOf(pid)?.ticks ?? 0) / ticksPerSecond

/** 0 when it has just ended. */
export function residentMegabytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  } catch {
    return 0
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2
}
