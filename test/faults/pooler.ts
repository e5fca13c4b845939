// A PgBouncer in session mode before a Postgres that also holds the queue: it goes away and comes back.

import { startPooler } from '../support/pgbouncer.ts'
import { begunWell, type Fault, tryFault } from './stage.ts'

export const poolerAway: Fault = {
  name: 'pgbouncer in session mode goes away',
  needs: ['pgbouncer'],
  async try(stage) {
    const postgres = await stage.startPostgres()
    const pooler = await startPooler(postgres.url, { mode: 'session', poolSize: 28 })
    stage.defer(pooler.stop)
    const worker = await stage.startWorker({ DATABASE_URL: pooler.url })
    await begunWell(stage, { worker, databaseUrl: postgres.url })
    return await tryFault(stage, {
      worker,
      databaseUrl: postgres.url,
      begin: pooler.stop,
      end: pooler.start,
      sentence: /Postgres does not work/,
    })
  },
}
