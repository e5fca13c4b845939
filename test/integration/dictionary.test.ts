// What the owner says that the data means, where reports see it: texts beside codes, comments, and `bi.dictionary`.

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { noVariables, parseDictionary } from '../../src/config/dictionary.ts'
import { ConfigError } from '../../src/config/environment.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { catalogueOf } from '../../src/streams/catalog.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callVerb } from '../support/verbs.ts'
import { startTestWorker } from '../support/worker.ts'

const inTime = { timeout: 60_000, interval: 50 }

const told = `
assignment:
  label: Work order
  description: What a customer asked for
  fields:
    assignmentStatusId: { label: Status, values: { 0: New, 1: Planned, 2: Begun, 99: Never } }
    assignment_priority: { unit: level, description: 1 is highest, values: { 1: High } }
    employeeId: { label: Technician }
assignment_note:
  fields:
    assignmentId: { refers_to: assignment }
`

describe.skipIf(!hasPostgres)('the dictionary', () => {
  const database = createTestDatabase()
  const file = join(mkdtempSync(join(tmpdir(), 'dictionary-')), 'dictionary.yml')
  let simulator: Simulator
  let reader: pg.Client
  const role = `reader_${process.pid}`
  const open = () =>
    openTestContext(database, simulator, {
      ...{ DICTIONARY: file, BI_ROLE: role, RELATED: 'customer', HISTORY: 'assignment' },
    })
  const read = async (stream = 'assignment') => {
    await using context = await open()
    const found = context.streams.find(({ name }) => name === stream)
    if (found) await context.read(found, 'incremental', { signal: neverAborted })
  }
  const rows = async (text: string): Promise<readonly Record<string, unknown>[]> =>
    (await reader.query(text)).rows

  beforeAll(async () => {
    simulator = await startSimulator({
      look: 'recorded',
      assignments: 30,
      notes: 20,
      trackers: 3,
      objects: 3,
    })
    await database.pool.query(`create role ${role} login password 'x'`)
    writeFileSync(file, told)
    await read()
    await read('assignment_note')
    const url = new URL(database.url)
    reader = new pg.Client({ connectionString: url.href.replace(/\/\/[^@]*@/, `//${role}:x@`) })
    await reader.connect()
  })
  afterAll(async () => {
    await reader?.end()
    await simulator?.close()
  })

  it('shows the text of each code beside it, to the BI role as well', async () => {
    const found = await rows(
      'select assignment_status_id as code, assignment_status as text from bi.assignment group by 1, 2 order by 1',
    )
    const texts: Readonly<Record<string, string>> = { 0: 'New', 1: 'Planned', 2: 'Begun' }
    expect(found.length).toBeGreaterThan(3)
    for (const { code, text } of found) expect([code, text]).toEqual([code, texts[String(code)] ?? null])
    const names = await rows('select assignment_priority_label from bi.assignment limit 1')
    expect(names).toHaveLength(1)
    expect(
      await rows(
        'select assignment_status_id as code, assignment_status as text from bi.assignment_at(clock_timestamp()) group by 1, 2 order by 1',
      ),
    ).toEqual(found)
  })

  it('changes no view when a text changes, and keeps the column when nobody gives texts any more', async () => {
    const oid = async () =>
      (await rows(`select xmin::text from pg_class where oid = 'bi.assignment'::regclass`))[0]
    const before = await oid()
    writeFileSync(file, told.replace('Planned', 'Scheduled'))
    await using context = await open()
    expect(
      await rows('select distinct assignment_status from bi.assignment where assignment_status_id = 1'),
    ).toEqual([{ assignment_status: 'Scheduled' }])
    expect(await oid()).toEqual(before)
    writeFileSync(file, 'assignment: { label: Order }')
    expect(context.streams.length).toBeGreaterThan(0)
    await using later = await open()
    expect(later.streams.length).toBeGreaterThan(0)
    expect(await rows('select distinct assignment_status from bi.assignment')).toEqual([
      { assignment_status: null },
    ])
    writeFileSync(file, told)
    await using last = await open()
    expect(last.streams.length).toBeGreaterThan(0)
    expect(
      await rows(
        'select count(*)::int > 1 as ok from (select distinct assignment_status from bi.assignment) as a',
      ),
    ).toEqual([{ ok: true }])
  })

  it('lists every column in bi.dictionary', async () => {
    const [status] = await rows(
      `select * from bi.dictionary where view = 'assignment' and "column" = 'assignment_status_id'`,
    )
    expect(status).toMatchObject({
      field: 'assignmentStatusId',
      label: 'Status',
      type: 'bigint',
      key: false,
      allowed_values: '0 = New, 1 = Planned, 2 = Begun, 99 = Never',
    })
    const all = await rows(
      `select "column", key, unit, description from bi.dictionary where view = 'assignment' and "column" in
         ('assignment_id', 'assignment_priority', 'assignment_status', '_synced_at') order by 1`,
    )
    expect(all).toEqual([
      { column: '_synced_at', key: false, unit: null, description: 'when the row last changed here' },
      expect.objectContaining({ column: 'assignment_id', key: true }),
      expect.objectContaining({ column: 'assignment_priority', unit: 'level', description: '1 is highest' }),
      expect.objectContaining({ column: 'assignment_status', description: 'text of assignment_status_id' }),
    ])
  })

  it('gives way to a field that comes later and has the name of its texts, whatever that field holds', async () => {
    simulator.source.change('assignment', 5, { assignmentPriorityLabel: 7, broughtLater: 'x' })
    await read()
    const [row] = await rows(
      'select assignment_priority_label as own, brought_later as later from bi.assignment where assignment_id = 5',
    )
    expect(row).toEqual({ own: '7', later: 'x' })
    const texts = await rows(
      'select distinct assignment_priority_label_2 as text from bi.assignment where assignment_priority = 1',
    )
    expect(texts).toEqual([{ text: 'High' }])
    expect(
      await rows(
        'select assignment_priority_label as own, assignment_priority_label_2 is not null as has from bi.assignment_at(clock_timestamp()) where assignment_id = 5',
      ),
    ).toHaveLength(1)
  })

  it('says it in comments as well', async () => {
    const words = await rows(
      `select attname as name, col_description(attrelid, attnum) as word from pg_attribute
       where attrelid = 'bi.assignment'::regclass and attname in ('assignment_priority', 'assignment_status', 'employee_id') order by 1`,
    )
    expect(words).toEqual([
      {
        name: 'assignment_priority',
        word: expect.stringContaining('1 is highest Unit: level. One of 1 = High.'),
      },
      {
        name: 'assignment_status',
        word: 'text of field assignmentStatusId: what stands for assignment_status_id',
      },
      { name: 'employee_id', word: expect.stringContaining('field employeeId: Technician') },
    ])
    const [view] = await rows(`select obj_description('bi.assignment'::regclass) as word`)
    expect(view).toEqual({ word: expect.stringContaining('“Work order: What a customer asked for”') })
  })

  it('is printed as a file to start from, which can be used as it is', async () => {
    const environment = environmentFor(simulator, database)
    const { stdout, error } = await callVerb(['schema', 'assignment', '--format', 'dictionary'], environment)
    expect(error).toBeNull()
    const parsed = parseDictionary('dictionary.yml', Buffer.from(stdout), noVariables, catalogueOf([]))
    const status = parsed.get('assignment')?.fields.get('assignmentstatusid')
    expect([status?.label, status?.values?.get('1')]).toEqual(['Status', 'Planned'])
    expect(parsed.get('assignment')?.fields.get('customerid')?.label).toBe('Customer')
    expect(stdout).toMatch(/^ {8}0: New # \d+ rows$/m)
    expect(stdout).toMatch(/^ {6}# {3}\d+: # \d+ rows$/m)
  })

  it('is compared with what is there', async () => {
    const check = async (text: string) => {
      writeFileSync(file, text)
      return await callVerb(['schema', '--check'], {
        ...environmentFor(simulator, database),
        DICTIONARY: file,
      })
    }
    const unfit = await check(`${told}    employeeID: { label: Who }\n    departementId: { label: Where }\n`)
    expect([unfit.code, unfit.error]).toEqual([1, null])
    expect(unfit.stdout).toMatch(
      /dictionary\.yml:6: assignment: assignmentStatusId is "\d" in \d+ rows?, and has no text for it/,
    )
    expect(unfit.stdout).toContain('dictionary.yml:13: assignment_note: no record had a field departementId')
    expect((await check('assignment: { fields: { employeeID: { label: Who } } }')).code).toBe(0)
    expect((await check('assignment: { labl: Who }')).error).toBeInstanceOf(ConfigError)
    writeFileSync(file, told)
  })

  it('begins with the names that the upstream gives its codes', async () => {
    const spec = join(dirname(file), 'openapi.json')
    const described = JSON.parse(
      readFileSync(new URL('../fixtures/recorded/openapi-v1.json', import.meta.url), 'utf8'),
    )
    Object.assign(described.components.schemas.TblAssignment.properties.assignmentTypeId, {
      ...{ enum: [1, 2, 3], 'x-enumNames': ['Repair', 'Service', 'Survey'] },
    })
    writeFileSync(spec, JSON.stringify(described))
    const context = await openTestContext(database, simulator, { DICTIONARY: file, CONTRACT: spec })
    await context.descriptions.refresh({ olderThanMs: 0, signal: neverAborted })
    await context[Symbol.asyncDispose]()
    const found = await rows(
      'select distinct assignment_type_id as code, assignment_type as text from bi.assignment where assignment_type_id < 4 order by 1',
    )
    const names = ['Repair', 'Service', 'Survey']
    expect(found.length).toBeGreaterThan(0)
    for (const { code, text } of found) expect(text).toBe(names[Number(code) - 1])
  })

  it('is taken up by a worker that runs, and is a problem while it has mistakes', async () => {
    writeFileSync(file, told)
    const worker = await startTestWorker(simulator, database, { DICTIONARY: file, STREAMS: 'assignment' })
    try {
      const { problems, pool } = await worker.live
      const kinds = async () => (await problems()).filter(({ kind }) => kind === 'dictionary')
      const text = async () =>
        (
          await pool.query(
            "select text from tidemark.label where field = 'assignmentstatusid' and code = '1'",
          )
        ).rows[0]?.text
      writeFileSync(
        file,
        told.replace('label: Work order', 'labl: Work order').replace('Planned', 'Arranged'),
      )
      await vi.waitFor(async () => expect(await kinds()).toHaveLength(1), inTime)
      expect((await kinds())[0]?.what).toContain(
        'dictionary.yml:3: assignment.labl is no setting: did you mean label?',
      )
      expect(await text()).toBe('Planned')
      writeFileSync(file, told.replace('Planned', 'Arranged'))
      await vi.waitFor(async () => expect([await text(), await kinds()]).toEqual(['Arranged', []]), inTime)
    } finally {
      await worker.stop()
    }
  })
})
