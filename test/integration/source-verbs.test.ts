// Commands for a source that has a name of its own: what they do for the streams of the first source, they do for those of this one.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { fileOfSources } from '../support/kept-sources.ts'
import { runHere } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('a command for a source that has a name', () => {
  const database = createTestDatabase()
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-source-verbs-'))
  let simulator: Simulator
  const file = fileOfSources({})
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const run = (words: readonly string[]) =>
    runHere(words, {
      ...environmentFor(simulator, database, { SOURCES_FILE: file.path, LOG_LEVEL: 'debug' }),
      A_KEY: simulator.credentials.apiKey,
      // Another one than that of the source.
      CLIENT_GUID: '00000000-0000-4000-8000-000000000009',
    })
  const ofAcme = (...words: readonly string[]) => run([...words, '--source', 'acme'])
  const apply = async (more: object = {}) => {
    const { assignmentUrl, authUrl, credentials } = simulator
    file.write({
      sources: {
        acme: {
          assignment_base_url: assignmentUrl,
          auth_url: authUrl,
          client_guid: credentials.clientGuid,
          subject_id: credentials.subjectId,
          api_key: 'env:A_KEY',
          streams: 'assignment,assignment_note',
          contract: 'off',
          related: 'true',
          ...more,
        },
      },
    })
    expect(await run(['sources', 'apply'])).toMatchObject({ code: 0 })
  }
  const change = async (body: object) => {
    const path = join(folder, 'body.json')
    writeFileSync(path, JSON.stringify(body))
    return await ofAcme('api', 'PUT', '/api/Assignment', '--body', path, '--merge')
  }

  beforeAll(async () => {
    simulator = await startSimulator({ look: 'recorded', assignments: 5, notes: 3 })
    await apply()
    expect(await ofAcme('sync')).toMatchObject({ code: 0 })
  })
  afterAll(() => simulator.close())

  it('reads related records', async () => {
    for (const words of [[], ['acme.assignment']])
      expect(await ofAcme('sync', ...words, '--kind', 'related')).toMatchObject({ code: 0 })
    expect(
      await query(`select count(*)::int as read from tidemark.related_fetch where source = 'acme'`),
    ).toEqual([{ read: 5 }])
    expect(await ofAcme('sync', 'acme.assignment_note', '--kind', 'related')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('`tidemark sync acme.assignment --kind related`'),
    })
  })

  it('tries the read of an assignment with its related records', async () => {
    expect((await ofAcme('probe')).stdout).toMatch(/extended read .*answers for assignment/)
  })

  it('has what a write changed read again', async () => {
    const asked = expect.stringMatching(
      /"stream":"acme\.assignment","msg":"the worker was asked to read what changed"/,
    )
    const { code, stderr } = await change({ assignmentId: 3, city: 'Bergen' })
    expect([code, stderr]).toEqual([0, asked])
    await query(`update tidemark.related_fetch set retry_at = null`)
    const attach = ['api', 'POST', '/api/Assignment/Id/3/attachment', '--form', 'FileData=QQ==']
    expect((await ofAcme(...attach)).stderr).toEqual(asked)
    expect(
      await query('select assignment_id::int as id from tidemark.related_fetch where retry_at is not null'),
    ).toEqual([{ id: 3 }])
  })

  it('writes no masked value back', async () => {
    const dictionary = join(folder, 'dictionary.yaml')
    writeFileSync(dictionary, 'assignment: { fields: { zipCode: { mask: first 2 } } }')
    await apply({ dictionary })
    expect(await change({ assignmentId: 3, city: 'Oslo' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--merge would write the record back'),
    })
    expect(simulator.source.record('assignment', 3)).toMatchObject({ city: 'Bergen' })
  })
})
