// What the soak is judged by.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { SoakWorker } from './workers.ts'

export type Finding = { readonly what: string; readonly isFine: boolean; readonly told: string }

const sampleEveryMs = 2_000

/** The resident memory of the first worker, which is never killed, until the signal comes. */
export async function startSampling(
  workers: readonly SoakWorker[],
  signal: AbortSignal,
): Promise<readonly number[]> {
  const samples: number[] = []
  while (!signal.aborted) {
    const memory = workers[0]?.memoryMb()
    if (memory) samples.push(memory)
    await wait(sampleEveryMs, undefined, { signal }).catch(() => {})
  }
  return samples
}

/** The last third must be within a tenth of the middle third. */
export function judgeMemory(samples: readonly number[]): Pick<Finding, 'isFine' | 'told'> {
  const third = Math.floor(samples.length / 3)
  const middle = mean(samples.slice(third, 2 * third))
  const last = mean(samples.slice(2 * third))
  return {
    isFine: last <= 1.1 * middle,
    told: `${middle.toFixed(0)} MB in the middle third, ${last.toFixed(0)} MB in the last`,
  }
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)

export async function overlappingRuns(pool: Pool): Promise<readonly unknown[]> {
  const { rows } = await pool.query(
    `select a.stream, a.kind, a.id as first, b.id as second, a.finished_at, b.started_at
     from tidemark.run as a join tidemark.run as b
       on a.stream = b.stream and a.kind = b.kind and a.id < b.id and b.started_at < a.finished_at
     order by a.id`,
  )
  return rows
}
