// `tidemark serve` as a process: what ends it, and how.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { listening, runTidemark, startTidemark, statusOf } from '../support/program.ts'
import { differences } from '../support/same-as-source.ts'

const inTime = { timeout: 40_000, interval: 100 }
const more = { HTTP_PORT: '0', LOG_LEVEL: 'info' }

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true))
    socket.once('error', () => resolve(false)).once('connect', () => socket.destroy())
  })
}

describe.skipIf(!hasPostgres)('tidemark serve', () => {
  const database = createTestDatabase()
  it('ends at once on the second signal', async () => {
    // An upstream that never answers holds the first run.
    const silent = createServer(() => {})
    const isBlocked = once(silent, 'request')
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    await using simulator = await startSimulator()
    const program = startTidemark(
      ['serve'],
      environmentFor(simulator, database, { ...more, ASSIGNMENT_BASE_URL: url, AUTH_URL: url }),
    )
    const http = await listening(program)
    await isBlocked
    await expect.poll(() => statusOf(`${http}/readyz`), inTime).toBe(200)
    program.child.kill('SIGTERM')
    await expect.poll(() => statusOf(`${http}/readyz`), inTime).not.toBe(200)
    const startedMs = performance.now()
    program.child.kill('SIGTERM')
    const { code } = await program.ended
    expect(performance.now() - startedMs).toBeLessThan(2_000)
    expect(code).toBe(130)
    silent.closeAllConnections()
    silent.close()
  })

  it('says in one line that its port is taken, and ends with 2', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as AddressInfo
    await using simulator = await startSimulator()
    const { code, stderr } = await runTidemark(
      ['serve'],
      environmentFor(simulator, database, { HTTP_PORT: String(port) }),
    )
    other.close()
    expect([code, stderr.trim()]).toEqual([
      2,
      `127.0.0.1:${port} is taken by another program. Set HTTP_PORT to a free port (0 picks one).`,
    ])
  })

  it('waits for a Postgres that is not there, says so once, and can be stopped', async () => {
    await using simulator = await startSimulator()
    const program = startTidemark(
      ['serve'],
      environmentFor(simulator, { url: 'postgres://nobody:secret-word@127.0.0.1:9/none' }, more),
    )
    const url = await listening(program)
    await expect.poll(() => program.stderr(), inTime).toContain('Postgres does not answer yet')
    expect([await statusOf(`${url}/healthz`), await statusOf(`${url}/readyz`)]).toEqual([200, 503])
    program.child.kill('SIGTERM')
    const { code, stderr } = await program.ended
    expect(code).toBe(0)
    expect(stderr.match(/Postgres does not answer yet/g)?.length).toBe(1)
    expect(stderr).not.toContain('secret-word')
  })

  it('stopped while it waits for Redis, takes the embedded Postgres with it', async () => {
    await using simulator = await startSimulator()
    const program = startTidemark(
      ['serve'],
      environmentFor(simulator, null, { ...more, REDIS_URL: 'redis://127.0.0.1:9' }),
    )
    await expect.poll(() => program.stderr(), inTime).toContain('Redis does not answer yet')
    const port = Number(/postgres:\/\/tidemark_worker@127\.0\.0\.1:(\d+)/.exec(program.stderr())?.[1])
    expect(await isListening(port)).toBe(true)
    program.child.kill('SIGTERM')
    expect((await program.ended).code).toBe(0)
    expect(await isListening(port)).toBe(false)
  })

  it('hears SIGTERM as the first process of a container, started as the image starts it', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const dockerfile = readFileSync('Dockerfile', 'utf8')
    const port = await freePort()
    const wordsOf = (instruction: string): readonly string[] =>
      JSON.parse(new RegExp(`^${instruction} (\\[.*\\])$`, 'm').exec(dockerfile)?.[1] ?? '[]')
    const words = ['ENTRYPOINT', 'CMD'].flatMap(wordsOf)
    expect(words).toEqual(['/app/bin/tidemark.js', 'serve'])
    const command = words.map((word) => word.replace(/^\/app\//, './'))
    // As root, in a process namespace of its own, where no signal has a default action.
    const isRoot = process.getuid?.() === 0
    const [file = '', ...rest] = isRoot ? ['unshare', '--pid', '--fork', '--kill-child', ...command] : command
    const child = spawn(file, rest, {
      env: {
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        ...environmentFor(simulator, database, { HTTP_PORT: String(port), LOG_LEVEL: 'info' }),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    // That of the health check stands first.
    const [check = '', ...asked] = wordsOf(' *CMD')
    const health = () => spawnSync(check, asked, { env: { ...process.env, HTTP_PORT: String(port) } }).status
    let stderr = ''
    child.stderr.on('data', (text) => {
      stderr += String(text)
    })
    await expect.poll(() => stderr, inTime).toContain('the worker is running')
    expect(health()).toBe(0)
    const inside = isRoot
      ? Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim())
      : (child.pid ?? 0)
    process.kill(inside, 'SIGTERM')
    const [code] = await once(child, 'exit')
    expect([code, stderr.includes('"msg":"stopped"')]).toEqual([0, true])
    expect(health()).toBe(1)
  })
})

describe.skipIf(!hasPostgres)('tidemark serve with webhooks', () => {
  const database = createTestDatabase()

  it('outlives a Postgres that ends all its sessions, whatever they were held for', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    // The subscription waits for the upstream, and a session waits with it.
    simulator.faults.add({ kind: 'hang', path: 'Webhooks' })
    const program = startTidemark(
      ['serve'],
      environmentFor(simulator, database, {
        ...{ ...more, PUBLIC_URL: 'http://127.0.0.1:9', WEBHOOK_SECRET: 'a-webhook-secret-of-the-tests' },
      }),
    )
    const url = await listening(program)
    const ended = async () => {
      const { rowCount } = await database.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and query ~ 'from tidemark.turn'`,
      )
      return rowCount
    }
    await expect.poll(ended, inTime).toBeGreaterThan(0)
    await expect.poll(() => differences(database.pool, simulator, 'assignment'), inTime).toEqual([])
    await expect.poll(() => statusOf(`${url}/readyz`), inTime).toBe(200)
    program.child.kill('SIGTERM')
    expect((await program.ended).code).toBe(0)
  })
})
