// A PgBouncer in session mode that has fewer sessions than a worker needs, and grows.

import { startPooler } from '../support/pgbouncer.ts'
import { type Fault, tryFault } from './stage.ts'

export const smallPool: Fault = {
  name: 'pgbouncer in session mode with a small pool',
  needs: ['pgbouncer'],
  async try(stage) {
    const postgres = await stage.startPostgres()
    const pooler = await startPooler(postgres.url, { mode: 'session', poolSize: 5 })
    stage.defer(pooler.stop)
    const worker = await stage.startWorker({ DATABASE_URL: pooler.url })
    return await tryFault(stage, {
      worker,
      databaseUrl: postgres.url,
      begin: async () => {},
      end: async () => pooler.resize(28),
      sentence: /has 5 sessions of Postgres for Tidemark, which needs 28 at once/,
    })
  },
}
