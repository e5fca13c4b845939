// What the manual and the dashboard promise to analysts, tried as the read-only role on a mirror of the stand-in.

import { readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asDbt } from '../../src/cli/exports/dbt.ts'
import { factsOf } from '../../src/cli/exports/facts.ts'
import { asPowerBi } from '../../src/cli/exports/powerbi.ts'
import { asSuperset } from '../../src/cli/exports/superset.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readSchemaMap } from '../../src/store/book/dictionary.ts'
import { confirmedReferences } from '../../src/store/book/references.ts'
import { showHistory } from '../../src/store/schema/history-views.ts'
import { inTransaction, withConnection } from '../../src/store/server/session.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { makeModels, marts } from '../support/dbt.ts'
import { pages, statementsOf } from '../support/manual.ts'

const textOf = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

const queries = statementsOf({ text: textOf('docs/analysts/queries.md') })
/** By the name of the report that answers the same question. */
const questions = new Map(
  [...textOf('docs/analysts/questions.md').matchAll(/\(`(\w+)`\)\n\n```sql\n(.*?);\n```/gs)].map(
    ([, name = '', statement = '']) => [name, statement] as const,
  ),
)
const timeZone = 'Europe/Oslo'
const told = { environment: { SOURCE_TIMEZONE: timeZone }, catalogue: streams }

describe.skipIf(!hasPostgres)('analysts', () => {
  const database = createTestDatabase()
  let reader: pg.Client
  let filesBefore: Awaited<ReturnType<typeof dbtFiles>>

  const readFacts = async () => {
    const views = await readSchemaMap(database.pool, streams)
    const references = await confirmedReferences(database.pool, views)
    return factsOf(told, { views, references, overrides: [], address: new URL(database.url) })
  }
  const dbtFiles = async () => asDbt(await readFacts())

  beforeAll(async () => {
    const role = `${database.name}_bi`
    await database.pool.query(`create role ${role} login password 'secret-of-the-role'`)
    await using simulator = await startSimulator({
      look: 'recorded',
      assignments: 300,
      notes: 300,
      trackers: 3,
    })
    await using context = await openTestContext(database, simulator, {
      ...{ BI_ROLE: role, RELATED: 'true', ATTACHMENT_DATA: 'true', HISTORY: 'assignment' },
      SOURCE_TIMEZONE: timeZone,
    })
    const read = async (names: readonly string[]) => {
      for (const stream of context.streams.filter(({ name }) => names.includes(name)))
        await context.read(stream, 'incremental', { signal: neverAborted, shouldYield: () => false })
    }
    await read(context.streams.map(({ name }) => name))
    // The days of vehicles are shown once their table has columns.
    simulator.source.change('tracker_object', 1)
    await read(['tracker_object'])
    filesBefore = await dbtFiles()
    for (let id = 1; id <= 20; id++) {
      if (id % 5 === 0) simulator.source.remove('assignment', id, 'soft')
      else simulator.source.change('assignment', id)
      simulator.source.change('tracker_object', 1 + (id % 3))
    }
    await read(['assignment', 'tracker_object'])
    await context.readRelated({ signal: neverAborted })
    // The manual asks for days of the past.
    await database.pool.query(
      `update tidemark.stream set history_from = '2026-01-01' where history_from is not null`,
    )
    for (const stream of context.streams)
      await withConnection(database.pool, (client) =>
        inTransaction(client, () => showHistory(client, stream, quietLog)),
      )
    reader = new pg.Client(
      Object.assign(new URL(database.url), { username: role, password: 'secret-of-the-role' }).href,
    )
    await reader.connect()
  }, 120_000)
  afterAll(async () => {
    await reader.end()
    await database.pool.query(`drop owned by ${database.name}_bi`)
    await database.pool.query(`drop role ${database.name}_bi`)
  })

  it('get an answer from each of the five queries, and the moment of the data', async () => {
    expect(queries).toHaveLength(6)
    for (const query of queries) expect((await reader.query(query)).rows, query).not.toEqual([])
    const [dataAsOf] = (await reader.query(queries.at(-1) ?? '')).rows
    expect(dataAsOf).toEqual({ data_as_of: expect.any(Date) })
  })

  it('get the same answer to each question from its query and from the report of the dbt project', async () => {
    expect([...questions.keys()].toSorted()).toEqual([...marts.keys()])
    const schema = await makeModels(database.pool, filesBefore)
    const session = await database.pool.connect()
    try {
      await session.query(`set time zone '${timeZone}'`)
      for (const [name, statement] of questions) {
        const mart = `select * from ${schema}.${name}`
        const { rows } = await session.query(
          `with question as (${statement}), report as (${mart})
           select 'question' as side, extra.* from (table question except table report) as extra
           union all select 'report', extra.* from (table report except table question) as extra`,
        )
        expect(rows, name).toEqual([])
        expect((await session.query(mart)).rows, name).not.toEqual([])
      }
    } finally {
      session.release(true)
    }
  })

  it('get the same files for dbt while the schema is the same', async () => {
    expect(await dbtFiles()).toEqual(filesBefore)
    const text = String(filesBefore['_tidemark__sources.yml'])
    expect(text).toContain(
      `read_through_time), 'epoch') from tidemark.freshness where stream = 'assignment'"`,
    )
    expect(text).not.toMatch(/% empty|\d{4}-\d\d-\d\d/)
  })

  it('can run what the files for Power BI and Superset ask for', async () => {
    const facts = await readFacts()
    const tables = Object.values(asPowerBi(facts)).flatMap((text) => [
      ...String(text).matchAll(/Source, "(.*)", null/g),
    ])
    expect(tables).toHaveLength(facts.views.length)
    for (const [, query = ''] of tables) {
      const { rows } = await reader.query(query.replaceAll('""', '"'))
      expect(rows.length).toBeGreaterThan(0)
    }
    const archive = Buffer.from(asSuperset(facts)['tidemark-superset.zip'] ?? '').toString()
    const datasets = archive.matchAll(/table_name: "(\w+)"\n *schema: "(\w+)"(.*?)PK/gs)
    for (const [, table, schema, columns = ''] of datasets)
      for (const [, text = ''] of columns.matchAll(/expression: (".*")$/gm))
        await expect(
          reader.query(`select ${JSON.parse(text)} from ${schema}.${table}`),
          text,
        ).resolves.toBeDefined()
    expect(archive).toContain('expression: "count(*)"')
  })

  it('can run every other query of the manual', async () => {
    const statements = pages.flatMap((page) =>
      statementsOf(page).map((statement) => [page.path, statement] as const),
    )
    expect(statements.length).toBeGreaterThan(queries.length + 5)
    for (const [path, statement] of statements)
      if (/^\s*(?:--.*\n\s*)*(?:select|with)\b/i.test(statement))
        await expect(reader.query(statement), `${path}: ${statement}`).resolves.toBeDefined()
      else if (/^\s*(?:(?:create|alter) role|grant|revoke|alter database|create schema)\b/i.test(statement))
        await runAndTakeBack(statement)
      else expect.unreachable(`${path} holds a statement that nobody tries: ${statement}`)
  })

  it('can run the queries that the manual asks from the terminal', async () => {
    const asked = pages.flatMap(({ text }) => [...text.matchAll(/tidemark sql(?: --\w+)? "([^"]+)"/g)])
    const statements = new Set(
      asked.map(([, statement = '']) => statement).filter((one) => !one.includes('…')),
    )
    expect(statements.size).toBeGreaterThan(2)
    for (const statement of statements)
      await expect(reader.query(statement), statement).resolves.toBeDefined()
  })

  /** As the owner, with whatever the statements before it made. */
  const before: string[] = []
  async function runAndTakeBack(statement: string): Promise<void> {
    // The embedded Postgres has such roles already.
    const { name } = database
    before.push(
      statement.replaceAll(/\btidemark_/g, `${name}_`).replaceAll('database mirror', `database ${name}`),
    )
    const client = await database.pool.connect()
    try {
      await client.query(`begin; ${before.join(';\n')}; rollback`)
    } finally {
      client.release(true)
    }
  }

  it.each(['mirror', 'business'])('see something in each panel of the dashboard %s', async (board) => {
    const { panels }: { panels: { title: string; targets: { rawSql: string; format: string }[] }[] } =
      JSON.parse(textOf(`deploy/grafana/tidemark-${board}.json`))
    expect(panels.length).toBeGreaterThan(5)
    for (const { title, targets } of panels)
      for (const { rawSql, format } of targets) {
        const sql = rawSql.replaceAll(
          /\$__timeFilter\(([^)]*)\)/g,
          "$1 between now() - interval '10 years' and now()",
        )
        expect(sql, title).not.toContain('$__')
        const { rows, fields } = await reader.query(sql)
        expect(rows, title).not.toEqual([])
        if (format === 'time_series')
          expect(fields.map(({ name }) => name)).toEqual(['time', 'metric', 'value'])
      }
  })

  it('find a word on each schema, view and column that they see', async () => {
    const { rows } = await reader.query<{ name: string }>(
      `select format('%I.%I.%I', nspname, relname, attname) as name
       from pg_class join pg_namespace on pg_namespace.oid = relnamespace
       cross join lateral (
         select attname, attnum from pg_attribute where attrelid = pg_class.oid and attnum > 0 and not attisdropped
         union all select '', 0
       ) as shown
       where (nspname in ('bi', 'mirror') or (nspname, relname) = ('tidemark', 'freshness')) and relkind in ('v', 'r', 'p')
         and case when attnum = 0 then obj_description(pg_class.oid) else col_description(pg_class.oid, attnum) end is null
       union all
       select nspname from pg_namespace where nspname in ('bi', 'mirror', 'tidemark') and obj_description(oid) is null`,
    )
    expect(rows.map(({ name }) => name)).toEqual([])
    const { rows: words } = await reader.query(
      `select col_description('bi.assignment'::regclass, attnum) as word from pg_attribute
       where attrelid = 'bi.assignment'::regclass and attname in ('assignment_status_id', '_synced_at') order by attname`,
    )
    expect(words).toEqual([{ word: 'when the row last changed here' }, { word: 'field assignmentStatusId' }])
  })

  it('find keys, fields and likely references in the schema', async () => {
    const views = await readSchemaMap(database.pool, streams)
    expect(views.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['assignment', 'assignment_note', 'tracker_object', 'tracker_object_history']),
    )
    const columns = views.find(({ name }) => name === 'assignment')?.columns ?? []
    expect(columns.filter(({ isKey }) => isKey).map(({ name }) => name)).toEqual(['assignment_id'])
    expect(columns.find(({ name }) => name === 'assignment_status_id')).toMatchObject({
      type: 'bigint',
      field: 'assignmentStatusId',
      nullShare: 0,
      rescued: 0,
      note: null,
    })
    expect(columns.at(-1)).not.toMatchObject({ isKey: true })
    expect(columns.find(({ name }) => name === '_synced_at')).toMatchObject({ field: null })
    const references = await confirmedReferences(database.pool, views)
    const found = (from: string, column: string) =>
      references.find((one) => one.from === from && one.column === column)
    expect(found('assignment_note', 'assignment_id')).toMatchObject({
      to: 'assignment',
      key: 'assignment_id',
    })
    expect(found('tracker_object_history', 'tracker_object_id')).toMatchObject({
      to: 'tracker_object',
      share: 1,
    })
    // Only the name says so of a column that no row has a value in.
    expect(found('assignment', 'parent_assignment_id')).toBeUndefined()
  })

  it('can read, and do nothing else', async () => {
    const { rows } = await reader.query<{ relation: string; rights: string }>(
      `select format('%I.%I', nspname, relname) as relation, string_agg(granted, ' ' order by granted) as rights
       from pg_class join pg_namespace on pg_namespace.oid = relnamespace
       cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as granted
       where relkind in ('r', 'v', 'p', 'm', 'f') and nspname !~ '^pg_|^information_schema$' and has_table_privilege(pg_class.oid, granted)
       group by 1`,
    )
    expect(new Set(rows.map(({ rights }) => rights))).toEqual(new Set(['select']))
    const others = rows.map(({ relation }) => relation).filter((one) => !/^(bi|mirror)\./.test(one))
    expect(others.sort()).toEqual([
      'tidemark.field',
      'tidemark.freshness',
      'tidemark.in_doubt',
      'tidemark.label',
    ])
    const { rows: schemas } = await reader.query(
      `select nspname from pg_namespace where nspname in ('bi', 'mirror', 'tidemark', 'bullmq') and has_schema_privilege(oid, 'create')`,
    )
    expect(schemas).toEqual([])
  })
})
