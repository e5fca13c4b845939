// A Postgres whose disk is full: a database in a tablespace of its own, on a small disk in memory. Only root may mount one. The
// server is its own too: with one full tablespace no database of it can be dropped.

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, inject, it } from 'vitest'
import { startEmbedded } from '../../src/embedded-postgres/server.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { quietLog } from '../support/database.ts'
import { startTestWorker } from '../support/worker.ts'

type Disk = { readonly directory: string; fill(): void; free(): void; unmount(): void }

/** Null where it cannot be had. */
function mountSmallDisk(): Disk | null {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-small-disk-'))
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', directory]).status !== 0) {
    rmSync(directory, { recursive: true })
    return null
  }
  const ballast = join(directory, 'ballast')
  return {
    directory,
    fill() {
      const { bavail, bsize } = statfsSync(directory)
      try {
        writeFileSync(ballast, Buffer.alloc(bavail * bsize))
      } catch (error) {
        // Postgres took the last of it.
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      }
    },
    free: () => truncateSync(ballast, 0),
    unmount() {
      spawnSync('umount', [directory])
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

const disk = inject('databaseUrl') === null || process.getuid?.() !== 0 ? null : mountSmallDisk()

describe.skipIf(disk === null)('a worker whose Postgres has a full disk', () => {
  it('is not ready within seconds, says why and what to do, and goes on when there is room', async () => {
    if (!disk) return
    const directory = mkdtempSync(join(tmpdir(), 'tidemark-full-disk-'))
    chmodSync(directory, 0o755)
    const server = await startEmbedded({ directory, log: quietLog })
    const name = `tidemark_full_${randomBytes(4).toString('hex')}`
    const admin = new pg.Client(server.adminUrl)
    await admin.connect()
    const { rows } = await admin.query<{ data_directory: string }>('show data_directory')
    const { uid, gid } = statSync(rows[0]?.data_directory ?? '')
    chownSync(disk.directory, uid, gid)
    await admin.query(`create tablespace ${name} location '${disk.directory}'`)
    await admin.query(`create database ${name} template template0 tablespace ${name}`)
    const own = new URL(server.adminUrl)
    own.pathname = `/${name}`
    await using simulator = await startSimulator({ assignments: 20 })
    const worker = await startTestWorker(
      simulator,
      { url: own.href },
      {
        ...{ STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1s' },
      },
    )
    const readiness = async () => {
      const answer = await worker.get('/readyz')
      return `${answer.status} ${await answer.text()}`
    }
    try {
      await expect.poll(readiness).toMatch(/^200/)
      disk.fill()
      const startedMs = performance.now()
      await expect.poll(readiness).toMatch(/^503 .*No space left on device.*Make room on the disk/)
      expect(performance.now() - startedMs).toBeLessThan(15_000)
      expect(await worker.metric('tidemark_up{part="database"}')).toBe(0)
      disk.free()
      await expect.poll(readiness).toMatch(/^200/)
    } finally {
      await worker.stop()
      await admin.query(`drop database ${name} with (force)`)
      await admin.query(`drop tablespace ${name}`)
      await admin.end()
      await server.leave()
      rmSync(directory, { recursive: true, force: true })
      disk.unmount()
    }
  })
})
