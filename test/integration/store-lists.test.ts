// What people read of the mirror's own tables: runs, rates, fields, the quarantine.

import { beforeAll, describe, expect, it } from 'vitest'
import { readFieldStreams, readFields } from '../../src/store/book/dictionary.ts'
import { readQuarantine } from '../../src/store/book/quarantine.ts'
import { latestRunsSql, readLatestRuns, readRowRates, readRuns } from '../../src/store/book/runs.ts'
import { readOverview } from '../../src/store/book/streams.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { fillStore, hostileTexts } from '../support/hostile-store.ts'

const all = { stream: null, kind: null, outcome: null }

describe.skipIf(!hasPostgres)('the lists', () => {
  const database = createTestDatabase()
  beforeAll(async () => {
    await fillStore(database.pool, 'assignment')
  })

  it('give runs, the newest first, by what is looked for, and page by page', async () => {
    const read = (filter = {}, before: string | null = null, limit = 20_000) =>
      readRuns(database.pool, { ...all, ...filter }, { before, limit })
    const runs = await read()
    expect(runs.length).toBeGreaterThanOrEqual(10_000)
    const [newest, ...others] = runs
    expect(Number(newest?.id)).toBe(Math.max(...runs.map(({ id }) => Number(id))))
    expect(await read({}, newest?.id, 3)).toEqual(others.slice(0, 3))
    expect(await read({ stream: 'assignment_note' })).toEqual([])
    const failed = await read({ outcome: 'failed', kind: 'lookback' })
    expect(failed).toEqual(runs.filter(({ status, kind }) => status === 'failed' && kind === 'lookback'))
    expect(failed.length).toBeGreaterThan(0)
    const changed = await read({ outcome: 'changed' })
    expect(changed).toEqual(runs.filter(({ inserted, updated }) => inserted + updated > 0))
  })

  it('give the runs that went on in a span of time, and read no other part of a long ledger', async () => {
    const { pool } = database
    await pool.query(`insert into tidemark.stream (name) values ('assignment') on conflict do nothing`)
    // One that found nothing for hours, and one that has not ended.
    await pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, started_at, finished_at, polls)
       values ('assignment', 'deletions', 'done', 'h', 1, now() - interval '40 hours', now() - interval '20 hours', 9),
         ('assignment', 'reconcile', 'running', 'h', 1, now() - interval '40 hours', null, 1)`,
    )
    await pool.query('analyze tidemark.run')
    const runs = await readRuns(pool, all, { before: null, limit: 20_000 })
    const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000)
    for (const [from, to] of [
      [hoursAgo(30), hoursAgo(29)],
      [hoursAgo(30), null],
      [null, hoursAgo(30)],
      [hoursAgo(999), hoursAgo(998)],
      [new Date(Date.now() + 1e9), null],
    ] as const) {
      const went = runs.filter(
        ({ startedAt, finishedAt }) =>
          (to === null || startedAt < to) && (from === null || finishedAt === null || finishedAt >= from),
      )
      expect(await readRuns(pool, { ...all, from, to }, { before: null, limit: 20_000 })).toEqual(went)
      expect(await readRuns(pool, { ...all, from, to }, { before: null, limit: 3 })).toEqual(went.slice(0, 3))
    }
    await pool.query(`delete from tidemark.run where host = 'h'`)
  })

  it('find the last run of each kind by index, also of kinds that there are none of in a long ledger', async () => {
    const { pool } = database
    await pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, finished_at)
       select 'webhook_definition', kind, 'done', 'h', 1, now() - interval '40 days'
       from generate_series(1, 10000), unnest(array['list', 'verify']) as kind`,
    )
    await pool.query('analyze tidemark.run')
    const { rows } = await pool.query<{ 'QUERY PLAN': string }>(
      `explain select last.* from unnest(array['webhook_definition', 'assignment_object']) as wanted (stream)
       cross join lateral ${latestRunsSql('wanted.stream')} as last`,
    )
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    expect(plan).toContain('using run_by_kind')
    expect(plan).not.toContain('run_pkey')
    const latest = await readLatestRuns(pool, ['webhook_definition', 'assignment_object'])
    expect(
      latest
        .filter(({ stream }) => stream === 'webhook_definition')
        .map(({ kind }) => kind)
        .sort(),
    ).toEqual(['list', 'verify'])
    await pool.query(`delete from tidemark.run where stream = 'webhook_definition'`)
  })

  it('spread the rows of a run over the time it took, to the end of the last whole bucket', async () => {
    const { pool } = database
    await pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, started_at, finished_at, inserted)
       select 'tracker_object', kind, 'done', 'h', 1, now() - interval '10 minutes', now() - interval '8 minutes', 240
       from unnest(array['incremental', 'related']) as kind
       union all select 'assignment_object', 'incremental', 'done', 'h', 1, now(), now(), 7`,
    )
    const { streams, bucketMs, buckets, from } = await readRowRates(pool)
    const rates = streams.get('tracker_object') ?? []
    expect(rates).toHaveLength(buckets)
    expect(rates.reduce((sum, rate) => sum + rate, 0) * (bucketMs / 60_000)).toBeCloseTo(240)
    expect(Math.max(...rates)).toBeCloseTo(120)
    // It is still to come.
    expect(streams.has('assignment_object')).toBe(false)
    const endsMs = from.getTime() + buckets * bucketMs
    expect(Date.now() - endsMs).toBeLessThan(bucketMs + 1_000)
  })

  it('do not call a table empty whose rows Postgres has forgotten to have counted', async () => {
    const { pool } = database
    const rowsOf = async (stream: string) => (await readOverview(pool, [stream]))[0]?.rows
    expect(await rowsOf('webhook_definition')).toBe(0)
    expect(await rowsOf('assignment_note')).toBe(0)
    await pool.query('create table mirror.webhook_definition as select 1 as id')
    // A connection reports what it wrote up to a second later.
    const rowsAfter = (statement: string) =>
      expect.poll(async () => {
        await pool.query(statement)
        return await rowsOf('webhook_definition')
      })
    // As a Postgres that was killed begins.
    await rowsAfter(
      `select pg_stat_reset_single_table_counters('mirror.webhook_definition'::regclass)`,
    ).toBeNull()
    await rowsAfter('analyze mirror.webhook_definition').toBe(1)
    await pool.query('drop table mirror.webhook_definition')
  })

  it('find the last run of a stream and of each kind, whatever their order', async () => {
    const { pool } = database
    await pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, started_at, finished_at)
       values ('assignment', 'reconcile', 'done', 'h', 1, now() - interval '9 hours', now() + interval '1 minute'),
              ('assignment', 'incremental', 'done', 'h', 1, now(), now())`,
    )
    const [overview] = await readOverview(pool, ['assignment'])
    expect(overview?.lastRun).toMatchObject({ kind: 'reconcile', status: 'done' })
    const kinds = await readLatestRuns(pool, ['assignment'])
    expect(kinds.map(({ kind }) => kind).sort()).toEqual(['incremental', 'lookback', 'reconcile'])
  })

  it('find fields by a part of their name or column, without regard to case', async () => {
    const { pool } = database
    const names = async (text: string, stream: string | null = null) =>
      (await readFields(pool, { stream, text }, 1_000)).map(({ sourceName }) => sourceName)
    expect(await names('SEEDEDfield')).toHaveLength(300 - hostileTexts.length)
    expect(await names('DEDFIELD29')).toHaveLength(11)
    expect(await names('seeded_field_29')).toHaveLength(10)
    expect(await names("' or true --")).toEqual([])
    expect(await names('%')).toEqual([])
    expect(await names('', 'nothing')).toEqual([])
    expect(await readFields(pool, { stream: 'assignment', text: '' }, 7)).toHaveLength(7)
    expect(await readFieldStreams(pool)).toContain('assignment')
  })

  it('cut records in quarantine where they are kept (P10)', async () => {
    const read = (mostCharacters?: number) =>
      readQuarantine(
        database.pool,
        { stream: null, id: null },
        { after: '0', limit: 100, ...(mostCharacters && { mostCharacters }) },
      )
    const whole = await read()
    expect(whole).toHaveLength(hostileTexts.length)
    expect(Math.max(...whole.map(({ text }) => text.length))).toBeGreaterThan(6_000)
    expect((await read(10)).map(({ text }) => text)).toEqual(whole.map(({ text }) => text.slice(0, 10)))
  })
})
