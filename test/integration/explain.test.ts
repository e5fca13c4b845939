// The story of one row, as the verb tells it.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'

import { streamOf } from '../support/streams.ts'
import { callVerb } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('explain', () => {
  const database = createTestDatabase({ forEach: true })
  it('tells what the mirror holds, the run that wrote it, and what the upstream says now', async () => {
    await using simulator = await startSimulator({ assignments: 10, firstRowVersion: 9_007_199_254_740_993n })
    const environment = environmentFor(simulator, database)
    await callVerb(['sync', 'assignment'], environment)
    const explained = async (key: string) =>
      JSON.parse((await callVerb(['explain', 'assignment', key, '--json'], environment)).stdout)
    const same = await explained('3')
    expect(same).toMatchObject({
      stream: 'assignment',
      key: '3',
      mirror: { deleted_at: null, runs: [{ kind: 'incremental' }] },
      upstream: { says: 'found', equal: true, different: [] },
    })
    simulator.source.change('assignment', 3, { Subject: 'changed' })
    simulator.source.remove('assignment', 4, 'hard')
    const [changed, gone, never, text] = await Promise.all([
      explained('3'),
      explained('4'),
      explained('999'),
      callVerb(['explain', 'assignment', '3', '--values'], environment),
    ])
    expect(changed.upstream).toMatchObject({ says: 'found', equal: false })
    expect(changed.upstream.different).toContain('subject')
    expect(gone).toMatchObject({ mirror: { deleted_at: null }, upstream: { says: 'gone' } })
    expect(never).toMatchObject({ mirror: null, upstream: { says: 'never seen' } })
    expect(text.code).toBe(0)
    expect(text.stdout).toMatch(
      /^assignment 3: the upstream has version \d+, the mirror \d+; these differ: .*subject[\s\S]*first came {2}by run \d+ \(incremental\)\n\n {2}The next run brings what is newer\. If the row stays as it is: `tidemark reconcile assignment` corrects/,
    )
    expect((await callVerb(['explain', 'assignment', '4'], environment)).stdout).toContain(
      'not marked as deleted yet: the search for deletions does it, or `tidemark reconcile assignment` now.',
    )
    // The values are told to those who ask for them.
    const short = (await callVerb(['explain', 'assignment', '5'], environment)).stdout
    expect(short).toMatch(/^assignment 5: agrees with the upstream \(\d+ fields\)\n/)
    expect(short).toContain('\n  Not settled yet')
    expect(short).toMatch(/Times are UTC\. {2}--values shows all \d+ values\.\n$/)
    expect(short).not.toContain('row_version')
    expect((await callVerb(['explain', 'assignment', '999'], environment)).stdout).toMatch(
      /^assignment 999: the upstream has no such record, and none was ever seen here\n\n {2}The mirror holds no such row\.\n$/,
    )
    // Beyond what a JavaScript number holds (P4).
    const { rows } = await database.pool.query(
      'select row_version from mirror.assignment where assignment_id = 3',
    )
    expect(text.stdout).toContain(`${rows[0].row_version}`)
  })

  it('says why a record is no row, also where the upstream writes its fields otherwise than its description (P18)', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3 })
    const environment = environmentFor(simulator, database)
    await callVerb(['sync', 'assignment'], environment)
    await database.pool.query(
      "update tidemark.field set source_name = 'AssignmentId' where stream = 'assignment' and column_name = 'assignment_id'",
    )
    const { id } = simulator.source.insertMalformed('no-row-version', 'assignment')
    await callVerb(['reconcile', 'assignment'], environment)
    const { stdout } = await callVerb(['explain', 'assignment', `${id}`], environment)
    expect(stdout).toMatch(
      /^assignment \d+: the upstream has it, but it cannot be stored as a row: no usable row version/,
    )
    expect(stdout).toMatch(/went into quarantine {2}no usable row version .* - entry 1/)
    expect(stdout).toContain('`tidemark quarantine retry assignment`')
  })

  it('tells each change with its values where the past is kept, and values in the order of the table', async () => {
    await using simulator = await startSimulator({ assignments: 10 })
    const environment = { ...environmentFor(simulator, database), HISTORY: 'assignment' }
    for (const Subject of ['the first', 'the second']) {
      simulator.source.change('assignment', 3, { Subject })
      await callVerb(['sync', 'assignment'], environment)
    }
    const { stdout } = await callVerb(['explain', 'assignment', '3', '--values'], environment)
    expect(stdout).toMatch(/last changed here {2,}by run.*subject: the first (?:→|->) the second/)
    const { rows } = await database.pool.query<{ name: string }>(
      `select attname as name from pg_attribute where attrelid = 'mirror.assignment'::regclass and attnum > 0
       and attname not like '\\_%' order by attnum`,
    )
    const [, values = ''] = stdout.split('  values\n')
    const told = [...values.matchAll(/^ {4}(\w+)/gm)].map(([, name]) => name)
    expect(told).toEqual(rows.map(({ name }) => name))
    const json = JSON.parse((await callVerb(['explain', 'assignment', '3', '--json'], environment)).stdout)
    expect(json.changes).toMatchObject([{ field_count: expect.any(Number) }])
  })

  it('names the run that wrote the row, and none that wrote others at the same time', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    await using context = await openTestContext(database, simulator, {}, true)
    const assignment = streamOf('assignment')
    await context.read(assignment, 'incremental', { signal })
    simulator.source.change('assignment', 5)
    simulator.source.change('assignment', 6)
    // A reconcile that brings one row, and in the middle of it an incremental run that brings the other.
    await database.pool.query(
      `begin; set local tidemark.writer = 'on'; update mirror.assignment set _hash = '', row_version = 1 where assignment_id = 7; commit`,
    )
    let isBetween = false
    const stop = simulator.onRequest(async ({ path, query }) => {
      if (isBetween || !path.endsWith('/api/Assignment') || query.Page === undefined) return
      isBetween = true
      await context.read(assignment, 'incremental', { signal })
    })
    await reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 })
    stop()
    const environment = environmentFor(simulator, database)
    const runsOf = async (key: string) => {
      const { stdout } = await callVerb(['explain', 'assignment', key, '--json'], environment)
      return JSON.parse(stdout).mirror.runs.map((run: { kind: string }) => run.kind)
    }
    expect(await Promise.all(['5', '7'].map(runsOf))).toEqual([['incremental'], ['reconcile']])
    const told = async (key: string) => (await callVerb(['explain', 'assignment', key], environment)).stdout
    const hint = 'What it was before is not kept. HISTORY=assignment keeps it from then on.'
    expect(await told('5')).toContain(hint)
    expect(await told('9')).not.toContain(hint)
  })

  it('tells of related records, and which assignment shows them', async () => {
    await using simulator = await startSimulator({ assignments: 6 })
    await using context = await openTestContext(database, simulator, { RELATED: 'true' }, true)
    await context.read(streamOf('assignment'), 'lookback', { signal })
    await context.readRelated({ signal })
    const product = simulator.source.insert('assignment_product', { AssignmentId: 3 })
    simulator.source.change('assignment', 3)
    await context.read(streamOf('assignment'), 'incremental', { signal })
    await context.readRelated({ signal })
    const environment = { ...environmentFor(simulator, database), RELATED: 'true' }
    const explained = async () =>
      JSON.parse(
        (await callVerb(['explain', 'assignment_product', `${product.id}`, '--json'], environment)).stdout,
      )
    expect(await explained()).toMatchObject({
      mirror: { runs: [{ kind: 'related' }] },
      upstream: { says: 'shown', assignment: '3' },
    })
    simulator.source.remove('assignment_product', product.id, 'hard')
    expect((await explained()).upstream).toEqual({ says: 'not shown', assignments: ['3'] })
  })

  it('does not call a file gone whose assignment has more of them than an answer may hold', async () => {
    await using simulator = await startSimulator({ assignments: 3 })
    const settings = { RELATED: 'true', ATTACHMENT_DATA: 'true' }
    await using context = await openTestContext(database, simulator, settings, true)
    const file = simulator.source.insert('attachment', { OwnerId: 3, FileData: 'QUJD' })
    await context.read(streamOf('assignment'), 'incremental', { signal })
    await context.readRelated({ signal })
    const FileData = 'QUJD'.repeat(1_500_000)
    for (let part = 0; part < 8; part++) simulator.source.insert('attachment', { OwnerId: 3, FileData })
    const environment = { ...environmentFor(simulator, database), ...settings }
    const words = ['explain', 'attachment_data', `${file.id}`]
    const { stdout, logged } = await callVerb([...words, '--json'], environment)
    expect(logged).toBe('')
    expect(JSON.parse(stdout)).toMatchObject({
      mirror: { deleted_at: null },
      upstream: { says: 'left out', assignment: '3', problem: expect.stringContaining('longer than 28 MB') },
    })
    const text = (await callVerb(words, environment)).stdout
    expect(text).toContain('not known whether the upstream still shows it with assignment 3')
  })

  it('compares times in the zones of their fields (P4)', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3, notes: 3 })
    const environment = {
      ...environmentFor(simulator, database),
      FIELD_TIMEZONES: 'assignment_note.noteDate=America/New_York',
    }
    await callVerb(['sync', 'assignment_note'], environment)
    const [key] = simulator.source.ids('assignment_note')
    const { stdout } = await callVerb(['explain', 'assignment_note', `${key}`, '--json'], environment)
    expect(JSON.parse(stdout).upstream).toMatchObject({ says: 'found', equal: true, different: [] })
  })
})
