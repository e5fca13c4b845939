// A pool that reaches the test database through a proxy.

import pg from 'pg'
import { type Cut, type CuttingProxy, startCuttingProxy } from './cutting-proxy.ts'
import type { TestDatabase } from './database.ts'

/** By which `pg_stat_activity` tells its sessions. */
export const proxiedName = 'proxied'

export async function openProxiedPool(
  database: Pick<TestDatabase, 'url' | 'connection'>,
  cut: Cut,
): Promise<{ proxy: CuttingProxy; pool: pg.Pool }> {
  const proxy = await startCuttingProxy(database.url, cut)
  const pool = new pg.Pool({
    ...database.connection,
    connectionString: proxy.url,
    application_name: proxiedName,
    connectionTimeoutMillis: 2_000,
  })
  pool.on('error', () => {})
  return { proxy, pool }
}
