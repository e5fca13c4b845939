// Somebody drops the schema of the queue in Postgres. The worker makes it again by itself.

import pg from 'pg'
import { begunWell, type Fault, tryFault } from './stage.ts'

export const schemaDropped: Fault = {
  name: 'the schema bullmq is dropped',
  needs: [],
  async try(stage) {
    const { url } = await stage.startPostgres()
    const worker = await stage.startWorker({ DATABASE_URL: url })
    await begunWell(stage, { worker, databaseUrl: url })
    return await tryFault(stage, {
      ...{ worker, databaseUrl: url, healsItself: true },
      async begin() {
        const client = new pg.Client(url)
        await client.connect()
        await client.query('drop schema bullmq cascade')
        await client.end()
      },
      end: async () => {},
      sentence: /^The queue/,
    })
  },
}
