// A sync context between the stand-in and a test database, and what tests look up in it.

import type { Pool } from 'pg'
import { loadConfig } from '../../src/config/load.ts'
import { openContext, type SyncContext } from '../../src/context.ts'
import type { Simulator } from '../../src/simulator/simulator.ts'
import { quietLog } from './database.ts'
import { environmentFor } from './environment.ts'

export const neverAborted = new AbortController().signal

export const openTestContext = (
  database: { readonly url: string },
  simulator: Simulator,
  variables: Readonly<Record<string, string>> = {},
  anySource = false,
): Promise<SyncContext> =>
  openContext({
    anySource,
    config: loadConfig(environmentFor(simulator, database, { REQUEST_TIMEOUT: '2s', ...variables })),
    log: quietLog,
  })

export async function positionOf(pool: Pool, stream = 'assignment'): Promise<bigint> {
  const { rows } = await pool.query<{ position: string }>(
    'select position from tidemark.stream where name = $1',
    [stream],
  )
  return BigInt(rows[0]?.position ?? 0)
}

export async function beliefOf(pool: Pool, name: string, stream = 'assignment'): Promise<string | undefined> {
  const { rows } = await pool.query<{ value: string }>(
    'select value from tidemark.belief where stream = $1 and name = $2',
    [stream, name],
  )
  return rows[0]?.value
}
