// The disk of Postgres, a small file system in memory, becomes full, and room is made again.

import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { startPostgres } from '../soak/worlds.ts'
import { begunWell, type Fault, tryFault } from './stage.ts'

const diskMb = 300

export const fullDisk: Fault = {
  name: 'the disk of postgres is full',
  needs: ['mount'],
  async try(stage) {
    const disk = join(stage.directory, 'disk')
    mkdirSync(disk)
    command('mount', '-t', 'tmpfs', '-o', `size=${diskMb}m,mode=755`, 'tmpfs', disk)
    stage.defer(async () => void spawnSync('umount', ['-l', disk]))
    const postgres = await startPostgres(disk)
    stage.defer(() => postgres.stop().catch(() => {}))
    await settle(postgres.url)
    const databaseUrl = postgres.url
    const worker = await stage.startWorker({ DATABASE_URL: databaseUrl })
    await begunWell(stage, { worker, databaseUrl })
    const ballast = join(disk, 'ballast')
    return await tryFault(stage, {
      ...{ worker, databaseUrl },
      begin: async () => fill(ballast),
      async end() {
        rmSync(ballast)
        // It may have gone down for want of room.
        await postgres.control('status').catch(() => postgres.start())
      },
      sentence: /Postgres does not work/,
    })
  },
}

function command(program: string, ...words: string[]): void {
  const { status, stderr } = spawnSync(program, words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} failed: ${stderr}`)
}

/** Nothing of Postgres' own may take the room for itself. */
async function settle(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  for (const setting of [`max_wal_size = '64MB'`, `min_wal_size = '32MB'`, `wal_recycle = off`])
    await client.query(`alter system set ${setting}`)
  await client.query('select pg_reload_conf()')
  await client.end()
}

function fill(path: string): void {
  const file = openSync(path, 'w')
  let pieceBytes = 2 ** 20
  while (pieceBytes >= 2 ** 10)
    try {
      writeSync(file, Buffer.alloc(pieceBytes))
    } catch {
      pieceBytes /= 2
    }
  closeSync(file)
}
