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
  const { hostname, port } = new URL(database.url)
  const proxy = await startCuttingProxy({ host: hostname, port: Number(port || 5432) }, cut)
  const url = new URL(database.url)
  url.hostname = '127.0.0.1'
  url.port = String(proxy.port)
  url.search = ''
  const pool = new pg.Pool({
    ...database.connection,
    connectionString: url.href,
    application_name: proxiedName,
    connectionTimeoutMillis: 2_000,
  })
  pool.on('error', () => {})
  return { proxy, pool }
}
