// Postgres becomes a standby, which is read-only, and is promoted again.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { begunWell, type Fault, tryFault } from './stage.ts'

export const standby: Fault = {
  name: 'postgres becomes a read-only standby',
  needs: [],
  async try(stage) {
    const postgres = await stage.startPostgres()
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({ DATABASE_URL: databaseUrl })
    await begunWell(stage, { worker, databaseUrl })
    return await tryFault(stage, {
      ...{ worker, databaseUrl },
      async begin() {
        await postgres.stop()
        writeFileSync(join(postgres.data, 'standby.signal'), '')
        await postgres.start()
      },
      end: () => postgres.control('promote'),
      sentence: /Postgres does not work: .*read-only/,
    })
  },
}
