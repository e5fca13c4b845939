// Several hosts in DATABASE_URL: where sessions go, and that they go on at another host when one is gone or takes no writes any more.

import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEmbedded } from '../../src/embedded-postgres/server.ts'
import { type Database, openDatabase } from '../../src/store/server/connect.ts'
import { openDriver } from '../../src/worker/queue/driver.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'

const nobody = '127.0.0.1:1'
const soon = { timeout: 10_000, interval: 50 }

/** One more address of the same Postgres, which can go away. */
async function startRelay(target: URL) {
  const sockets = new Set<Socket>()
  let isSilent = false
  const server = createServer((client) => {
    if (isSilent) {
      sockets.add(client)
      return
    }
    const session = connect(Number(target.port), target.hostname)
    for (const [socket, other] of [
      [client, session],
      [session, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => other.destroy())
      socket.pipe(other)
    }
  })
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as { port: number }
  return {
    address: `127.0.0.1:${port}`,
    /** As a machine that is gone: nothing comes from it, not even that it is gone. */
    fallSilent() {
      isSilent = true
      for (const socket of sockets) socket.unpipe().pause()
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe.skipIf(!hasPostgres)('several hosts in DATABASE_URL', () => {
  const database = createTestDatabase()
  const open = (hosts: string, options = '', isReadOnly = false) => {
    const { username, password, pathname } = new URL(database.url)
    const url = `postgres://${username}:${password}@${hosts}${pathname}?application_name=x${options}`
    return openDatabase({ url, log: quietLog, isReadOnly })
  }
  const addressOf = ({ pool }: Pick<Database, 'pool'>) =>
    pool.connect().then((client) => {
      client.release()
      return `${client.host}:${client.port}`
    })

  it('are tried in their order, and go on at the next one when one is gone, the queue as well', async () => {
    const target = new URL(database.url)
    await using second = await startRelay(target)
    const first = await startRelay(target)
    const opened = await open(`${nobody},${first.address},${second.address}`)
    const queue = await openDriver({ redisUrl: null, database: opened, log: quietLog })
    try {
      expect(await addressOf(opened)).toBe(first.address)
      await queue.ping()
      const idle = await opened.pool.connect()
      idle.release()
      await first[Symbol.asyncDispose]()
      await expect
        .poll(() => opened.pool.query('select 1').then(() => addressOf(opened), String), soon)
        .toBe(second.address)
      await expect.poll(() => queue.ping().then(() => 'answers', String), soon).toBe('answers')
      expect(opened.address).toBe(`${nobody},${first.address},${second.address}/${database.name}`)
    } finally {
      await queue.close()
      await opened.close()
    }
  })

  it('go on at the next one when the first says nothing any more, and free who waits for it', async () => {
    const target = new URL(database.url)
    await using first = await startRelay(target)
    await using second = await startRelay(target)
    const opened = await open(`${first.address},${second.address}`)
    try {
      const held = await opened.pool.connect()
      first.fallSilent()
      await expect(held.query('select 1')).rejects.toThrow('terminated')
      held.release(true)
      expect(await addressOf(opened)).toBe(second.address)
    } finally {
      await opened.close()
    }
  }, 30_000)

  it('are told with what is wrong with each when none can be used, without the password (P9)', async () => {
    const failure = await open(`${nobody},127.0.0.1:2`).catch(String)
    expect(failure).toMatch(/127\.0\.0\.1:1: .*ECONNREFUSED.*; 127\.0\.0\.1:2: .*ECONNREFUSED/)
    expect(failure).not.toContain(new URL(database.url).password)
  })

  it('must not all be standbys for a worker', async () => {
    await expect(open(nobody, '&target_session_attrs=standby')).rejects.toThrow(
      'DATABASE_URL says target_session_attrs=standby, but Tidemark writes: set it to read-write, or leave it out.',
    )
  })

  describe('of which one takes no writes', () => {
    let other: { readonly url: URL; setReadOnly(isReadOnly: boolean): Promise<void>; stop(): Promise<void> }
    beforeAll(async () => {
      const directory = await mkdtemp(join(tmpdir(), 'tidemark-host-'))
      const server = await startEmbedded({ directory, log: quietLog })
      const url = new URL(server.adminUrl)
      const admin = async (...statements: string[]) => {
        const client = new pg.Client(url.href)
        await client.connect()
        for (const statement of statements) await client.query(statement)
        await client.end()
      }
      const { username, password } = new URL(database.url)
      if (username !== new URL(server.adminUrl).username)
        await admin(`create role ${username} superuser login`)
      await admin(`create database ${database.name}`, `alter role ${username} password '${password}'`)
      if (username === url.username) url.password = password
      other = {
        url,
        setReadOnly: (isReadOnly) =>
          admin(
            'set default_transaction_read_only = off',
            `alter system set default_transaction_read_only = ${isReadOnly}`,
            'select pg_reload_conf()',
          ),
        async stop() {
          await server.leave()
          await rm(directory, { recursive: true, force: true })
        },
      }
    })
    afterAll(() => other.stop())

    it('leave it out, and a session that finds itself there when that changes is dropped', async () => {
      const here = new URL(database.url).host
      const opened = await open(`${other.url.host},${here}`)
      try {
        expect(await addressOf(opened)).toBe(other.url.host)
        const listening = await opened.pool.connect()
        await listening.query('listen something')
        const broken = new Promise((resolve) => listening.once('error', resolve))
        await other.setReadOnly(true)
        const writing = 'create schema for_a_moment; drop schema for_a_moment'
        const look = () => opened.pool.query(writing).then(() => addressOf(opened), String)
        await expect.poll(look, soon).toBe(here)
        expect(String(await broken)).toContain('terminated')
        listening.release(true)
        await other.setReadOnly(false)
        expect(await addressOf(opened)).toBe(here)
      } finally {
        await other.setReadOnly(false)
        await opened.close()
      }
    })

    it.each([
      ['', 'here'],
      ['&target_session_attrs=read-only', 'other'],
      ['&target_session_attrs=any', 'other'],
      ['&target_session_attrs=primary', 'other'],
      ['&target_session_attrs=prefer-standby', 'other'],
      ['&target_session_attrs=read-write', 'here'],
    ])('for those who only read, as asked for: "%s"', async (options, wanted) => {
      await other.setReadOnly(true)
      const here = new URL(database.url).host
      const opened = await open(`${other.url.host},${here}`, options, true)
      try {
        expect(await addressOf(opened)).toBe(wanted === 'here' ? here : other.url.host)
      } finally {
        await opened.close()
        await other.setReadOnly(false)
      }
    })
  })
})
