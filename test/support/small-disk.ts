// A file system in memory that can be filled, for a Postgres whose disk becomes full. Needs root.

import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'

export type SmallDisk = {
  readonly path: string
  /** Until `makeRoom`: what Postgres frees meanwhile is filled, too. */
  fill(): void
  makeRoom(): void
  leave(): void
}

const refillMs = 250

export function mountSmallDisk(path: string, megabytes: number): SmallDisk {
  mkdirSync(path, { recursive: true })
  const size = `size=${megabytes}m,mode=755`
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', path], {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`a file system in memory cannot be mounted: ${stderr}`)
  const ballast = join(path, 'ballast')
  let filling: NodeJS.Timeout | undefined
  return {
    path,
    fill() {
      fill(ballast)
      filling = setInterval(fill, refillMs, ballast).unref()
    },
    makeRoom() {
      clearInterval(filling)
      rmSync(ballast, { force: true })
    },
    leave: () => void spawnSync('umount', ['-l', path]),
  }
}

function fill(file: string): void {
  const opened = openSync(file, 'a')
  let pieceBytes = 2 ** 20
  while (pieceBytes >= 2 ** 10)
    try {
      writeSync(opened, Buffer.alloc(pieceBytes))
    } catch {
      pieceBytes /= 2
    }
  closeSync(opened)
}

/** Makes Postgres keep little room of its own, so that its disk is full as soon as it is filled. */
export async function keepLittle(databaseUrl: string): Promise<void> {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  for (const setting of [`max_wal_size = '64MB'`, `min_wal_size = '32MB'`, `wal_recycle = off`])
    await client.query(`alter system set ${setting}`)
  await client.query('select pg_reload_conf()')
  await client.end()
}
