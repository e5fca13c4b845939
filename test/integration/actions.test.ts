// What operators do from the console, and what becomes of it in Postgres. One worker, one mirror.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { requestBackfill } from '../../src/store/book/backfills.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { begin, failed, storeOf } from '../support/runs.ts'
import { differences } from '../support/same-as-source.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const inTime = { timeout: 20_000, interval: 50 }
const by = 'ADMIN_TOKEN (console, 127.0.0.1)'

describe.skipIf(!hasPostgres)('an operator at the console', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  let page: Browsing

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 400, notes: 20 })
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment,assignment_note',
      SCHEDULE_ASSIGNMENT: '1h',
      SCHEDULE_ASSIGNMENT_NOTE: '1h',
      // A search between two steps would block by itself what these tests let a reconcile count.
      SCHEDULE_DELETIONS: '1h',
      PAGE_SIZE: '50',
    })
    page = openBrowsing(worker.url)
    await page.signIn(adminToken)
    for (const stream of ['assignment', 'assignment_note'] as const)
      await vi.waitFor(
        async () => expect(await differences(database.pool, simulator, stream)).toEqual([]),
        inTime,
      )
    await worker.live
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  const rows = async (sql: string, values: unknown[] = []) => (await database.pool.query(sql, values)).rows
  /** What the page says after an action. */
  async function told(path: string, fields: Record<string, string> = {}): Promise<string> {
    const answer = await page.submit(path, fields)
    expect(answer.status).toBe(303)
    const shown = await (await page.get(answer.headers.get('location') ?? '')).text()
    return /class="message \w+" role="status"><bdi>([^<]*)/.exec(shown)?.[1] ?? 'nothing'
  }
  const script = (path: string, fields: Record<string, string> = {}) =>
    fetch(`${worker.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}` },
      body: new URLSearchParams(fields),
    })

  it('reads a stream now, by the kind of run that is wanted', async () => {
    simulator.source.change('assignment', 7, { Subject: 'asked for' })
    expect(await told('/streams/assignment/sync')).toBe(
      'assignment: the incremental run was requested and begins in a moment.',
    )
    const subject = () => rows('select subject from mirror.assignment where assignment_id = 7')
    await expect.poll(subject).toEqual([{ subject: 'asked for' }])
    const kinds = () =>
      rows(
        `select distinct kind from tidemark.run where stream = 'assignment' and status = 'done' and kind not in ('backfill', 'probe') order by kind`,
      )
    for (const kind of ['lookback', 'reconcile']) await told('/streams/assignment/sync', { kind })
    await expect.poll(kinds).toEqual([{ kind: 'incremental' }, { kind: 'lookback' }, { kind: 'reconcile' }])
  })

  it('checks now what is believed, once a minute at most, and sees it on the page and in metrics', async () => {
    await rows(`delete from tidemark.run where kind = 'probe'`)
    await rows(`delete from tidemark.belief where name = 'inclusive'`)
    expect(await (await page.get('/upstream')).text()).toContain('action="/streams/assignment/probe"')
    expect(await told('/streams/assignment/probe')).toMatch(
      /^(assignment was checked|The check of assignment has begun)/,
    )
    const inclusive = async () =>
      rows(`select value from tidemark.belief where stream = 'assignment' and name = 'inclusive'`)
    await expect.poll(inclusive).toEqual([{ value: 'no' }])
    await expect
      .poll(() => rows(`select status from tidemark.run where kind = 'probe'`))
      .toEqual([{ status: 'done' }])
    const again = await script('/streams/assignment/probe')
    expect([again.status, await again.json()]).toEqual([
      503,
      { error: expect.stringContaining('less than a minute ago') },
    ])
    const shown = await (await page.get('/upstream')).text()
    expect(shown).toContain(
      'The list can be read in slices, filtered and sorted by key <code>key_order</code>',
    )
    expect(shown).toMatch(/<h2 id="service-assignment">Assignment service<\/h2><span class="st ok">Well/)
    const metrics = await (await fetch(`${worker.url}/metrics`)).text()
    expect(metrics).toContain('tidemark_belief_holds{stream="assignment",belief="sorting"} 1')
    expect(metrics).toMatch(/tidemark_belief_age_seconds\{stream="assignment",belief="sorting"\} \d/)
  })

  it('pauses and resumes a stream, and is named with it', async () => {
    const state = () =>
      rows(
        `select paused_at is not null as is_paused, paused_by, pause_reason from tidemark.stream where name = 'assignment'`,
      )
    expect(await told('/streams/assignment/pause', { reason: 'an <upgrade>' })).toContain('is paused')
    expect(await state()).toEqual([{ is_paused: true, paused_by: by, pause_reason: 'an <upgrade>' }])
    expect(await (await page.get('/')).text()).toContain('an &lt;upgrade&gt;')
    expect(await told('/streams/assignment/pause')).toMatch(
      /^assignment was paused already, .+ ago by .+: “an &lt;upgrade&gt;”\. Nothing was changed\.$/,
    )
    expect(await told('/streams/assignment/resume')).toContain('is read again')
    expect(await state()).toEqual([{ is_paused: false, paused_by: null, pause_reason: null }])
  })

  it('sees what a backfill would take before it begins', async () => {
    const inSpan = () => rows('select from mirror.assignment where row_version > 100 and row_version <= 300')
    const whole = (await inSpan()).length
    await rows('delete from mirror.assignment where row_version between 150 and 159')
    const left = (await inSpan()).length
    expect(left).toBeLessThan(whole)
    const query = '/backfills?stream=assignment&from-version=100&to-version=300'
    const dialogue = await (await page.get(query)).text()
    expect(dialogue).toMatch(/the mirror holds \d+ rows from 100 to 300;/)
    const backfills = () =>
      rows(`select from tidemark.backfill where position_from = 100 and position_to = 300`)
    expect(await backfills()).toEqual([])
    const span = { 'from-version': '100', 'to-version': '300' }
    const plan = await (await script('/streams/assignment/backfill', { ...span, 'dry-run': 'true' })).json()
    expect(plan).toMatchObject({ stream: 'assignment', from: '100', to: '300', rows: left })
    expect(await backfills()).toEqual([])
    expect(await told('/streams/assignment/backfill', span)).toContain(
      'from 100 to 300 was requested. It begins in a moment.',
    )
    await expect
      .poll(() =>
        rows('select requested_by, status, inserted::int from tidemark.backfill where position_to = 300'),
      )
      .toEqual([{ requested_by: by, status: 'done', inserted: whole - left }])
    const anonymous = await (await fetch(`${worker.url}${query}`)).text()
    expect(anonymous).not.toContain('the mirror holds')
  })

  it('cancels a backfill', async () => {
    await told('/streams/assignment/pause')
    const { id } = await requestBackfill(database.pool, { stream: 'assignment', from: 1n, to: 9n, by })
    expect(await told(`/backfills/${id}/cancel`)).toContain('cancelled by')
    expect(await rows('select status, note from tidemark.backfill where id = $1', [id])).toEqual([
      { status: 'cancelled', note: `cancelled by ${by}` },
    ])
    expect(await told(`/backfills/${id}/cancel`)).toBe(`Backfill ${id} has ended already: cancelled.`)
    await told('/streams/assignment/resume')
  })

  it('approves blocked deletions, and only as many as were shown (P7)', async () => {
    const notes = simulator.source.records('assignment_note').map((note) => Number(note.AssignmentNoteId))
    const remove = (from: number, to: number) => {
      for (const id of notes.slice(from, to)) simulator.source.remove('assignment_note', id, 'hard')
    }
    remove(0, 10)
    await told('/streams/assignment_note/sync', { kind: 'reconcile' })
    const blocked = () =>
      rows(
        `select blocked_deletions -> 'missing' as missing from tidemark.stream
         where name = 'assignment_note' and not coalesce(blocked_deletions ? 'isLeast', false)`,
      )
    await expect.poll(blocked).toEqual([{ missing: 10 }])
    const deleted = () => rows('select from mirror.assignment_note where _deleted_at is not null')
    // The only one that is blocked.
    expect(await (await page.get('/approve')).text()).toContain('rows of assignment_note as deleted?')
    expect(await (await page.get('/approve?stream=assignment_note')).text()).toContain(
      '10 of 20 rows (50 %) of assignment_note were missing',
    )
    for (const wrong of ['9', '', '10x'])
      expect(await told('/streams/assignment_note/approve', { rows: wrong })).toContain(
        'Nothing was marked: 10 deletions of assignment_note are blocked now',
      )
    expect(await deleted()).toHaveLength(0)
    // One more is gone since.
    remove(10, 11)
    // A slow machine is not waited for.
    expect(await told('/streams/assignment_note/approve', { rows: '10' })).toMatch(/11 of|has begun/)
    await expect.poll(blocked).toEqual([{ missing: 11 }])
    expect(await deleted()).toHaveLength(0)
    // Only one compares a list at a time: beside another nothing is approved, and that is no success.
    const other = await vi.waitFor(() => begin(storeOf(database), 'assignment_note', 'reconcile'), inTime)
    const skipped = await fetch(`${worker.url}/api/v1/streams/assignment_note/approve`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ rows: 11, reason: 'a test' }),
    })
    expect(await skipped.json()).toMatchObject({
      outcome: 'failed',
      told: expect.stringMatching(/^assignment_note: skipped, because .* Try again when that is done\.$/),
    })
    await other.finish(failed)
    const approve = () => told('/streams/assignment_note/approve', { rows: '11' })
    await expect.poll(approve).toMatch(/11 marked deleted|has begun/)
    await expect
      .poll(async () => [await deleted(), await blocked()])
      .toEqual([Array(11).fill({}), [{ missing: null }]])
    await expect.poll(approve).toBe('No deletions of assignment_note are blocked.')
  })

  it('keeps the rows of blocked deletions, restores others, and looks again (P7)', async () => {
    const stream = '/streams/assignment_note'
    const [{ key }] = await rows(
      `select assignment_note_id as key from mirror.assignment_note where _deleted_at is null order by 1 desc limit 1`,
    )
    await writeAsTidemark(
      database.pool,
      `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to, finished_at, marked_deleted)
         values ('assignment_note', 'deletions', 'done', 'there', 1, 0, 0, now(), 1)`,
    )
    // A search that the worker began before still sees the record, and lets its row live again.
    const shownWithOneGone = async () => {
      await writeAsTidemark(
        database.pool,
        `update mirror.assignment_note set _deleted_at = now(), _deleted_reason = 'absent' where assignment_note_id = ${key};
         update tidemark.stream set blocked_deletions = '{"missing": 3, "living": 8}' where name = 'assignment_note'`,
      )
      return await (await page.get('/approve?stream=assignment_note')).text()
    }
    await expect
      .poll(shownWithOneGone, inTime)
      .toMatch(
        /name="restore" value="yes"> 1 other row was found gone and marked deleted since a person last decided about deletions: let it/,
      )
    expect(await told(`${stream}/reject`, { reason: 'a lost right', restore: 'yes' })).toMatch(
      /the rows stay \(4 of 9 rows .* frozen .* 1 other row that had been found gone and marked deleted lives again\.$/,
    )
    const shown = async (path: string) => (await page.get(path)).text()
    expect(await shown(stream)).toMatch(/Deletions are frozen\..*Frozen since.*a lost right.*Look again now/s)
    expect(await shown('/approve?stream=assignment_note')).toContain(`action="${stream}/look-again"`)
    expect(await shown('/')).not.toContain('Everything is up to date')
    const [{ lives }] = await rows(
      `select _deleted_at is null as lives from mirror.assignment_note where assignment_note_id = ${key}`,
    )
    expect(lives).toBe(true)
    // What is frozen is in the list after all.
    expect(await told(`${stream}/look-again`)).toMatch(
      /frozen no more\. A worker lists it again as soon as it is free, and asks anew/,
    )
    await expect
      .poll(() => rows(`select blocked_deletions from tidemark.stream where name = 'assignment_note'`))
      .toEqual([{ blocked_deletions: null }])
    expect(await told(`${stream}/look-again`)).toBe('No deletions of assignment_note are frozen.')
    expect(
      await rows(
        `select action, result, reason from tidemark.action where action in ('reject', 'lookAgain') order by id`,
      ),
    ).toEqual([
      { action: 'reject', result: 'done', reason: 'a lost right' },
      { action: 'lookAgain', result: 'done', reason: null },
      { action: 'lookAgain', result: 'refused', reason: null },
    ])
  })

  it.each(['{}', '[]', '5', 'false', '"much"', '{"missing": "10", "living": null, "at": "yesterday"}'])(
    'is told that deletions are blocked, and approves none, when %s is all that was recorded (P7)',
    async (recorded) => {
      // A search that the worker began before may end at any moment, and says how things stand.
      const whileRecorded = async (ask: () => Promise<string>) => {
        await rows(`update tidemark.stream set blocked_deletions = $1 where name = 'assignment_note'`, [
          recorded,
        ])
        return await ask()
      }
      const shown = (path: string) => async () => await (await page.get(path)).text()
      const soon = { timeout: 10_000 }
      await expect
        .poll(() => whileRecorded(shown('/')), soon)
        .toContain('An unknown number of rows of assignment_note disappeared')
      await expect
        .poll(() => whileRecorded(shown('/approve?stream=assignment_note')), soon)
        .toContain('their number is not known')
      for (const wanted of ['', '10', 'null', 'NaN'])
        await expect
          .poll(() => whileRecorded(() => told('/streams/assignment_note/approve', { rows: wanted })), soon)
          .toContain('number is not known')
      await rows(`update tidemark.stream set blocked_deletions = null where name = 'assignment_note'`)
    },
  )

  it('approves no number that a search has counted, because more may be missing (P7, P18)', async () => {
    const counted = { missing: 10, living: 60, isLeast: true }
    const approved = async () => {
      await rows(`update tidemark.stream set blocked_deletions = $1 where name = 'assignment_note'`, [
        JSON.stringify(counted),
      ])
      return await told('/streams/assignment_note/approve', { rows: '10', reason: 'a test' })
    }
    await expect.poll(approved, { timeout: 10_000 }).toContain('at least 10 of 60 rows (16.7 %)')
    const asked = async () => {
      await approved()
      return await (await page.get('/approve?stream=assignment_note')).text()
    }
    await expect.poll(asked, { timeout: 10_000 }).toContain('at least 10 of 60 rows (16.7 %)')
    await rows(`update tidemark.stream set blocked_deletions = null where name = 'assignment_note'`)
  })

  it('retries and drops what is in quarantine', async () => {
    const raw = (text: (id: number) => string) =>
      simulator.source.appendRaw('assignment', ({ id }) => text(id)).id
    const mended = raw((id) => `{"AssignmentId":${id},"RowVersion":"none"}`)
    raw(() => `{"Subject":"<script>no key</script>","RowVersion":70000}`)
    await told('/streams/assignment/sync')
    const kept = () =>
      rows(
        'select id::text, reason, drop_reason from tidemark.quarantine where dropped_at is null order by id',
      )
    await expect.poll(async () => (await kept()).length).toBe(2)
    expect(await (await page.get('/quarantine')).text()).toContain('&lt;script&gt;no key')
    simulator.source.remove('assignment', mended, 'hard')
    simulator.source.insert('assignment', { Subject: 'mended' }, { id: mended })
    expect(await told('/quarantine/assignment/retry')).toMatch(
      /^assignment: 1 became rows, 0 no longer exist upstream, 1 stay in quarantine\.$|has begun/,
    )
    await expect.poll(async () => (await kept()).length).toBe(1)
    const [{ id }] = (await kept()) as [{ id: string }]
    expect(await told(`/quarantine/${id}/drop`)).toContain('Say why the records are dropped')
    expect(await kept()).toHaveLength(1)
    expect(await told(`/quarantine/${id}/drop`, { reason: 'a test of ours' })).toBe('1 record dropped.')
    expect(await rows('select drop_reason from tidemark.quarantine where id = $1', [id])).toEqual([
      { drop_reason: `a test of ours (${by})` },
    ])
  })

  it('offers to try again only what can be tried', async () => {
    await rows(
      `insert into tidemark.quarantine (stream, reason, record, fingerprint, times_seen)
       select stream, 'to be tried', '{}', 'tried', 1 from unnest(array['customer', 'assignment_note']) as stream`,
    )
    const ofStream = async (stream: string) => (await page.get(`/quarantine?stream=${stream}`)).text()
    const ids = new Map(
      (
        await rows(
          `select stream, id::text from tidemark.quarantine where reason = 'to be tried' and dropped_at is null`,
        )
      ).map(({ stream, id }) => [stream, id]),
    )
    const [related, note] = [await ofStream('customer'), await ofStream('assignment_note')]
    for (const action of ['assignment_note', ids.get('assignment_note')])
      expect(note).toContain(`action="/quarantine/${action}/retry"`)
    for (const action of ['customer', ids.get('customer')])
      expect(related).not.toContain(`action="/quarantine/${action}/retry"`)
    expect(related).toContain('They cannot be tried one by one')
    expect(related).toContain(`action="/quarantine/${ids.get('customer')}/drop"`)
    const dropped = { reason: 'a test of ours' }
    for (const id of ids.values()) await told(`/quarantine/${id}/drop`, dropped)
  })

  it('shows in the chart of runs the stream and the kind that are chosen', async () => {
    await rows(
      `insert into tidemark.run (stream, kind, status, started_at, finished_at, host, pid)
       values ('assignment_note', 'verify', 'done', now() - interval '9 minutes', now() - interval '8 minutes', 'a', 1)`,
    )
    const linesOf = async (query: string) => {
      const [, chart = ''] =
        /<svg class="plot"(.*?)<ul class="key">/s.exec(await (await page.get(`/runs${query}`)).text()) ?? []
      return [...chart.matchAll(/<text x="0" y="\d+">([^<]+)/g)].map(([, name]) => name)
    }
    expect(await linesOf('')).toEqual(['assignment', 'assignment_note'])
    expect(await linesOf('?stream=assignment')).toEqual(['assignment'])
    expect(await linesOf('?kind=verify')).toEqual(['assignment_note'])
    expect(await linesOf('?stream=assignment&kind=verify')).toEqual([])
  })

  it('drops no more of the quarantine than there was to see (P5)', async () => {
    const quarantine = (reason: string) =>
      rows(
        `insert into tidemark.quarantine (stream, reason, record, fingerprint, times_seen)
         values ('assignment_note', $1, '{}', $1, 1)`,
        [reason],
      )
    await quarantine('seen')
    const shown = await (await page.get('/quarantine?stream=assignment_note')).text()
    const [, through = ''] = /name="through" value="(\d+)"/.exec(shown) ?? []
    // Of a related table alone, too: a problem leads there.
    expect(await (await page.get('/quarantine?stream=customer')).text()).toContain(
      'No record of customer is in quarantine.',
    )
    await quarantine('came later')
    const drop = { reason: 'a test of ours', through }
    expect(await told('/quarantine/assignment_note/drop', drop)).toBe('1 record dropped.')
    const left = `select reason from tidemark.quarantine where stream = 'assignment_note' and dropped_at is null`
    expect(await rows(left)).toEqual([{ reason: 'came later' }])
    expect(await told('/quarantine/assignment_note/drop', { ...drop, through: 'x' })).toContain(
      'write its number',
    )
    expect(await told('/quarantine/assignment_note/drop', { reason: 'all' })).toBe('1 record dropped.')
  })

  it('acknowledges the rows that only a reconcile found', async () => {
    await rows(
      `insert into tidemark.missed_rows (stream, run_id, rows, samples) values ('assignment', 1, 3, '[]')`,
    )
    expect(await (await page.get('/streams/assignment')).text()).toContain('Acknowledge 3 missed rows')
    expect(await told('/streams/assignment/acknowledge')).toBe('assignment: 3 missed rows acknowledged.')
    expect(await rows('select acknowledged_by from tidemark.missed_rows where run_id = 1')).toEqual([
      { acknowledged_by: by },
    ])
  })

  it('gets no failure of the worker for a NUL, which Postgres keeps in no text', async () => {
    const status = async (path: string, fields = {}) => (await script(path, fields)).status
    expect(await status('/quarantine/a%00b/retry')).toBe(404)
    expect(await status('/streams/assignment/acknowledge', { reason: 'a\0b' })).toBe(200)
    expect(
      await rows(`select reason from tidemark.action where reason is not null order by id desc limit 1`),
    ).toEqual([{ reason: 'ab' }])
  })

  it('is told in one line what is wrong, and nothing changes', async () => {
    const state = () =>
      rows(
        `select (select jsonb_agg(t) from tidemark.backfill as t) as backfills, (select jsonb_agg(t) from tidemark.quarantine as t) as quarantine,
           (select jsonb_agg(t.paused_at) from tidemark.stream as t) as pauses`,
      )
    const before = await state()
    const wrong: [string, Record<string, string>, RegExp][] = [
      ['/streams/assignment/sync', { kind: 'backfill' }, /no kind of run "backfill"/],
      ['/streams/assignment/backfill', {}, /where the backfill begins/],
      ['/streams/assignment/backfill', { 'from-version': '-1' }, /whole number/],
      [
        '/streams/assignment/backfill',
        { 'from-version': '1', at: '2025-01-31' },
        /^Give a row version or a time, not both\.$/,
      ],
      ['/streams/assignment/backfill', { 'from-version': '9', 'to-version': '3' }, /not above/],
      ['/streams/assignment/backfill', { 'from-checkpoint': '999999' }, /no checkpoint 999999/],
      ['/streams/assignment/backfill', { at: '31.1.2025' }, /write it as 2025/],
      ['/streams/assignment/approve', {}, /No deletions of assignment are blocked/],
      ['/backfills/abc/cancel', {}, /no backfill/],
      ['/backfills/999/cancel', {}, /no backfill/],
      ['/quarantine/999/retry', {}, /no record 999/],
      ['/quarantine/nothing/drop', { reason: 'x' }, /no stream "nothing"/],
    ]
    for (const [path, fields, problem] of wrong) {
      const answer = await script(path, fields)
      const { error } = (await answer.json()) as { error: string }
      expect([answer.status, error]).toEqual([400, expect.stringMatching(problem)])
      // One line, and no word of the terminal that nobody could write here.
      expect(error).not.toMatch(/\n|--/)
    }
    expect(await state()).toEqual(before)
  })
})
