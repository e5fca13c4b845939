// Cards that the demo does not have: a record vanishes whose neighbour in the order of keys cannot be a row, or became visible late.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Simulator } from '../../src/simulator/simulator.ts'

/** In both orders: the neighbour has the higher key, and the lower one. */
export async function placeBeside(card: string, simulator: Simulator, pool: Pool): Promise<string> {
  const { source } = simulator
  const makesLate = card === 'late-beside'
  const commits: (() => void)[] = []
  const odd = (): number => {
    if (!makesLate) return source.insertMalformed('no-row-version', 'assignment').id
    const late = source.insertLate('assignment')
    commits.push(late.commit)
    return late.id
  }
  const plain = () => source.insert('assignment', null, { isLate: false }).id
  const lower = plain()
  const [above, below] = [odd(), odd()]
  const upper = plain()
  await untilRows(pool, [lower, upper])
  // Polls are past the late ones, and they become visible as the others vanish.
  for (const commit of commits) commit()
  for (const id of [lower, upper]) source.remove('assignment', id, 'hard')
  return `${lower} and ${upper} are gone, ${above} and ${below} stand between them`
}

/** They live here as well; or the demo's own changes took one of them away meanwhile. */
export async function untilRows(pool: Pool, ids: readonly number[]): Promise<void> {
  for (let waitedMs = 0; waitedMs < 60_000; waitedMs += 500) {
    const { rows } = await pool.query(
      `select from mirror.assignment where assignment_id = any ($1) and _deleted_at is null`,
      [ids],
    )
    if (rows.length === ids.length) return
    await wait(500)
  }
}
