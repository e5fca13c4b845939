// `npm run restores`: backs a mirror up by pg_dump, pg_basebackup and archived WAL while records change, restores each as the manual says,
// starts a worker on it, and waits until the mirror equals the source. Needs the Postgres of Debian (apt install postgresql).

import { execFile } from 'node:child_process'
import { appendFile, chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { type Cluster, findPrograms, makePrimary, openDirectory, startCluster } from '../faults/clusters.ts'
import { oneValue, untilEqual } from '../faults/postgres-failover.ts'
import { environmentFor } from '../support/environment.ts'
import { startTestWorker } from '../support/worker.ts'

const records = 5_000
const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))
const often = {
  ...{ STREAMS: 'assignment,assignment_note', SCHEDULE_ASSIGNMENT: '1s', SCHEDULE_ASSIGNMENT_NOTE: '1s' },
  ...{ HISTORY: 'assignment', REQUEST_TIMEOUT: '30s' },
}
const say = (text: string) => process.stdout.write(`${text}\n`)

const run = await findPrograms()
await using directory = await openDirectory()
await using clusters = new AsyncDisposableStack()
const at = (name: string) => join(directory.path, name)
const archive = at('wal')
await mkdir(archive)
// Postgres may run as another user.
await chmod(archive, 0o777)
const archiving = `archive_mode = on\narchive_command = 'test ! -f ${archive}/%f && cp %p ${archive}/%f'`
const primary = await makePrimary(run, directory.path, clusters, archiving)
const simulator = await startSimulator({ assignments: records, notes: records })
clusters.defer(() => simulator.close())

let isQuiet = false
const churn = setInterval(() => {
  if (isQuiet) return
  const id = 1 + Math.floor(Math.random() * records)
  simulator.source.change('assignment', id)
  simulator.source.change('assignment_note', id)
}, 80)

const server = (port: number) => ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres']
const worker = await startTestWorker(simulator, primary, often)
await quietly(() => untilEqual(primary.url, simulator))
await wait(3_000)
await run('pg_dump', ...server(primary.port), '--format=custom', '--file', at('mirror.dump'), 'tidemark')
await run('pg_basebackup', ...server(primary.port), '-D', at('base'), '--checkpoint=fast')
await run('pg_basebackup', ...server(primary.port), '-D', at('moment'), '--checkpoint=fast')
await wait(3_000)
const moment = String(await oneValue(primary.url, 'select now()::text'))
await wait(3_000)
// The mistake that makes somebody want the moment before it.
await worker.stop()
await primary.run('select pg_switch_wal()')
await restored('pg_dump, into a new database', async () => {
  await primary.run(`create database restored encoding 'UTF8' template template0`)
  await run('pg_restore', ...server(primary.port), '--exit-on-error', '--dbname=restored', at('mirror.dump'))
  return { ...primary, url: primary.url.replace('/tidemark?', '/restored?') }
})
await restored('pg_basebackup', async () =>
  startCluster(run, at('base'), await freePort(), clusters, 'archive_mode = off'),
)
await restored(`archived WAL, up to ${moment}`, async () => {
  await writeFile(at('moment/recovery.signal'), '')
  await appendFile(
    at('moment/postgresql.auto.conf'),
    `restore_command = 'cp ${archive}/%f %p'\nrecovery_target_time = '${moment}'\nrecovery_target_action = 'promote'\n`,
  )
  return startCluster(run, at('moment'), await freePort(), clusters, 'archive_mode = off')
})
clearInterval(churn)
say('All three equal the source.')

/** With the source at rest. */
async function quietly<Result>(work: () => Promise<Result>): Promise<Result> {
  isQuiet = true
  const result = await work()
  isQuiet = false
  return result
}

async function restored(how: string, restore: () => Promise<Cluster>): Promise<void> {
  const { url } = await restore()
  const known = await oneValue(url, 'select count(*)::int from mirror.assignment_history')
  const own = await startTestWorker(simulator, { url }, often)
  try {
    await wait(5_000)
    const seconds = await quietly(() => untilEqual(url, simulator))
    // Ends with 1, and so fails here, when a difference is found.
    await promisify(execFile)(process.execPath, [program, 'verify'], {
      cwd: directory.path,
      env: { PATH: process.env.PATH, ...environmentFor(simulator, { url }, often) },
    })
    say(
      `${how}: ${known} lines of history were restored; equal after 5 s of changes and ${seconds} s; verify found no difference`,
    )
  } finally {
    await own.stop()
  }
}
