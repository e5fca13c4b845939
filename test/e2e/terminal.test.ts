// The real program on a terminal: a pseudo-terminal that `script` makes.

import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, inject, it } from 'vitest'
import type { Environment } from '../../src/config/load.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { isForChanges } from '../support/asked.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'

const hasTerminal = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0
const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))
const soon = { timeout: 30_000, interval: 100 }

function onTerminal(words: readonly string[], columns: number, environment: Environment) {
  const command = `stty cols ${columns} rows 30; exec ${process.execPath} ${program} ${words.join(' ')}`
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd: inject('scratch'),
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'xterm', LANG: 'C.UTF-8', ...environment },
  })
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
  })
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  return { ended, shown: () => shown, type: (text: string) => child.stdin.write(text) }
}

describe.skipIf(!hasPostgres || !hasTerminal)('on a terminal', () => {
  const database = createTestDatabase()

  it('a sync shows how far it is while it reads, and the status goes on until q', async () => {
    await using simulator = await startSimulator({ assignments: 3_000 })
    const gate = Promise.withResolvers<void>()
    let asked = 0
    simulator.onRequest((request) => (isForChanges(request) && ++asked > 14 ? gate.promise : undefined))
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '100', STREAMS: 'assignment' })
    const sync = onTerminal(['sync', 'assignment'], 60, environment)
    await expect.poll(sync.shown, soon).toMatch(/assignment +first load .*━*╌+ .*\d %/)
    await expect.poll(sync.shown, soon).toMatch(/\d+ of about 3,000/)

    const watch = onTerminal(['status', '--watch'], 60, { ...environment, NO_COLOR: '1' })
    await expect.poll(watch.shown, soon).toMatch(/◐ assignment +first load \d+ %/)
    gate.resolve()
    expect(await sync.ended).toBe(0)
    expect(sync.shown()).toContain('assignment: done, 3,000 new')
    await expect.poll(watch.shown, soon).toMatch(/● assignment +up to date/)
    watch.type('q')
    expect(await watch.ended).toBe(0)
    expect(watch.shown().endsWith('\x1b[?25h\x1b[?1049l')).toBe(true)
    // Every line of every frame fits.
    const lines = stripVTControlCharacters(watch.shown().replaceAll('\x1b[H', '\r\n')).split('\r\n')
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(60)
  })

  it('Ctrl-C ends the status as well, and leaves the terminal as it was', async () => {
    const watch = onTerminal(['status', '--watch'], 100, { DATABASE_URL: database.url })
    await expect.poll(watch.shown, soon).toContain('q ends')
    watch.type('\x03')
    expect(await watch.ended).toBe(0)
    expect(watch.shown().endsWith('\x1b[?25h\x1b[?1049l')).toBe(true)
  })
})

describe.skipIf(!hasPostgres)('the status for programs', () => {
  const database = createTestDatabase()

  it('ends with 1 when something needs somebody, and watches nowhere but on a terminal', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const environment = environmentFor(simulator, database, { STREAMS: 'assignment' })
    await runTidemark(['sync'], environment)
    expect(await runTidemark(['status', '--check'], environment)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Everything is up to date/),
    })
    await database.pool.query(
      `update tidemark.stream set stopped_reason = 'by a test', stopped_at = now() where name = 'assignment'`,
    )
    const { code, stdout } = await runTidemark(['status', '--check', '--json'], environment)
    expect({ code, verdict: JSON.parse(stdout).verdict }).toEqual({ code: 1, verdict: '1 thing needs you' })
    expect((await runTidemark(['status'], environment)).code).toBe(0)
    expect(await runTidemark(['status', '--watch'], environment)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('needs a terminal'),
    })
  })
})
