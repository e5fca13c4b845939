// Twenty workers start at once on a Postgres whose connections others use at that moment: most of the workers get some and not all. Later
// the others leave.

import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { expectNoSurprise, type Fault, seconds, untilWell } from './stage.ts'

const workerCount = 20
const othersCount = 140
const othersLeaveMs = 60_000
const longestMs = 180_000

export const manyWorkers: Fault = {
  name: 'twenty workers at once on max_connections 200',
  needs: [],
  async try(stage) {
    const { url } = await stage.startPostgres()
    const others = await takeConnections(url)
    const leaving = setTimeout(() => void leave(others), othersLeaveMs)
    stage.defer(async () => clearTimeout(leaving))
    const startedMs = performance.now()
    const workers = await Promise.all(
      Array.from({ length: workerCount }, () => stage.startWorker({ DATABASE_URL: url })),
    )
    const readyMs = new Map<string, number>()
    while (readyMs.size < workerCount) {
      for (const worker of workers) {
        expectNoSurprise(worker)
        if (!readyMs.has(worker.name) && (await worker.isReady()))
          readyMs.set(worker.name, performance.now() - startedMs)
      }
      if (performance.now() - startedMs > longestMs)
        throw new Error(`${readyMs.size} of ${workerCount} are ready after ${seconds(longestMs)}`)
      await wait(250)
    }
    const [worker] = workers
    if (!worker) throw new Error('there is no worker')
    await untilWell(stage, { worker, databaseUrl: url }, performance.now())
    await wait(20_000)
    for (const one of workers) expectNoSurprise(one)
    const client = new pg.Client(url)
    await client.connect()
    const { rows } = await client.query<{ sessions: number }>(
      `select count(*)::int as sessions from pg_stat_activity where application_name like 'tidemark%'`,
    )
    await client.end()
    const waited = workers.filter((one) => /too many clients|slots are reserved/.test(one.log())).length
    return `all ready after ${seconds(Math.max(...readyMs.values()))}, of which the others had most connections for ${seconds(othersLeaveMs)}; ${waited} had to wait for a session, none ended; ${rows[0]?.sessions} sessions when all are idle, 0 differences`
  },
}

async function takeConnections(url: string): Promise<readonly pg.Client[]> {
  const clients = Array.from({ length: othersCount }, () => new pg.Client(url))
  for (const client of clients) {
    client.on('error', () => {})
    await client.connect()
  }
  return clients
}

const leave = (clients: readonly pg.Client[]) => Promise.all(clients.map((client) => client.end()))
