// What ordinary work leaves in the log of Postgres: nothing that an administrator would have to look into.

import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PoolClient } from 'pg'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'
import { differences } from '../support/same-as-source.ts'
import { startTestWorker } from '../support/worker.ts'

const inTime = { timeout: 60_000, interval: 100 }

describe('the log of Postgres', { timeout: 240_000 }, () => {
  let directory = ''
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'tidemark-log-'))
    chmodSync(directory, 0o755)
  })
  afterEach(() => rmSync(directory, { recursive: true, force: true }))

  it('stays quiet while streams are loaded, polled without a change and with many, and compared meanwhile', async () => {
    const database = await openDatabase({ url: null, directory, log: quietLog })
    try {
      await using simulator = await startSimulator({ assignments: 1_500, notes: 500, trackers: 20 })
      const worker = await startTestWorker(simulator, database, {
        ...{ SCHEDULE_ASSIGNMENT: '1s', SCHEDULE_ASSIGNMENT_NOTE: '1s', SCHEDULE_TRACKER_OBJECT: '1s' },
        ...{ SCHEDULE_RECONCILE: '3s', LOOKBACK: '5s', PAGE_SIZE: '100', RELATED: 'true' },
        REDIS_URL: inject('redisUrl') ?? undefined,
      })
      const polledAt = async () =>
        (
          await database.pool.query(
            `select name, last_success_at from tidemark.stream where name in ('assignment', 'assignment_note', 'tracker_object')`,
          )
        ).rows.map(({ last_success_at: at }) => Number(at))
      /** Until each of the streams was polled once more. */
      const polled = async () => {
        const before = Date.now()
        await expect.poll(async () => Math.min(...(await polledAt())), inTime).toBeGreaterThan(before)
      }
      const isEqual = async () => {
        for (const stream of ['assignment', 'assignment_note'] as const)
          await expect.poll(() => differences(database.pool, simulator, stream), inTime).toEqual([])
      }
      try {
        await isEqual()
        for (let time = 0; time < 5; time++) await polled()
        for (let time = 0; time < 5; time++) {
          for (let id = 1; id <= 150; id++) simulator.source.change('assignment', id + time)
          simulator.source.change('assignment_note', 1 + time)
          simulator.source.change('tracker_object', 1 + time)
          await polled()
        }
        await isEqual()
      } finally {
        await worker.stop()
      }
      const [path = ''] = globSync(join(directory, '**/server.log'))
      const lines = readFileSync(path, 'utf8').split('\n')
      expect(lines.filter((line) => /no transaction in progress|duplicate key/.test(line))).toEqual([])
    } finally {
      await database.close()
    }
  })
})

describe.skipIf(!hasPostgres)('a page', () => {
  const database = createTestDatabase()

  it('takes no more messages to Postgres than it needs', async () => {
    let messages: string[] = []
    const listen = (client: PoolClient) => {
      const query = client.query.bind(client) as (...given: unknown[]) => unknown
      client.query = ((...given: unknown[]) => {
        const [first] = given
        messages.push(typeof first === 'string' ? first : ((first as { text?: string }).text ?? 'copy'))
        return query(...given)
      }) as typeof client.query
    }
    const connections = new Set<PoolClient>()
    database.pool.on('acquire', (client) => {
      if (!connections.has(client)) listen(client)
      connections.add(client)
    })
    const run = await begin(storeOf(database))
    const page = (from: number) =>
      assignments(
        ...Array.from({ length: 20 }, (_, at) => ({ AssignmentId: from + at, RowVersion: from + at })),
      )
    const counted = async (from: number) => {
      messages = []
      await run.pages.commit(page(from), BigInt(from + 19))
      // A connection makes the table for staging once.
      return messages.filter((text) => !text.includes('create temporary table'))
    }
    await counted(1)
    // The second connection: that the run still holds its lease. Begins and copies, moves the position, commits.
    expect(await counted(101)).toHaveLength(4)
    expect(await counted(201)).toHaveLength(3)
    await counted(201)
    // After a page that brought nothing new: begins, looks up which rows are new, copies them, moves the position, commits.
    expect(await counted(301)).toHaveLength(5)
    await run.finish(done)
  })
})
