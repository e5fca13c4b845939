// What the console says of a source that has a name, while it is read, paused, smaller than before, and gone from the file (P18).

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { pauseSource, readSourceLines, resumeSource } from '../../src/store/book/source-config.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { fileOfSources } from '../support/kept-sources.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const clientGuid = '00000000-0000-4000-8000-000000000001'
const soon = { timeout: 60_000, interval: 200 }

describe.skipIf(!hasPostgres)('the pages of a source with a name', () => {
  const database = createTestDatabase()
  let [simulator, acme]: Simulator[] = []
  let [worker, browsing]: [TestWorker?, Browsing?] = []
  let file: ReturnType<typeof fileOfSources>
  const settings = () => ({
    assignment_base_url: acme?.assignmentUrl,
    auth_url: acme?.authUrl,
    client_guid: clientGuid,
    subject_id: acme?.credentials.subjectId,
    api_key: 'env:ACME_KEY',
    streams: 'assignment,assignment_note',
    contract: 'off',
    schedule_assignment: '9s',
    schedule_reconcile: '7h',
  })
  const text = async (path: string) =>
    (await (await browsing?.get(path))?.text())?.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ') ?? ''
  const line = async () => (await readSourceLines(database.pool)).find(({ name }) => name === 'acme')

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 20 })
    acme = await startSimulator({ seed: 2, assignments: 30, credentials: { clientGuid } })
    file = fileOfSources({ sources: { acme: settings() } })
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment',
      SOURCES_FILE: file.path,
      ACME_KEY: acme.credentials.apiKey,
    })
    await worker.live
    browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    await vi.waitFor(async () => {
      const known = { state: 'live', streams: 2, deletionsKnownAt: expect.any(Date) }
      expect(await line()).toMatchObject(known)
      // By these the worker says what it mirrors, every few seconds.
      const { rowCount } = await database.pool.query(`select from tidemark.standing where stream ~ '^acme'`)
      expect(rowCount).toBe(2)
    }, soon)
  })
  afterAll(async () => {
    await worker?.stop()
    await Promise.all([simulator?.close(), acme?.close()])
  })

  it('say by which of its own schedules it is read', async () => {
    await expect.poll(() => text('/workers'), soon).toContain('reconcile of acme.assignment')
    const workers = await text('/workers')
    expect(workers).toMatch(/reconcile of acme\.assignment_note every 7 h SCHEDULE_RECONCILE/)
    expect(workers).toMatch(/reconcile of assignment 0 3 \* \* \* SCHEDULE_RECONCILE/)
    expect(workers).toMatch(/incremental of acme\.assignment every 9 s SCHEDULE_ASSIGNMENT , or/)
  })

  it('tell of the budget of requests whose it is', async () => {
    const upstream = await text('/upstream')
    expect(upstream).toContain('No budget is set for the source that the environment describes.')
    expect(upstream).toContain('Each of the other sources has a setting of its own.')
  })

  it('name its own tables', async () => {
    const rows = await text('/streams/acme.assignment/rows')
    expect(rows).toContain('"select * from acme.assignment" > acme.assignment.csv')
    expect(rows).toContain('texts and numbers of acme_mirror.assignment ,')
  })

  it('take streams for its own only if they are mirrored, also while it is paused', async () => {
    await pauseSource(database.pool, 'acme', { by: 'a test', reason: 'it moves' })
    expect(await line()).toMatchObject({
      ...{ state: 'paused', streams: 2, readThroughAt: expect.any(Date), deletionsKnownAt: expect.any(Date) },
      reasons: ['assignment: it moves', 'assignment_note: it moves'],
    })
    expect(await text('/sources/acme')).not.toContain('not yet the earliest')
    await resumeSource(database.pool, 'acme')
  })

  it('forget a stream that the file names no more, when the worker has not mirrored it for a while', async () => {
    file.write({ sources: { acme: { ...settings(), streams: 'assignment' } } })
    await expect.poll(() => text('/sources/acme'), soon).not.toContain('acme.assignment_note')
    await database.pool.query(
      `update tidemark.standing set seen_at = now() - interval '6 minutes' where stream = 'acme.assignment_note';
       update tidemark.stream set read_through_at = now() - interval '2 hours' where name = 'acme.assignment_note'`,
    )
    expect(await line()).toMatchObject({ state: 'live', streams: 1, reasons: [] })
  })

  it('offer nothing of it that would be refused once it is gone from the file', async () => {
    const { rows } = await database.pool.query<{ id: string }>(
      `insert into tidemark.quarantine (stream, key, reason, record, fingerprint)
       values ('acme.assignment', '7', 'odd', '{}', 'x') returning id`,
    )
    file.write({ sources: {} })
    await expect.poll(async () => (await line())?.isGone, soon).toBe(true)
    await expect.poll(() => text('/streams/acme.assignment'), soon).toContain('stay in its table')
    expect(await line()).toMatchObject({ state: 'paused', readThroughAt: expect.any(Date) })

    const checkpoints = (await (await browsing?.get('/checkpoints'))?.text()) ?? ''
    expect(checkpoints).toContain('>acme.assignment<')
    expect(checkpoints).toContain('/backfills?stream=assignment&amp;')
    expect(checkpoints).not.toMatch(/href="[^"]*acme\.assignment/)

    const { rows: runs } = await database.pool.query<{ id: string }>(
      `select max(id) as id from tidemark.run where stream = 'acme.assignment' and kind = 'incremental'`,
    )
    const run = (await (await browsing?.get(`/runs/${runs[0]?.id}`))?.text()) ?? ''
    expect(run).toContain('incremental of acme.assignment')
    expect(run).not.toContain('Run again')

    await browsing?.submit(`/quarantine/${rows[0]?.id}/retry`)
    expect(await text('/quarantine')).toContain('acme.assignment is not mirrored now')
  })
})
