// What somebody could try who chooses the names of fields or of roles, and how few rights the worker's own role needs.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openAlertBook } from '../../src/store/book/problems.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import type { Records } from '../../src/streams/record.ts'
import { withTimeout } from '../../src/util/waiting.ts'
import { openDriver, placed, Queue, Worker } from '../../src/worker/queue/driver.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { assignments, begin, done, storeOf, trackers, writeAll } from '../support/runs.ts'
import { startTestWorker } from '../support/worker.ts'

const hostileNames = [
  `x"; drop schema tidemark cascade; --`,
  `y'; drop schema tidemark cascade; --`,
  `x" bigint); drop table mirror.assignment; create table evil (y`,
  `z\\'; drop schema tidemark cascade; --`,
  `$$; drop schema bi cascade; $$`,
  `*/ drop schema tidemark cascade; /*`,
  `\u0000`,
  `_deleted_at`,
  `_hash`,
  `ctid`,
  `assignment_id" = 1; --`,
  `%I`,
  `$1`,
  `${'ø'.repeat(200)}`,
]

describe.skipIf(!hasPostgres)('hostile names', () => {
  const database = createTestDatabase()

  it('of fields become harmless columns, and are kept as what they are', async () => {
    const fields = Object.fromEntries(hostileNames.map((name, index) => [name, index]))
    const store = storeOf(database)
    await writeAll(store, 'assignment', assignments({ AssignmentId: 1, RowVersion: 1, ...fields }))
    // Once more, now that their columns are there, with a value that makes each of them wider.
    const wide = Object.fromEntries(hostileNames.map((name) => [name, JSON.rawJSON('9223372036854775808')]))
    await writeAll(store, 'assignment', assignments({ AssignmentId: 1, RowVersion: 2, ...wide }))
    const { rows: columns } = await database.pool.query<{ name: string; comment: string | null }>(
      `select attname as name, col_description(attrelid, attnum) as comment from pg_attribute
       where attrelid = 'mirror.assignment'::regclass and attnum > 0`,
    )
    for (const { name } of columns) expect(name).toMatch(/^_?[\p{L}\p{N}_]+$/u)
    const { rows: known } = await database.pool.query<{ source_name: string; column_name: string | null }>(
      `select source_name, column_name from tidemark.field where stream = 'assignment'`,
    )
    for (const name of hostileNames) {
      const field = known.find(({ source_name }) => source_name === (name === '\0' ? '"\\u0000"' : name))
      expect(field, name).toBeDefined()
      expect(columns.find((column) => column.name === field?.column_name)?.comment).toBe(
        `field ${field?.source_name}`,
      )
    }
    const { rows } = await database.pool.query('select * from bi.assignment')
    expect(rows).toMatchObject([
      { assignment_id: '1', row_version: '2', x_drop_schema_tidemark_cascade: '9223372036854775808' },
    ])
  })

  it('of roles are names', async () => {
    const role = `${database.name}"; drop schema bi cascade; --`.slice(0, 63)
    const quoted = pg.escapeIdentifier(role)
    await database.pool.query(`create role ${quoted}`)
    try {
      await migrateDatabase({ database, streams, biRole: role, log: quietLog })
      const { rows } = await database.pool.query(
        `select has_table_privilege($1, 'bi.assignment', 'select') as reads, has_table_privilege($1, 'tidemark.stream', 'select') as peeks`,
        [role],
      )
      expect(rows).toEqual([{ reads: true, peeks: false }])
    } finally {
      await database.pool.query(`drop owned by ${quoted}; drop role ${quoted}`)
    }
  })
})

describe.skipIf(!hasPostgres)('who has the password of BI', () => {
  const database = createTestDatabase()
  const role = () => `${database.name}_bi`
  const theirs: pg.Client[] = []
  const asBi = async () => {
    const client = new pg.Client(
      Object.assign(new URL(database.url), { username: role(), password: 'secret-of-the-role' }).href,
    )
    client.on('error', () => {})
    await client.connect()
    theirs.push(client)
    return client
  }
  beforeAll(async () => {
    await database.pool.query(`create role ${role()} login password 'secret-of-the-role'`)
    await migrateDatabase({ database, streams, biRole: role(), log: quietLog })
  })
  afterAll(async () => {
    for (const client of theirs) await client.end()
    await database.pool.query(`drop owned by ${role()} cascade; drop role ${role()}`)
  })

  it('holds up no run by the locks that everybody can take, whether they are guessed or seen', async () => {
    const store = storeOf(database)
    const bi = await asBi()
    const lanes = ['incremental', 'lookback', 'backfill', 'whole', 'deletions', 'probe', 'related']
    const names = [...lanes.map((lane) => `tidemark run assignment ${lane}`), 'tidemark create assignment']
    for (const name of names) await bi.query('select pg_advisory_lock(hashtextextended($1, 0))', [name])
    await bi.query('select pg_advisory_lock(key) from generate_series(7405614, 7405620) as key')
    const run = await begin(store)
    // Those that a run holds can be seen: whoever waits for one has it when the run has ended.
    const { rows: seen } = await bi.query<{ key: string }>(
      `select (classid::bigint << 32) | objid::bigint as key from pg_locks
       where locktype = 'advisory' and pid <> pg_backend_pid()
         and database = (select oid from pg_database where datname = current_database())`,
    )
    const waiting = await Promise.all(seen.map(() => asBi()))
    const taken = seen.map(({ key }, index) => waiting[index]?.query('select pg_advisory_lock($1)', [key]))
    expect(await store.openRun('incremental', 'assignment')).toEqual({ busy: expect.any(String) })
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
    await run.finish(done)
    await Promise.all(taken)
    for (let time = 0; time < 2; time++) {
      const next = await begin(store)
      expect(await store.openRun('incremental', 'assignment')).toEqual({ busy: expect.any(String) })
      await next.finish(done)
    }
    await migrateDatabase({ database, streams, biRole: role(), log: quietLog })
    let isTold = false
    await openAlertBook(database.pool, 'default').inTurn(async () => {
      isTold = true
    })
    expect(isTold).toBe(true)
  })

  it('keeps no new column from coming by a long query: it is ended, and that of somebody who writes is not', async () => {
    const store = storeOf(database)
    await writeAll(store, 'assignment', assignments({ AssignmentId: 1, RowVersion: 10 }))
    await writeAll(store, 'tracker_object', trackers({ TrackerObjectId: 1 }))
    await migrateDatabase({ database, streams, biRole: role(), log: quietLog })
    // What an administrator chose holds for new sessions.
    await database.pool.query(`alter database ${database.name} set tidemark.longest_reading = '1 s'`)
    const impatient = await openDatabase({ url: database.url, log: quietLog })
    const grows = async (stream: string, page: Records) => {
      const run = await begin(storeOf(impatient), stream, stream === 'assignment' ? 'incremental' : 'list')
      await run.pages.commit(page, null).finally(() => run.finish(done))
    }
    const bi = await asBi()
    await bi.query('begin; select from bi.assignment')
    const sleeping = bi.query('select pg_sleep(100)').then(
      () => 'slept',
      () => 'ended',
    )
    const owner = await database.pool.connect()
    await owner.query('begin; select from bi.tracker_object')
    const [underBi, underOwner] = await Promise.allSettled([
      grows('assignment', assignments({ AssignmentId: 2, RowVersion: 22, New: 'x' })),
      grows('tracker_object', trackers({ TrackerObjectId: 2, New: 'x' })),
    ])
    expect([underBi.status, await sleeping]).toEqual(['fulfilled', 'ended'])
    expect(underOwner).toMatchObject({
      reason: { message: expect.stringContaining('held the table for 8 s') },
    })
    await owner.query('commit')
    owner.release()
    await impatient.close()
    await database.pool.query(`alter database ${database.name} reset tidemark.longest_reading`)
  }, 40_000)

  it('leaves no transaction open for long, unless an administrator chose another time', async () => {
    const limitOf = async () => {
      const { rows } = await (await asBi()).query('show idle_in_transaction_session_timeout')
      return rows[0]?.idle_in_transaction_session_timeout
    }
    expect(await limitOf()).toBe('1min')
    await database.pool.query(`alter role ${role()} set idle_in_transaction_session_timeout = '9min'`)
    await database.pool.query(
      `alter role ${role()} in database ${database.name} reset idle_in_transaction_session_timeout`,
    )
    await migrateDatabase({ database, streams, biRole: role(), log: quietLog })
    expect(await limitOf()).toBe('9min')
  })

  it('can lock none of the lines by which workers keep out of each other’s way', async () => {
    const bi = await asBi()
    for (const table of ['tidemark.turn', 'tidemark.lease', 'tidemark.migration', 'tidemark.stream'])
      for (const attempt of [`lock table ${table} in access share mode`, `select from ${table} for update`]) {
        await expect(bi.query(`begin; ${attempt}`)).rejects.toThrow('permission denied')
        await bi.query('rollback')
      }
  })

  it('holds up no queue that lives in Postgres', async () => {
    const bi = await asBi()
    const driver = await openDriver({ redisUrl: null, database, log: quietLog })
    const { driver: connection } = driver
    const name = 'attacked'
    const jobs = ['first', 'second']
    const keys = ['dedup:attacked:first', 'dedup:attacked:second', 'jidseq:attacked', 'evnotify:attacked']
    for (const key of [...keys, 'concurrency:attacked', 'limiter:attacked'])
      await bi.query('select pg_advisory_lock(hashtext($1))', [`bullmq:${key}`])
    await bi.query(`select pg_advisory_lock(hashtext('bullmq:finalization'), hashtext($1))`, [name])
    await bi.query(`select pg_advisory_lock(1112493644, hashtext('bullmq'))`)
    const finished: string[] = []
    const queue = new Queue(name, { ...placed(connection) })
    const worker = new Worker(name, async ({ name }) => void finished.push(name), placed(connection))
    // Those of another worker that starts meanwhile.
    const other = openDriver({ redisUrl: null, database, log: quietLog })
    try {
      for (const job of jobs) void queue.add(job, {}, { deduplication: { id: job } }).catch(() => {})
      await expect.poll(() => finished.toSorted()).toEqual(jobs)
      expect((await withTimeout(10_000, other)).address).toBe(driver.address)
    } finally {
      await bi.query('select pg_advisory_unlock_all()')
      await worker.close()
      await queue.close()
      await (await other).close()
      await driver.close()
    }
  })
})

describe.skipIf(!hasPostgres)('the worker', () => {
  const database = createTestDatabase({ isMigrated: false })

  it('needs no more of Postgres than to create schemas and temporary tables in its database', async () => {
    const role = `${database.name}_worker`
    await database.pool.query(`
      create role ${role} login nosuperuser nocreatedb nocreaterole nobypassrls password 'secret-of-the-role';
      revoke all on database ${database.name} from public;
      revoke all on schema public from public;
      grant connect, create, temporary on database ${database.name} to ${role}`)
    await using simulator = await startSimulator({ assignments: 5, notes: 5, trackers: 2 })
    const url = Object.assign(new URL(database.url), { username: role, password: 'secret-of-the-role' }).href
    const worker = await startTestWorker(
      simulator,
      { url },
      { SCHEDULE_RECONCILE: '1s', SCHEDULE_ASSIGNMENT: '1s' },
    )
    try {
      await vi.waitFor(
        async () => {
          const { rows } = await database.pool.query(
            `select (select count(*)::int from bi.tracker_object) as trackers,
               (select last_reconcile_at is not null from tidemark.stream where name = 'assignment') as is_counted`,
          )
          expect(rows).toEqual([{ trackers: 2, is_counted: true }])
        },
        { timeout: 30_000, interval: 100 },
      )
      expect(worker.logged().filter((line) => /permission denied|"level":[56]0/.test(line))).toEqual([])
    } finally {
      await worker.stop()
      await database.pool.query(`drop owned by ${role} cascade; drop role ${role}`)
    }
  })
})
