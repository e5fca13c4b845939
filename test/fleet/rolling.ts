// Two versions side by side: workers of an older version read all sources, workers of this one join them and migrate the database, and then
// the older ones go on alone, as after an upgrade that is taken back. Nothing may fail meanwhile. The requests of
// each phase are told and not judged: look-backs and searches follow what changes.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import { overlappingRuns } from '../soak/verdict.ts'
import { changeAll } from './equal.ts'
import { equalityFinding, type Trial, untilEqual } from './stage.ts'

const phases = ['the older alone', 'both', 'the older alone again'] as const
const longestQuietMs = 600_000

export const rolling: Trial = {
  name: 'rolling',
  what: 'an older version, beside it this one, which migrates the database, and the older one alone again',
  async run(stage) {
    const { fleet, scale, pool, say } = stage
    const ending = new AbortController()
    const changing = changeAll(fleet.clients, ending.signal)
    const began = new Date()
    const programs: number[] = []
    const surprises: string[] = []
    for (const phase of phases) {
      const newer = phase === 'both' ? await stage.openWorkers(scale.workers) : []
      const phaseBegan = new Date()
      for (const { requests } of fleet.clients) requests.clear()
      await wait(scale.minutes * 60_000)
      const requests = fleet.timesOf(fleet.clients).length / scale.minutes
      const working = await programsSince(pool, phaseBegan)
      say(`${phase}: ${requests.toFixed(0)} requests a minute, runs of ${working} programs`)
      programs.push(working)
      for (const worker of newer) await worker.stop()
      surprises.push(...newer.flatMap((worker) => worker.surprises))
    }
    ending.abort()
    say(`quiet after ${await changing} changes`)
    const equality = await untilEqual(stage, fleet.clients, longestQuietMs)
    const overlaps = await overlappingRuns(pool)
    const failed = await failedSince(pool, began)
    const [, both = 0] = programs
    return [
      equalityFinding('each mirror equals its source', equality),
      {
        what: 'no run failed',
        isFine: failed.length === 0,
        told: `${failed.length}${failed
          .slice(0, 5)
          .map((one) => `\n            ${one}`)
          .join('')}`,
      },
      {
        what: 'both versions work side by side',
        isFine: both === 2 * scale.workers && surprises.length === 0,
        told: `runs of ${programs.join(', ')} programs; ${surprises.join('; ') || 'none ended by itself'}`,
      },
      { what: 'no two runs of one lane at once', isFine: overlaps.length === 0, told: `${overlaps.length}` },
    ]
  },
}

async function failedSince(pool: Pool, since: Date): Promise<readonly string[]> {
  const { rows } = await pool.query<{ told: string }>(
    `select format('%s of %s: %s', kind, stream, left(error, 200)) as told
     from tidemark.run where started_at >= $1 and status = 'failed' order by id`,
    [since],
  )
  return rows.map(({ told }) => told)
}

async function programsSince(pool: Pool, since: Date): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(distinct (host, pid))::int as count from tidemark.run where started_at >= $1',
    [since],
  )
  return rows[0]?.count ?? 0
}
