// A terminal that is closed ends what it started after the page in hand; what has no terminal, as with nohup, goes on (P8).

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, inject, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { hasTerminal } from '../support/terminal.ts'

const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))

describe.skipIf(!hasPostgres)('a hang-up', () => {
  const database = createTestDatabase({ forEach: true })

  /** A sync of some seconds, of which the first rows are there. */
  async function startSync(command: string, before: readonly string[]) {
    const simulator = await startSimulator({ assignments: 600, behaviour: { latencyMs: 150 } })
    const child = spawn(command, before, {
      cwd: inject('scratch'),
      env: {
        ...{
          PATH: process.env.PATH,
          HOME: process.env.HOME,
          TERM: 'xterm',
          PAGE_SIZE: '20',
          LOAD_CONNECTIONS: '1',
        },
        ...environmentFor(simulator, database),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child.stdout.resume()
    child.stderr.resume()
    const ended = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)))
    const run = async () => (await database.pool.query('select status, note, pid from tidemark.run')).rows[0]
    const rows = async () =>
      Number((await database.pool.query('select count(*) from mirror.assignment')).rows[0].count)
    await expect.poll(rows, { timeout: 30_000, interval: 20 }).toBeGreaterThan(0)
    expect(await run()).toMatchObject({ status: 'running' })
    return { simulator, child, ended, run, [Symbol.asyncDispose]: () => simulator.close() }
  }

  it('is nothing to a program without a terminal, as with nohup', async () => {
    const words = [process.execPath, program, 'sync', 'assignment']
    await using started = await startSync('nohup', words)
    process.kill((await started.run()).pid, 'SIGHUP')
    expect(await started.ended).toBe(0)
    const { rows } = await database.pool.query('select count(*)::int from mirror.assignment')
    expect(rows).toEqual([{ count: 600 }])
  })

  it.skipIf(!hasTerminal)('of a terminal ends the run after the page in hand', async () => {
    const command = `exec ${process.execPath} ${program} sync assignment`
    await using started = await startSync('script', ['-qec', command, '/dev/null'])
    const { pid } = await started.run()
    started.child.kill('SIGKILL')
    await expect
      .poll(started.run, { timeout: 20_000, interval: 50 })
      .toMatchObject({ status: 'done', note: 'stopped between two pages' })
    await expect.poll(() => isRunning(pid), { timeout: 20_000, interval: 50 }).toBe(false)
  })
})

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
