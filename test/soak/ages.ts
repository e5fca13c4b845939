// How old a change is when it can be seen in the mirror. A record is changed each second and looked for until it is there.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Simulator } from '../../src/simulator/simulator.ts'
import { isWitness } from './beliefs.ts'

type Watched = { readonly simulator: Simulator; readonly pool: Pool; readonly signal: AbortSignal }

const changeEveryMs = 1_000
const lookEveryMs = 100

/** Ends after the signal; what is not visible then is not counted. Ages in milliseconds. */
export async function watchAges({ simulator, pool, signal }: Watched): Promise<readonly number[]> {
  const ages: number[] = []
  const pending = new Map<number, { readonly version: bigint; readonly changedMs: number }>()
  let changedMs = 0
  while (!signal.aborted) {
    await wait(lookEveryMs)
    const now = performance.now()
    if (now - changedMs >= changeEveryMs) {
      changedMs = now
      const ids = simulator.source.ids('assignment')
      const id = ids[Math.floor(Math.random() * ids.length)]
      if (id !== undefined && !pending.has(id) && !isWitness(id)) {
        const { version } = simulator.source.change('assignment', id, null, { isLate: false })
        pending.set(id, { version, changedMs: now })
      }
    }
    for (const [id, version] of await versionsOf(pool, [...pending.keys()])) {
      const one = pending.get(id)
      if (!one || version < one.version) continue
      ages.push(performance.now() - one.changedMs)
      pending.delete(id)
    }
  }
  return ages
}

async function versionsOf(
  pool: Pool,
  ids: readonly number[],
): Promise<readonly (readonly [number, bigint])[]> {
  if (ids.length === 0) return []
  try {
    const { rows } = await pool.query<{ id: string; version: string }>(
      `select assignment_id as id, sys_row_version as version from mirror.assignment where assignment_id = any ($1)`,
      [ids],
    )
    return rows.map(({ id, version }) => [Number(id), BigInt(version ?? 0)] as const)
  } catch {
    // Postgres is away, or the table is not there yet.
    return []
  }
}

export const percentile = (values: readonly number[], share: number): number =>
  Math.round(
    [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ?? 0,
  )
