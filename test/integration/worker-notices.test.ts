// A problem that one worker has and another one may not have: it is told for as long as any of them has it, and no longer (P18).

import { describe, expect, it } from 'vitest'
import { noteProblem } from '../../src/store/book/problems.ts'
import { applySources } from '../../src/store/book/source-config.ts'
import { endNotices, forgetOfWorker, keepNotices, noteOfWorker } from '../../src/store/book/worker-notices.ts'
import { dropSource } from '../../src/store/schema/drop-source.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { fileOfSources, keepTestSources, settingsOf } from '../support/kept-sources.ts'

describe.skipIf(!hasPostgres)('a problem that workers have by themselves', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const told = async () =>
    (await query(`select key from tidemark.notice where not starts_with(key, 'seen_') order by 1`)).map(
      ({ key }) => key,
    )
  const key = 'sources_file'
  const note = (worker: string) => noteOfWorker(database.pool, { worker, key, what: 'a reason' })
  const forget = (worker: string) => forgetOfWorker(database.pool, { worker, key })
  /** As if that much time had passed. */
  const pass = (time: string) => query(`update tidemark.notice set since = since - interval '${time}'`)

  it('lasts until the last one has it no more', async () => {
    await note('one')
    await note('two')
    await forget('one')
    expect(await told()).toEqual([key])
    await forget('two')
    expect(await query('select key from tidemark.notice')).toEqual([])
  })

  it('lasts while a worker says so, and ends soon after the last one that had it is gone', async () => {
    await note('killed')
    await note('lasting')
    await pass('2 minutes')
    await keepNotices(database.pool, 'lasting')
    await pass('2 minutes')
    await keepNotices(database.pool, 'another')
    expect(await query('select key from tidemark.notice order by 1')).toEqual([
      { key: `seen_${key}:lasting` },
      { key },
    ])
    await pass('4 minutes')
    await keepNotices(database.pool, 'another')
    expect(await told()).toEqual([])
  })

  it('keeps its beginning when the only worker that has it is started again', async () => {
    await note('before')
    await pass('1 hour')
    const [{ since }] = await query(`select since from tidemark.notice where key = '${key}'`)
    await endNotices(database.pool, 'before')
    await note('after')
    await keepNotices(database.pool, 'after')
    expect(await query(`select since from tidemark.notice where key = '${key}'`)).toEqual([{ since }])
  })

  it('is that of the worker that lacks a secret, while another one reads the source', async () => {
    const file = fileOfSources({ sources: { acme: settingsOf(1) } })
    const lacking = keepTestSources({ database, file: file.path, environment: {} })
    await expect.poll(told).toEqual(['source_stopped:acme'])
    await using reading = keepTestSources({ database, file: file.path })
    await expect.poll(() => reading.opened).toEqual(['acme'])
    expect(await told()).toEqual(['source_stopped:acme'])
    await lacking[Symbol.asyncDispose]()
    await expect.poll(() => query(`select from tidemark.notice where starts_with(key, 'seen_')`)).toEqual([])
    await keepNotices(database.pool, 'any')
    expect(await told()).toEqual([])
  })

  it('is that of the worker whose file has mistakes, while another one starts with a good file', async () => {
    const bad = fileOfSources({ sources: { acme: { no_setting: '1' } } })
    const good = fileOfSources({ sources: { acme: settingsOf(1) } })
    await using _ = keepTestSources({ database, file: bad.path })
    await expect.poll(told).toEqual(['sources_file'])
    await using reading = keepTestSources({ database, file: good.path })
    await expect.poll(() => reading.opened).toEqual(['acme'])
    expect(await told()).toEqual(['sources_file'])
    bad.write({ sources: { acme: settingsOf(1) } })
    await expect.poll(told).toEqual([])
  })

  it('goes with its source, of whatever kind it is, and that of another source or of none stays', async () => {
    const apply = (names: readonly string[]) =>
      applySources(
        database.pool,
        { generation: 0, sources: new Map(names.map((name) => [name, { settings: {}, tags: [] }])) },
        { by: 'a test' },
      )
    const kept = [
      'dictionary',
      'dictionary:acmes',
      'private_fields:assignment',
      'related_off:acmes.assignment',
    ]
    const going = ['dictionary:acme', 'webhooks:acme.subscription', 'related_off:acme.assignment']
    const noteAll = async () => {
      await noteOfWorker(database.pool, { worker: 'one', key: 'source_stopped:acme', what: 'a reason' })
      for (const one of [...kept, ...going]) await noteProblem(database.pool, { key: one, what: 'a reason' })
    }
    const all = async () => (await query('select key from tidemark.notice')).map((one) => one.key).toSorted()
    await apply(['acme', 'acmes'])
    await noteAll()
    await apply(['acmes'])
    expect(await all()).toEqual(kept)
    await noteAll()
    await keepNotices(database.pool, 'one')
    expect(await all()).toEqual(kept)
    await noteAll()
    await dropSource(database.pool, 'acme')
    expect(await all()).toEqual(kept)
  })
})
