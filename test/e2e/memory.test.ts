// What the program takes at most, started as it is started everywhere, with everything switched on (P10).

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, inject, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'

const file = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const program = file('bin/tidemark.js')
const mostMegabytes = 256
const assignments = 150
const files = 10
const longFiles = 3
const tooMuch = files + longFiles + 1
const megabyte = 1024 * 1024

/** The most that a process ever took. */
function peakMegabytes(pid: number | undefined): number {
  const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) / 1024
}

describe.skipIf(!hasPostgres || process.platform !== 'linux')('tidemark serve', () => {
  const database = createTestDatabase()

  it(`takes less than ${mostMegabytes} MB with related records, also where they have files of megabytes (P10)`, {
    timeout: 180_000,
  }, async () => {
    await using simulator = await startSimulator({ assignments, notes: 3_000 })
    // More than a form of such services may hold: an assignment may have several files.
    const FileData = 'A'.repeat(8 * megabyte)
    for (let number = 1; number <= files; number++)
      simulator.source.insert('attachment', { OwnerId: number, FileData })
    // As much as is read at a time, and more.
    for (let number = files + 1; number <= files + longFiles; number++)
      for (const share of [1, 1, 1, 0.5])
        simulator.source.insert('attachment', {
          OwnerId: number,
          FileData: FileData.slice(0, share * FileData.length),
        })
    for (let part = 0; part < 8; part++)
      simulator.source.insert('attachment', { OwnerId: tooMuch, FileData, FileName: `photo ${part}` })
    const child = spawn(program, ['serve'], {
      cwd: inject('scratch'),
      env: {
        HOME: process.env.HOME,
        PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
        ...environmentFor(simulator, database, {
          HTTP_PORT: '0',
          RELATED: 'true',
          ATTACHMENT_DATA: 'true',
        }),
      },
      stdio: 'ignore',
    })
    const ended = once(child, 'exit')
    const readCount = async () => {
      const { rows } = await database.pool.query(
        `select count(*) from tidemark.related_fetch where fetched_at is not null and groups @> '{attachment_data}'`,
      )
      return Number(rows[0]?.count)
    }
    try {
      const isRead = { timeout: 150_000, interval: 200 }
      await expect.poll(() => readCount().catch(() => 0), isRead).toBe(assignments)
      expect(peakMegabytes(child.pid)).toBeLessThan(mostMegabytes)
      const { rows } = await database.pool.query(
        `select assignment_id::int as id, problem from tidemark.related_fetch where problem is not null`,
      )
      expect(rows).toEqual([{ id: tooMuch, problem: expect.stringContaining('longer than 28 MB') }])
      const { rows: kept } = await database.pool.query(
        `select count(*)::int as attachments, count(file_data)::int as files
         from mirror.attachment left join mirror.attachment_data using (attachment_id) where owner_id = $1`,
        [tooMuch],
      )
      expect(kept[0]).toMatchObject({ files: 0 })
      expect(kept[0]?.attachments).toBeGreaterThanOrEqual(8)
    } finally {
      child.kill()
      await ended
    }
  })
})

describe('every way to start the program', () => {
  it('is the file that names what V8 and the C library have to hear at the start', () => {
    const [first = ''] = readFileSync(program, 'utf8').split('\n')
    expect(first).toMatch(/^#!\/usr\/bin\/env -S MALLOC_ARENA_MAX=2 .*node --max-semi-space-size=8$/)
    const { scripts, bin } = JSON.parse(readFileSync(file('package.json'), 'utf8'))
    expect(bin.tidemark).toBe('bin/tidemark.js')
    const anywhere = 'node --max-semi-space-size=8 bin/start.js'
    expect([scripts.start, scripts.demo]).toEqual([`${anywhere} serve`, `${anywhere} demo`])
    expect(readFileSync(file('Dockerfile'), 'utf8')).toContain('ENTRYPOINT ["/app/bin/tidemark.js"]')
    expect(readFileSync(file('docker-compose.yml'), 'utf8')).not.toMatch(/entrypoint|command: .*node/)
  })

  it.skipIf(process.platform !== 'linux')('becomes that file, where a first line is read', () => {
    const asked = [file('bin/start.js'), 'simulate', '--port', '0']
    const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter)
    const child = spawn(process.execPath, asked, { env: { PATH }, stdio: ['ignore', 'pipe', 'inherit'] })
    return once(child.stdout, 'data')
      .then(() => {
        const words = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8').split('\0')
        expect(words.slice(1, 4)).toEqual(['--max-semi-space-size=8', program, 'simulate'])
        expect(readFileSync(`/proc/${child.pid}/environ`, 'utf8')).toContain('MALLOC_ARENA_MAX=2')
      })
      .finally(() => child.kill())
  })

  it('starts without it elsewhere', () => {
    const elsewhere = `data:text/javascript,Object.defineProperty(process, 'platform', { value: 'win32' })`
    const asked = ['--import', elsewhere, file('bin/start.js'), '--help']
    const { status, stdout } = spawnSync(process.execPath, asked, { encoding: 'utf8' })
    expect([status, stdout]).toEqual([0, expect.stringContaining('tidemark serve')])
  })
})
