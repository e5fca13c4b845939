// What the upstream says about itself makes the tables before the first row, and the data decide where they differ.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { contract } from '../../src/cli/contract.ts'
import { readDescriptions } from '../../src/cli/described.ts'
import { migrate } from '../../src/cli/migrate.ts'
import { probe } from '../../src/cli/probe.ts'
import { sync } from '../../src/cli/sync.ts'
import { noAlertFile } from '../../src/config/alert-file.ts'
import { openLog } from '../../src/log.ts'
import { readProblems } from '../../src/problems/find-problems.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { dynamicIn } from '../support/settings.ts'
import { callCommand } from '../support/verbs.ts'

const recorded = new URL('../fixtures/recorded/openapi-v1.json', import.meta.url).pathname
const withContract = { CONTRACT: recorded }

describe.skipIf(!hasPostgres)('the contract', () => {
  const database = createTestDatabase({ forEach: true })
  let simulator: Simulator | null = null
  afterEach(async () => {
    await simulator?.close()
    simulator = null
  })
  const start = async (options: Parameters<typeof startSimulator>[0] = {}) => {
    simulator = await startSimulator({
      look: 'recorded',
      assignments: 40,
      notes: 60,
      objects: 20,
      trackers: 5,
      ...options,
    })
    return simulator
  }

  const columnsOf = async (relation: string) => {
    const { rows } = await database.pool.query<{ name: string; type: string; words: string | null }>(
      `select attname as name, format_type(atttypid, null) as type, col_description(attrelid, attnum) as words
       from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum`,
      [relation],
    )
    return rows
  }
  const believed = async (stream: string) => {
    const { rows } = await database.pool.query(
      "select value, evidence, previous_value from tidemark.belief where name = 'contract' and stream = $1",
      [stream],
    )
    return rows[0]
  }
  const viewsIn = async () => {
    const { rows } = await database.pool.query<{ name: string }>(
      "select viewname as name from pg_views where schemaname = 'bi' order by 1",
    )
    return rows.map(({ name }) => name).filter((name) => name !== 'dictionary')
  }

  it('makes each table and view with types and comments, with the recorded description and no row', async () => {
    const environment = {
      DATABASE_URL: database.url,
      ...withContract,
      RELATED: 'true',
      ATTACHMENT_DATA: 'true',
    }
    const { code, stdout } = await callCommand(migrate, [], environment)
    expect(code).toBe(0)
    expect(stdout).toContain('webhook_subscription')
    expect(await viewsIn()).toEqual([
      ...['assignment', 'assignment_note', 'assignment_object', 'assignment_product'],
      ...['assignment_quality_control', 'assignment_service', 'attachment', 'attachment_data'],
      ...['customer', 'employee', 'webhook_definition', 'webhook_subscription'],
    ])
    const view = await columnsOf('bi.assignment')
    const told = (name: string) => view.find((column) => column.name === name)
    expect(view).toHaveLength(62)
    expect(told('assignment_priority')).toMatchObject({
      type: 'bigint',
      words: 'field assignmentPriority: Priority, 1 is highest.',
    })
    expect(told('price')?.type).toBe('numeric')
    expect(told('planned_start')?.type).toBe('timestamp with time zone')
    expect(told('signature')?.type).toBe('text')
    expect(told('uid')?.type).toBe('uuid')
    expect(told('is_invoiced')?.type).toBe('boolean')
    expect((await columnsOf('bi.assignment_note')).find(({ name }) => name === 'employee')?.type).toBe(
      'jsonb',
    )
    expect((await columnsOf('bi.attachment')).map(({ name }) => name)).not.toContain('file_data')
    expect((await columnsOf('bi.attachment_data')).map(({ name }) => name).toSorted()).toEqual([
      '_synced_at',
      'assignment_id',
      'attachment_id',
      'file_data',
      'uid',
    ])
    const { rows } = await database.pool.query(
      "select obj_description(to_regclass('bi.webhook_subscription')) as words",
    )
    expect(rows[0].words).toMatch(/^webhook_subscription: living rows, .*: “.+”$/)
    // Every worker that starts looks at the tables of every source: what is as it should be is not written again.
    const written = async () =>
      (
        await database.pool.query(
          'select array_agg(xmin::text order by stream, folded) as by from tidemark.field',
        )
      ).rows
    const before = await written()
    expect((await callCommand(migrate, [], environment)).code).toBe(0)
    expect(await written()).toEqual(before)
  })

  it('changes no column’s type and rescues nothing when the recorded records come', async () => {
    const upstream = await start()
    await callCommand(migrate, [], environmentFor(upstream, database, withContract))
    const names = ['assignment', 'assignment_note', 'assignment_object', 'webhook_definition']
    const before = await Promise.all(names.map((name) => columnsOf(`mirror.${name}`)))
    await using context = await openTestContext(database, upstream, withContract)
    for (const stream of context.streams) {
      const outcome = await context.read(stream, 'incremental', { signal: neverAborted })
      expect(outcome).toMatchObject({ status: 'done', tally: { rescued: 0, quarantined: 0 } })
    }
    expect(await Promise.all(names.map((name) => columnsOf(`mirror.${name}`)))).toEqual(before)
    const { rows } = await database.pool.query(
      'select count(*)::int as rows, count(_rescued)::int as rescued, count(price)::int as prices from mirror.assignment',
    )
    expect(rows[0]).toMatchObject({ rows: 40, rescued: 0 })
    expect(rows[0].prices).toBeGreaterThan(0)
    expect((await columnsOf('bi.webhook_subscription')).length).toBe(7)
    // Which columns refer to which, the rows tell.
    const words = async () =>
      (await columnsOf('bi.assignment_note')).find(({ name }) => name === 'assignment_id')?.words
    expect(await words()).toBe('field assignmentId: Assignment.')
    await context.descriptions.refresh({ olderThanMs: 86_400_000, signal: neverAborted })
    expect(await words()).toBe('field assignmentId: Assignment. Refers to bi.assignment.')
  })

  it('of the stand-in itself makes all views at the first start, those of trackers too', async () => {
    const upstream = await start({ assignments: 0, notes: 0, objects: 0, trackers: 0 })
    await using context = await openTestContext(database, upstream, { CONTRACT: '' })
    expect(await viewsIn()).toEqual(context.streams.map(({ name }) => name).toSorted())
    const { rows } = await database.pool.query(
      'select service, location, title from tidemark.contract order by service',
    )
    expect(rows.map(({ service, title }) => [service, title])).toEqual([
      ['assignment', 'AssignmentService | v1'],
      ['tracking', 'TrackingService | v1'],
    ])
  })

  it('of one service is not taken for that of another on the same host', async () => {
    const upstream = await start({ assignments: 0, notes: 0, objects: 0, trackers: 0 })
    const sameHost = { CONTRACT: '', TRACKING_BASE_URL: upstream.assignmentUrl }
    await using _context = await openTestContext(database, upstream, sameHost)
    const { rows } = await database.pool.query('select service from tidemark.contract')
    expect(rows).toEqual([{ service: 'assignment' }])
    const checks = await database.pool.query(
      'select service, problem from tidemark.contract_check order by service',
    )
    expect(checks.rows).toEqual([
      { service: 'assignment', problem: null },
      { service: 'tracking', problem: null },
    ])
  })

  it('gives way to the data: another key, and values of another type', async () => {
    const upstream = await start()
    const description = JSON.parse(await readFile(recorded, 'utf8'))
    const { properties } = description.components.schemas.TblAssignmentObject
    // A key that no record has; a type that no value has.
    properties.assignmentObjectId = undefined
    properties.id = { type: 'string' }
    properties.serialNumber = { type: 'integer' }
    const file = join(inject('scratch'), 'other-contract.json')
    await writeFile(file, JSON.stringify(description))
    await using context = await openTestContext(database, upstream, { CONTRACT: file })
    expect((await columnsOf('mirror.assignment_object'))[0]).toMatchObject({ name: 'id', type: 'text' })
    const stream = context.streams.find(({ name }) => name === 'assignment_object')
    if (!stream) throw new Error('no such stream')
    const outcome = await context.read(stream, 'list' as 'incremental', { signal: neverAborted })
    expect(outcome).toMatchObject({ status: 'done', tally: { inserted: 20, quarantined: 0 } })
    const { rows } = await database.pool.query(
      `select count(*)::int as rows, count(serial_number)::int as fitting, count(_rescued->'serialNumber')::int as rescued
       from mirror.assignment_object where assignment_object_id is not null`,
    )
    expect(rows).toEqual([{ rows: 20, fitting: 20, rescued: 0 }])
  })

  it('makes all tables that can be made, and names no others, where a view and a table of others are in the way', async () => {
    const environment = { DATABASE_URL: database.url, ...withContract }
    await callCommand(migrate, [], environment)
    // A reference cannot be looked up, and a table cannot be made what is said of it.
    await database.pool.query(`
      drop view bi.assignment_note; drop view bi.assignment;
      create view bi.assignment as select 1 / 0 as assignment_id, * from (select 1::bigint as x) as x;
      drop table mirror.webhook_definition cascade;
      create view mirror.webhook_definition as select 1 as one`)
    await database.pool.query('comment on table mirror.assignment_object is null')
    const { code, stdout } = await callCommand(migrate, ['--json'], environment)
    expect(code).toBe(0)
    const { described } = JSON.parse(stdout)
    expect(described).toContain('assignment_object')
    expect(described).not.toContain('webhook_definition')
  })

  it('leaves room for fields that the data bring, whatever it names', async () => {
    const upstream = await start()
    const description = JSON.parse(await readFile(recorded, 'utf8'))
    const { TblAssignment: type } = description.components.schemas
    const many = Array.from({ length: 450 }, (_, n) => [`never${n}`, { type: 'string' }])
    type.properties = { ...Object.fromEntries(many), ...type.properties }
    const file = join(inject('scratch'), 'wide-contract.json')
    await writeFile(file, JSON.stringify(description))
    await using context = await openTestContext(database, upstream, { CONTRACT: file })
    expect((await columnsOf('mirror.assignment')).length).toBeLessThanOrEqual(250)
    const [assignment] = context.streams
    if (!assignment) throw new Error('no stream')
    const outcome = await context.read(assignment, 'incremental', { signal: neverAborted })
    expect(outcome).toMatchObject({ status: 'done', tally: { inserted: 40, rescued: 0, quarantined: 0 } })
  })

  describe('that changes', () => {
    type Description = {
      components: { schemas: Record<string, { properties: Record<string, unknown> }> }
      paths: Record<string, unknown>
    }
    const file = () => join(inject('scratch'), `contract-${database.name}.json`)
    const describeAs = async (change: (description: Description) => void) => {
      const description = JSON.parse(await readFile(recorded, 'utf8'))
      change(description)
      await writeFile(file(), JSON.stringify(description))
    }
    const problemsOf = async (kinds = /^contract_/) => {
      const found = await readProblems({
        ...{ pool: database.pool, streams, now: new Date() },
        config: { dynamic: dynamicIn({ STALE_AFTER: '20d' }), alertFile: noAlertFile },
        view: { parts: [] },
      })
      return found.filter(({ kind }) => kinds.test(kind))
    }
    const fields = (description: Description, type = 'TblAssignment') =>
      description.components.schemas[type]?.properties ?? {}

    it('tells each difference once, keeps the history, and makes the new column at once', async () => {
      const upstream = await start()
      await describeAs(() => {})
      const environment = environmentFor(upstream, database, { CONTRACT: file() })
      await callCommand(migrate, [], environment)
      expect(await problemsOf()).toEqual([])

      await describeAs((description) => {
        const assignment = fields(description)
        assignment.newField = { type: 'integer', format: 'int32', description: 'Brand new.' }
        delete assignment.color
        assignment.zoneNumber = { type: 'string' }
        assignment.city = { type: ['null', 'string'], maxLength: 80 }
        delete description.paths['/api/AssignmentObject']
        fields(description, 'TblAttachment').fileName = { type: ['null', 'string'], maxLength: 99 }
      })
      await using context = await openTestContext(database, upstream, { CONTRACT: file() })
      const look = () => context.descriptions.refresh({ olderThanMs: 0, signal: neverAborted })
      await look()
      const [problem, ...more] = await problemsOf()
      expect(more).toEqual([])
      expect(problem).toMatchObject({ kind: 'contract_changed' })
      for (const part of [
        '6 changes',
        'TblAssignment.color (field gone)',
        'TblAssignment.zoneNumber (type changed: integer int16 or null → string)',
        'TblAssignment.newField (new field: integer int32)',
        'TblAssignment.city (bound changed: at most 60 characters → at most 80 characters)',
        'GET /api/AssignmentObject (operation gone)',
      ])
        expect(problem?.what).toContain(part)
      expect((await columnsOf('bi.assignment')).find(({ name }) => name === 'new_field')).toEqual({
        name: 'new_field',
        type: 'bigint',
        words: 'field newField: Brand new.',
      })
      // What is gone keeps its column, and a type that changed changes none.
      expect((await columnsOf('mirror.assignment')).find(({ name }) => name === 'zone_number')?.type).toBe(
        'bigint',
      )
      await look()
      await look()
      expect((await problemsOf()).map(({ key }) => key)).toEqual([problem?.key])
      const { stdout } = await callCommand(contract, ['history', '--json'], environment)
      const { changes }: { changes: { subject: string; stream: string | null }[] } = JSON.parse(stdout)
      expect(changes).toHaveLength(6)
      expect(changes.find(({ subject }) => subject === 'TblAssignment.color')?.stream).toBe('assignment')
      expect(changes.find(({ subject }) => subject === 'TblAttachment.fileName')?.stream).toBe('attachment')
    })

    it('for something that is none keeps what was known, and says so until it is mended', async () => {
      const upstream = await start()
      await describeAs(() => {})
      const environment = environmentFor(upstream, database, { CONTRACT: file() })
      await callCommand(migrate, [], environment)
      await writeFile(file(), '<html>')
      const { code } = await callCommand(migrate, [], environment)
      expect(code).toBe(0)
      const [problem, ...more] = await problemsOf()
      expect(more).toEqual([])
      expect(problem).toMatchObject({
        kind: 'contract_unusable',
        whatToDo: expect.stringContaining('CONTRACT'),
      })
      await using context = await openTestContext(database, upstream, { CONTRACT: file() })
      expect(context.descriptions.kindsOf('assignment')?.price).toEqual({ kind: 'number' })
      await describeAs(() => {})
      await callCommand(migrate, [], environment)
      expect(await problemsOf()).toEqual([])
    })

    it('is no problem and no measure of requests once it is off', async () => {
      const upstream = await start()
      const environment = environmentFor(upstream, database, { CONTRACT: file() })
      await describeAs(() => {})
      await callCommand(migrate, [], environment)
      const wrong = async () => {
        await writeFile(file(), '<html>')
        await callCommand(migrate, [], environment)
        expect((await problemsOf()).map(({ kind }) => kind)).toEqual(['contract_unusable'])
      }
      const described = async (CONTRACT: string) =>
        await readDescriptions({
          environment: { ...environment, CONTRACT },
          log: openLog({ level: 'silent' }),
        })
      await wrong()
      expect(await described(file())).toHaveLength(1)
      await callCommand(migrate, [], { ...environment, CONTRACT: 'off' })
      expect(await problemsOf()).toEqual([])
      expect(await described('off')).toEqual([])
    })

    it('is compared with the records: what has no value, is not described, or does not fit', async () => {
      const upstream = await start()
      await describeAs((description) => {
        const assignment = fields(description)
        assignment.nobodyHasIt = { type: 'string' }
        delete assignment.city
        assignment.assignmentName = { type: 'integer' }
      })
      const environment = environmentFor(upstream, database, { CONTRACT: file() })
      await using context = await openTestContext(database, upstream, { CONTRACT: file() })
      const [assignment] = context.streams
      if (!assignment) throw new Error('no stream')
      await context.read(assignment, 'incremental', { signal: neverAborted })
      // Rows that come again are the same rows.
      await context.read(assignment, 'lookback', { signal: neverAborted })
      const [problem, ...more] = await problemsOf(/^contract_|schema_drift/)
      expect(more).toEqual([])
      expect(problem?.kind).toBe('contract_differs')
      expect(problem?.what).toContain('city (not in the description)')
      expect(problem?.what).toContain('assignmentName (described as integer: another type)')
      expect(await believed('assignment')).toMatchObject({
        value: 'otherwise',
        previous_value: 'as described',
        evidence: '2 fields that came are not as described: assignmentName, city',
      })
      const diff = await callCommand(contract, ['assignment', '--diff'], environment)
      expect(diff.code).toBe(1)
      const { rows } = await database.pool.query(
        'select count(*)::int as all, count(city)::int as cities from mirror.assignment',
      )
      expect(diff.stdout).toContain(
        `assignment.city: not described; ${rows[0]?.cities} rows with a value, in a column of type text`,
      )
      expect(diff.stdout).toContain(
        `assignment.nobodyHasIt: described as string; none of ${rows[0]?.all} rows has a value`,
      )
      expect(diff.stdout).toContain('assignment.assignmentName: described as integer; its column is text')
      const shown = await callCommand(contract, ['assignment_note', '--format', 'markdown'], environment)
      expect(shown.stdout).toContain('| noteTypeId | integer uint8 or null | Type of note. |')
    })

    it('is a belief about each stream: told with its evidence, falsified by what comes, and tested anew', async () => {
      const upstream = await start()
      await describeAs((description) => delete fields(description).city)
      const environment = environmentFor(upstream, database, { CONTRACT: file() })
      await callCommand(migrate, [], environment)
      // P18: that all fit is not said while there is nothing that could.
      const evidence = `none of 60 fields in OpenAPI 3.1.1 of ${file()} had a value here when that was read; each run has compared what came since`
      expect(await believed('assignment')).toMatchObject({ value: 'as described', evidence })
      expect(await believed('webhook_subscription')).toMatchObject({ value: 'as described' })
      await callCommand(sync, ['assignment'], environment)
      expect(await believed('assignment')).toMatchObject({
        value: 'otherwise',
        evidence: '1 field that came is not as described: city',
      })
      const probed = await callCommand(probe, ['--json'], environment)
      const beliefs = JSON.parse(probed.stdout).beliefs
      const told = (stream: string) =>
        beliefs.find((one: Record<string, unknown>) => one.stream === stream && one.name === 'contract')
      expect(told('assignment')).toMatchObject({
        verdict: 'does not hold',
        evidence: `1 field not as in OpenAPI 3.1.1 of ${file()}: city`,
      })
      expect(told('webhook_definition')).toMatchObject({ verdict: 'holds' })
      // Described by now: the belief holds again, from the time when the description is read.
      await describeAs(() => {})
      await callCommand(migrate, [], environment)
      expect(await believed('assignment')).toMatchObject({
        value: 'as described',
        previous_value: 'otherwise',
      })
      await callCommand(migrate, [], { ...environment, CONTRACT: 'off' })
      expect(await believed('assignment')).toBeUndefined()
    })
  })
})
