// Names that every JavaScript object has already, such as `constructor`, may come as fields, types, streams and parameters: they are
// names like any other (P5).

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest'
import { contract } from '../../src/cli/contract.ts'
import { probe } from '../../src/cli/probe.ts'
import { sql } from '../../src/cli/sql.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callCommand, callVerb } from '../support/verbs.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

const names = [
  ...['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf', 'prototype', 'isPrototypeOf'],
  ...['toJSON', '__defineGetter__', 'length', 'then'],
]
const fields = names.map((name, index) => `${JSON.stringify(name)}:${index + 1}`).join(',')
const columns = [
  ...['constructor', 'proto', 'to_string', 'has_own_property', 'value_of', 'prototype', 'is_prototype_of'],
  ...['to_json', 'define_getter', 'length', 'then'],
]

/** The recorded description, in which everything that can have a name has each of these as well. */
async function oddDescription(): Promise<string> {
  const recorded = new URL('../fixtures/recorded/openapi-v1.json', import.meta.url).pathname
  const described = JSON.parse(await readFile(recorded, 'utf8'))
  const { schemas } = described.components
  const add = (to: object, name: string, value: unknown) =>
    Object.defineProperty(to, name, { value, enumerable: true, configurable: true, writable: true })
  for (const [index, name] of names.entries()) {
    const { properties } = schemas.TblAssignment
    add(properties, name, { type: 'integer', format: name, description: `odd ${index}` })
    add(properties, `ref${index}`, { $ref: `#/components/schemas/${name}` })
    add(properties, `text${index}`, { type: 'string', format: name, [name]: 'keyword', pattern: name })
    add(properties, `type${index}`, { type: name })
    add(properties, `lost${index}`, { $ref: `#/${name}` })
    if (index % 2 === 0) add(schemas, name, { type: 'object', properties: { [name]: { type: 'string' } } })
    described.paths['/api/Assignment'].get.parameters.push({ name, in: 'query', schema: { type: 'integer' } })
    add(described, name, { type: 'integer' })
  }
  const file = join(inject('scratch'), 'odd-names.json')
  await writeFile(file, JSON.stringify(described))
  return file
}

describe.skipIf(!hasPostgres)('names that every object has', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  let browsing: Browsing
  let environment: Record<string, string | undefined>

  beforeAll(async () => {
    simulator = await startSimulator({ look: 'recorded', assignments: 20, notes: 5 })
    simulator.behaviour.moreLists = true
    const odd = ({ id, version }: { id: number; version: bigint }) =>
      `{"assignmentId":${id},"sysRowVersion":${version},"uid":null,"subject":"odd ${id}",${fields}}`
    for (let record = 0; record < 3; record++) simulator.source.appendRaw('assignment', odd)
    environment = environmentFor(simulator, database, {
      CONTRACT: await oddDescription(),
      STREAMS: 'assignment,assignment_note,constructor=/api/Customer,valueof=/api/Employee',
      SOURCE_TIMEZONE: 'Europe/Oslo',
      HISTORY: 'assignment',
      REQUEST_TIMEOUT: '30s',
    })
  })
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  it('are fields, types and streams like others in every kind of run', { timeout: 120_000 }, async () => {
    for (const words of [['migrate'], ['sync'], ['sync'], ['sync', 'assignment', '--kind', 'lookback']])
      expect([words, await callVerb(words, environment)]).toMatchObject([words, { code: 0, error: null }])
    simulator.source.change('assignment', 3, { constructor: 'text' })
    for (const words of [
      ...[['sync'], ['backfill', 'assignment', '--from-version', '1'], ['reconcile'], ['verify']],
      ...[
        ['explain', 'assignment', '21'],
        ['explain', 'assignment', '3'],
        ['explain', 'constructor', '1'],
      ],
      ...[
        ['schema'],
        ['schema', '--json'],
        ['schema', '--format', 'dbt', '--out', join(inject('scratch'), 'odd-dbt')],
      ],
      ...[['status'], ['status', '--json'], ['quarantine'], ['checkpoints']],
    ])
      expect([words, await callVerb(words, environment)]).toMatchObject([words, { code: 0, error: null }])
    const { rows } = await database.pool.query(
      `select ${columns.map((name) => `"${name}"`).join(', ')} from bi.assignment where assignment_id = 21`,
    )
    expect(rows).toEqual([Object.fromEntries(columns.map((name, index) => [name, String(index + 1)]))])
    const found = await database.pool.query('select count(*)::int from bi.constructor')
    expect(found.rows[0].count).toBe(simulator.source.count('customer'))
  })

  it('stop neither the probe nor the commands about the description', { timeout: 60_000 }, async () => {
    const { code, stdout } = await callCommand(probe, [], environment)
    expect([code, stdout]).toEqual([0, expect.stringContaining('0 failed')])
    // Only one of two looks at a record has them.
    simulator.onRequest(({ path }) => {
      const id = Number(/\/Assignment\/Id\/(\d+)$/.exec(path)?.[1] ?? 0)
      const version = id > 0 ? simulator.source.versionOf('assignment', id) : null
      if (version === null) return
      const raw = `{"assignmentId":${id},"sysRowVersion":${version},${fields}}`
      simulator.source.appendRaw('assignment', raw, { id, version })
    })
    const asked = await callCommand(probe, [], environment)
    expect([asked.code, asked.stdout]).toEqual([
      0,
      expect.stringMatching(/single_look.*record \d+, version \d+: .* differ/i),
    ])
    for (const words of [['assignment'], ['--diff'], ['history'], ['streams'], []])
      expect((await callCommand(contract, words, environment)).code).toBe(words[0] === '--diff' ? 1 : 0)
    const query = `select "constructor", 1 as "__proto__", 2 as "toString" from bi.assignment where assignment_id = 21`
    for (const words of [[query], [query, '--csv'], [query, '--json']])
      expect((await callCommand(sql, words, environment)).code).toBe(0)
  })

  it('are refused as the names of what there is not', async () => {
    for (const name of names.slice(1))
      for (const words of [[name], ['status', name], ['deletions', name], ['schema', '--format', name]])
        expect([words, await callVerb(words, environment).catch((error) => error)]).toEqual([
          words,
          expect.toSatisfy((answer) => /UsageError/.test(String(answer.error ?? answer))),
        ])
  })

  it('open pages like others', { timeout: 60_000 }, async () => {
    worker = await startTestWorker(simulator, database, { ...environment, SCHEDULE_ASSIGNMENT: '1h' })
    await worker.live
    // Columns of somebody else, which belong to no field.
    await database.pool.query('alter table mirror.assignment_note add column "constructor" text')
    browsing = openBrowsing(worker.url)
    await browsing.signIn(adminToken)
    await vi.waitFor(async () => expect((await browsing.get('/streams/constructor')).status).toBe(200))
    const paths = [
      ...[
        '/',
        '/problems',
        '/upstream',
        '/upstream/contract',
        '/dictionary',
        '/runs',
        '/quarantine',
        '/actions',
      ],
      ...[
        '/records/assignment/21',
        '/records/constructor/1',
        '/records/assignment_note/1',
        '/streams/constructor/rows',
        '/find?text=odd',
      ],
      ...['/streams/assignment/rows?text=odd', '/workers', '/metrics', '/approve?stream=assignment'],
    ]
    for (const path of paths) expect([path, (await browsing.get(path)).status]).toEqual([path, 200])
    expect(await (await browsing.get('/records/assignment/21')).text()).toContain('has_own_property')
    for (const name of names) {
      const query = names.map((one) => `${one}=${name}`).join('&')
      for (const path of [
        ...paths,
        `/streams/${name}`,
        `/records/${name}/${name}`,
        `/${name}`,
        `/runs/${name}`,
      ]) {
        const { status } = await browsing.get(`${path}?${query}&stream=${name}`)
        expect([path, name, status < 500]).toEqual([path, name, true])
      }
      for (const path of [`/streams/${name}/sync`, `/${name}`, '/backfill', '/rewind'])
        expect((await browsing.submit(path, { [name]: name, stream: name })).status).toBeLessThan(500)
    }
  })
})
