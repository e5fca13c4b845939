// The feed of changes: the reader that the manual shows, beside writers whose transactions overlap, stay open for long, and are killed.

import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { markAbsent } from '../../src/store/runs/absences.ts'
import { readTableSchema } from '../../src/store/schema/table-schema.ts'
import { inTransaction, withConnection } from '../../src/store/server/session.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { blocksOf, textOf } from '../support/manual.ts'
import { seededRandom } from '../support/random.ts'
import { assignments, done, failed, storeOf, writeAll } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'

const stream = streamOf('assignment')
type Read = (from: object, to: object, setTimeout: () => Promise<void>) => Promise<never>

/** What the manual shows, behind its imports and connections. */
function readerOfManual(): Read {
  const [block = ''] = blocksOf({ text: textOf('docs/guides/feed-another-system.md') }, 'js')
  const body = /^for \(;;\) \{.*/ms.exec(block)?.[0]
  if (!body) throw new Error('the manual shows no reader')
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor
  return AsyncFunction('from', 'to', 'setTimeout', body) as unknown as Read
}

describe.skipIf(!hasPostgres)('a reader of the feed', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const copied = () => query('select key::int, name from copy.assignment order by key')
  const living = () =>
    query('select assignment_id::int as key, assignment_name as name from bi.assignment order by 1')

  const prepare = async () => {
    await writeAll(
      storeOf(database),
      'assignment',
      assignments(...Array.from({ length: 40 }, (_, id) => record(id, id + 1))),
    )
    await query(`create schema copy; create table copy.assignment (key bigint primary key, name text);
      create table copy.position (position xid8); insert into copy.position values (null)`)
  }
  const record = (id: number, version: number) => ({
    ...{ AssignmentId: id, AssignmentName: `as of ${version}`, SysRowVersion: version },
  })

  /** Reads until told to stop, and is started again when it is killed: `kills` of a hundred of its questions end so. */
  function follow(kills: number, onLook: () => void = () => {}) {
    const read = readerOfManual()
    const random = seededRandom(7)
    let isStopped = false
    let killed = 0
    const killable = (client: pg.Client) => ({
      async query(...asked: [string, unknown[]]) {
        if (random.chance(kills / 100)) {
          killed++
          throw new Error('killed')
        }
        return await client.query(...asked)
      },
    })
    const ended = (async () => {
      while (!isStopped) {
        const [from, to] = [new pg.Client(database.url), new pg.Client(database.url)]
        await Promise.all([from.connect(), to.connect()])
        const look = async () => {
          onLook()
          if (isStopped) throw new Error('killed')
          await wait(20)
        }
        const error = await read(killable(from), killable(to), look).catch((cause: Error) => cause)
        await Promise.all([from.end(), to.end()])
        if (error.message !== 'killed') throw error
      }
    })()
    return {
      async stop() {
        // What was written last is seen by a look that begins now.
        const [{ last }] = await query('select pg_snapshot_xmax(pg_current_snapshot())::text as last')
        while ((await query('select from copy.position where position >= $1::xid8', [last])).length === 0)
          await Promise.race([wait(20), ended])
        isStopped = true
        await ended
        return killed
      },
    }
  }

  it('ends with the rows that there are, deletions included, whoever is killed (P8)', async () => {
    await prepare()
    const random = seededRandom(42)
    const tableSchema = await readTableSchema(database.pool, stream)
    if (!tableSchema) throw new Error('there is no table')
    let version = 100
    let looks = 0
    const store = storeOf(database, { silenceMs: 500 })
    const write = async (kind: 'incremental' | 'lookback') => {
      for (let page = 0; page < 25; page++) {
        const run = await store.openRun(kind, 'assignment')
        if ('busy' in run) {
          await wait(50)
          continue
        }
        const records = Array.from({ length: 1 + random.integer(4) }, () =>
          record(random.integer(60), version++),
        )
        const isWritten = await run.pages.commit(assignments(...records), null).then(
          () => true,
          () => false,
        )
        await run.finish(isWritten ? done : failed).catch(() => {})
      }
    }
    const mark = async (key: number, held: () => Promise<void>) =>
      withConnection(database.pool, (client) =>
        inTransaction(client, async () => {
          await markAbsent(client, tableSchema, { where: 'mine.assignment_id = $1', values: [key] })
          await held()
        }),
      )
    const deleteSome = async () => {
      for (let time = 0; time < 15; time++) await mark(random.integer(60), async () => {})
    }
    /** Open while the reader looks several times, and others begin and end. */
    const holdOpen = async () => {
      for (const key of [3, 7, 11]) {
        const until = looks + 5
        await mark(key, async () => {
          while (looks < until) await wait(10)
        })
      }
    }
    const kill = async () => {
      for (let time = 0; time < 6; time++) {
        await wait(60)
        await query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and state <> 'idle' and query like '%tidemark_page%' and pid <> pg_backend_pid() limit 1`,
        )
      }
    }
    const reader = follow(3, () => looks++)
    await Promise.all([write('incremental'), write('lookback'), deleteSome(), holdOpen(), kill()])
    // All that were marked may live again by now.
    const [{ id }] = await query(
      'select assignment_id::int as id from mirror.assignment where _deleted_at is null limit 1',
    )
    await mark(id, async () => {})
    expect(await reader.stop()).toBeGreaterThan(0)
    expect(
      (await query('select from mirror.assignment where _deleted_at is not null')).length,
    ).toBeGreaterThan(0)
    expect(await copied()).toEqual(await living())
  })

  it('reads everything anew after the database came from a backup', async () => {
    await prepare()
    await query(
      `update copy.position set position = '9000000000'; insert into copy.assignment values (999, 'of another life')`,
    )
    await follow(0).stop()
    expect(await copied()).toEqual(await living())
  })

  it('is told that there is something to read, once a run that changed rows', async () => {
    await prepare()
    await withConnection(database.pool, async (client) => {
      const told: string[] = []
      client.on('notification', ({ channel, payload }) => told.push(`${channel} ${payload}`))
      await client.query('listen tidemark')
      await writeAll(storeOf(database), 'assignment', assignments(record(1, 200), record(2, 201)))
      await writeAll(storeOf(database), 'assignment', assignments(record(1, 200)))
      while (told.length === 0) await client.query('select')
      expect(told).toEqual(['tidemark assignment'])
      client.removeAllListeners('notification')
    })
  })
})
