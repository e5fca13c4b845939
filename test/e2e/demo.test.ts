// `tidemark demo`, the first thing that anybody runs.

import { createServer } from 'node:http'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { inFreshDirectory, startTidemark } from '../support/program.ts'

const patience = { timeout: 60_000, interval: 200 }

describe('tidemark demo', () => {
  it('needs nothing, says where everything is, mirrors, and goes elsewhere when its port is taken', async () => {
    const taken = createServer()
    // When somebody else has it already, that does as well.
    await new Promise<void>((resolve) =>
      taken.once('error', () => resolve()).listen(8080, '127.0.0.1', resolve),
    )
    const demo = startTidemark(['demo', '--assignments', '500', '--churn', '20'], {})
    try {
      const urlOf = (pattern: RegExp) => pattern.exec(demo.stdout())?.[1]
      await expect.poll(() => urlOf(/the console +(http:\S+)\//), patience).toBeDefined()
      expect(demo.stdout()).toMatch(/Port 8080 is taken, so the console is on port \d+/)
      const client = new pg.Client({ connectionString: urlOf(/for a BI tool +(\S+)/) })
      await client.connect()
      await expect
        .poll(async () => {
          const { rows } = await client.query('select count(*)::int as count from bi.assignment')
          return rows[0]?.count
        }, patience)
        .toBeGreaterThanOrEqual(450)
      const query = urlOf(/-c "(select city[^"]+)"/)
      expect((await client.query(query ?? '')).rows.length).toBeGreaterThan(1)
      await client.end()
      await expect
        .poll(
          () => fetch(`${urlOf(/the console +(http:\S+)\//)}/readyz`).then(({ status }) => status),
          patience,
        )
        .toBe(200)
      await expect.poll(demo.stdout, patience).toMatch(/mirrored: assignment [4-9]\d\d/)
    } finally {
      demo.child.kill('SIGINT')
      taken.close()
    }
    const { code, stderr } = await demo.ended
    expect([code, stderr]).toEqual([0, ''])
  })

  it('takes the port of HTTP_PORT, and is what the other verbs are about while it runs', {
    timeout: 120_000,
  }, async () => {
    const fresh = inFreshDirectory()
    const nothingHere = /^There is no mirror in this directory\./
    expect((await fresh.run(['status'], {})).stderr).toMatch(nothingHere)
    const port = await freePort()
    const demo = fresh.start(['demo', '--assignments', '300'], { HTTP_PORT: `${port}` })
    try {
      await expect.poll(demo.stdout, patience).toContain(`the console        http://127.0.0.1:${port}/\n`)
      await expect.poll(demo.stdout, patience).toMatch(/mirrored: assignment [23]\d\d/)
      const status = await fresh.run(['status', 'assignment'], {})
      expect(status).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^\* assignment /m),
        stderr: 'Nothing is configured, so this shows the demo that runs here (.tidemark/demo).\n',
      })
      expect(JSON.parse((await fresh.run(['status', '--json'], {})).stdout).streams[0]).toMatchObject({
        stream: 'assignment',
        position: expect.stringMatching(/^[1-9]/),
      })
      // Those that read the upstream have its address and its key from the demo.
      expect(await fresh.run(['sync', 'assignment_object'], {})).toMatchObject({ code: 0 })
      expect(await fresh.run(['explain', 'assignment', '3'], {})).toMatchObject({ code: 0 })
      // What is configured goes first.
      expect(
        await fresh.run(['status'], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }),
      ).toMatchObject({
        code: 4,
      })
      expect((await fresh.run(['serve'], {})).stderr).toContain('ASSIGNMENT_BASE_URL is not set')
      // A worker that is named is asked, not the demo by its Postgres.
      const named = { TIDEMARK_URL: `http://127.0.0.1:${port}` }
      expect(await fresh.run(['status', 'assignment'], named)).toMatchObject({ code: 0, stderr: '' })
      expect(await fresh.run(['explain', 'assignment', '3'], named)).toMatchObject({ code: 0, stderr: '' })
      expect(await fresh.run(['demo'], {})).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/^A demo is already running in \S+\. Stop it first\.\n$/),
      })
    } finally {
      demo.child.kill('SIGINT')
    }
    expect((await demo.ended).code).toBe(0)
    expect((await fresh.run(['status'], {})).stderr).toMatch(nothingHere)
  })

  it('goes on with the one that ended before, upstream and mirror, when it is told to', {
    timeout: 180_000,
  }, async () => {
    const fresh = inFreshDirectory()
    expect(await fresh.run(['demo', '--continue'], {})).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('There is no demo to continue'),
    })
    const during = async <Result>(words: readonly string[], work: (client: pg.Client) => Promise<Result>) => {
      const demo = fresh.start(['demo', '--port', '0', ...words], {})
      try {
        const address = () => /for a BI tool +(\S+)/.exec(demo.stdout())?.[1]
        await expect.poll(address, patience).toBeDefined()
        const client = new pg.Client({ connectionString: address() })
        await client.connect()
        return await work(client).finally(() => client.end())
      } finally {
        demo.child.kill('SIGINT')
        expect(await demo.ended).toMatchObject({ code: 0, stderr: '' })
      }
    }
    const facts = async (client: pg.Client) => {
      const { rows } = await client.query(
        `select first_read_through_at::text as loaded, position::float8 as position,
           (select count(*)::int from tidemark.epoch) as epochs,
           (select count(*)::int from bi.assignment) as rows
         from tidemark.stream where name = 'assignment'`,
      )
      return rows[0]
    }
    const before = await during(['--assignments', '300', '--churn', '20'], async (client) => {
      await expect.poll(async () => (await facts(client)).loaded, patience).not.toBeNull()
      const atFirst = (await facts(client)).position
      await expect.poll(async () => (await facts(client)).position, patience).toBeGreaterThan(atFirst + 40)
      return await facts(client)
    })
    const after = await during(['--continue', '--churn', '20'], async (client) => {
      const reads = async () => (await facts(client)).position
      const atFirst = await reads()
      await expect.poll(reads, patience).toBeGreaterThan(atFirst)
      return await facts(client)
    })
    expect(after).toMatchObject({ loaded: before.loaded, epochs: 0 })
    expect(Math.abs(after.rows - before.rows)).toBeLessThan(60)
    const anew = await during(['--new', '--assignments', '20'], async (client) => {
      await expect.poll(async () => (await facts(client)).loaded, patience).not.toBeNull()
      return await facts(client)
    })
    expect(anew.rows).toBeLessThan(60)
  })
})
