// A PgBouncer in transaction mode cannot work, and is refused by name.

import { setTimeout as wait } from 'node:timers/promises'
import { startPooler } from '../support/pgbouncer.ts'
import { type Fault, seconds } from './stage.ts'

const longestMs = 60_000

export const transactionPooling: Fault = {
  name: 'pgbouncer in transaction mode',
  needs: ['pgbouncer'],
  async try(stage) {
    const postgres = await stage.startPostgres()
    const pooler = await startPooler(postgres.url, { mode: 'transaction', poolSize: 28 })
    stage.defer(pooler.stop)
    const startedMs = performance.now()
    const worker = await stage.startWorker({ DATABASE_URL: pooler.url })
    while (worker.surprises.length === 0) {
      if (performance.now() - startedMs > longestMs) throw new Error('the worker did not end')
      await wait(100)
    }
    const said = /Postgres at .*pool_mode = transaction.*/.exec(worker.log())?.[0]
    if (said === undefined || !worker.surprises[0]?.endsWith('with 4'))
      throw new Error(`${worker.surprises.join()}; it said ${worker.log().slice(-300)}`)
    return `refused after ${seconds(performance.now() - startedMs)}, exit 4 ("${said}")`
  },
}
