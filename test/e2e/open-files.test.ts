// A worker that may have few files open: it says so and does not start, or keeps enough of them for its work while clients want them all.

import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { listening, startLimited, statusOf } from '../support/program.ts'

describe.skipIf(!hasPostgres || process.platform === 'win32')('tidemark serve with few open files', () => {
  const database = createTestDatabase()
  const more = { HTTP_PORT: '0', LOG_LEVEL: 'info' }

  it('says how many it needs, and how to allow them', async () => {
    await using simulator = await startSimulator()
    const program = startLimited('ulimit -n 64', ['serve'], environmentFor(simulator, database, more))
    const { code, stderr } = await program.ended
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/64 files open at once, and Tidemark needs 512 .* `ulimit -n 4096`/),
    ])
  })

  it('leaves enough for its runs and its health when clients open more connections than there are, and says so', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const program = startLimited('ulimit -n 512', ['serve'], environmentFor(simulator, database, more))
    const url = await listening(program)
    const sockets = Array.from({ length: 700 }, (_, index) =>
      connect({
        host: '127.0.0.1',
        port: Number(new URL(url).port),
        localAddress: `127.0.0.${2 + (index % 5)}`,
      }),
    )
    try {
      for (const socket of sockets) {
        socket.on('error', () => {})
        // Some say nothing, the others begin to send a body.
        const body = 'POST /sign-in HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nx'
        socket.once('connect', () => sockets.indexOf(socket) % 2 === 0 && socket.write(body))
      }
      await Promise.all(
        sockets.map(
          (socket) => new Promise((resolve) => socket.once('connect', resolve).once('error', resolve)),
        ),
      )
      for (let time = 0; time < 3; time++) expect(await statusOf(`${url}/healthz`)).toBe(200)
      await expect.poll(() => statusOf(`${url}/readyz`)).toBe(200)
      await expect
        .poll(async () => {
          const { rows } = await database.pool
            .query('select from mirror.assignment')
            .catch(() => ({ rows: [] }))
          return rows.length
        })
        .toBe(20)
      expect(program.stderr()).toContain('all connections over HTTP are in use')
      expect(program.stderr()).not.toContain('EMFILE')
    } finally {
      for (const socket of sockets) socket.destroy()
      program.child.kill('SIGTERM')
      await program.ended
    }
  }, 90_000)
})
