// A worker keeps its sources as the file of sources says: what takes long with one of them holds up nothing else, and what is gone stays gone
// (P19).

import { appendFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { readSourcesFile } from '../../src/config/sources-file.ts'
import { applySources, noteStopped, readAppliedSources } from '../../src/store/book/source-config.ts'
import { dropSource } from '../../src/store/schema/drop-source.ts'
import { SourceGone } from '../../src/util/errors.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { fileOfSources, keepTestSources, settingsOf } from '../support/kept-sources.ts'

describe.skipIf(!hasPostgres)('the sources of a worker', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const notices = async () =>
    (await query(`select key from tidemark.notice where not starts_with(key, 'seen_') order by 1`)).map(
      ({ key }) => key,
    )
  const goneNow = async () =>
    (await readAppliedSources(database.pool)).flatMap(({ name, goneAt }) => (goneAt ? name : []))

  it('come and go by the file while one of them takes long to open', async () => {
    const file = fileOfSources({ sources: { slow: settingsOf(1), other: settingsOf(2) } })
    const slow = Promise.withResolvers<void>()
    const asked: string[] = []
    await using worker = keepTestSources({
      ...{ database, file: file.path },
      async open(source) {
        asked.push(source)
        if (source === 'slow') await slow.promise
      },
    })
    await expect.poll(() => asked).toContain('slow')
    // Others may have opened it already.
    expect(await worker.sources.absent()).toContain('slow')
    file.write({ sources: { slow: settingsOf(1), third: settingsOf(3) } })
    await expect.poll(goneNow, { timeout: 5_000 }).toEqual(['other'])
    await expect.poll(() => worker.sources.isNamed('other')).toBe(false)
    slow.resolve()
    await expect.poll(() => worker.opened).toEqual(expect.arrayContaining(['slow', 'third']))
    await expect.poll(worker.sources.absent).toEqual([])
    // The list from before is not worked off.
    const afterSlow = asked.slice(asked.indexOf('slow') + 1)
    expect(afterSlow).toEqual(['third'])
  })

  it('are left alone, without a word, when they are gone by the time they are opened', async () => {
    const file = fileOfSources({ sources: { acme: settingsOf(1) } })
    let tries = 0
    await using worker = keepTestSources({
      ...{ database, file: file.path },
      async open() {
        tries++
        throw new SourceGone('acme')
      },
    })
    await expect.poll(() => tries).toBeGreaterThan(0)
    expect(await notices()).toEqual([])
    expect(worker.logged.join('')).not.toContain('is not read')
  })

  it('have no problem noted once they are gone', async () => {
    const apply = (names: readonly string[]) =>
      applySources(
        database.pool,
        { generation: 0, sources: new Map(names.map((name) => [name, { settings: {}, tags: [] }])) },
        { by: 'a test' },
      )
    const stop = (source: string) =>
      noteStopped(database.pool, source, { worker: 'one', host: 'here', why: 'a reason', since: new Date() })
    await apply(['acme', 'other'])
    await stop('acme')
    expect(await notices()).toEqual(['source_stopped:acme'])
    await apply(['other'])
    await stop('acme')
    await stop('nobody')
    expect(await notices()).toEqual([])
  })

  it('are opened again after one was dropped and added again between two looks', async () => {
    const file = fileOfSources({ sources: { acme: settingsOf(1) } })
    await using worker = keepTestSources({ database, file: file.path })
    await expect.poll(() => worker.opened).toEqual(['acme'])
    const same = readSourcesFile(file.path, { A_KEY: 'a-key-of-the-tests' })
    await applySources(database.pool, { generation: 0, sources: new Map() }, { by: 'a test' })
    await dropSource(database.pool, 'acme')
    await applySources(database.pool, same, { by: 'a test' })
    await expect.poll(() => worker.opened).toEqual(['acme', 'acme'])
    // Another tag opens nothing.
    await applySources(
      database.pool,
      {
        ...same,
        sources: new Map([...same.sources].map(([name, one]) => [name, { ...one, tags: ['another'] }])),
      },
      { by: 'a test' },
    )
    await wait(3_000)
    expect(worker.opened).toEqual(['acme', 'acme'])
  })

  it('have in the log once why one is not read, and again when that is another reason', async () => {
    const file = fileOfSources({ sources: { acme: settingsOf(1) } })
    let [reason, tries] = ['the first reason', 0]
    await using worker = keepTestSources({
      ...{ database, file: file.path },
      async open() {
        tries++
        throw new Error(reason)
      },
    })
    const reasons = () =>
      worker.logged.flatMap((line) => (line.includes('is not read') ? JSON.parse(line).why : []))
    /** It is tried at once when its settings change. */
    const tryAgain = async () => {
      const before = tries
      file.write({ sources: { acme: settingsOf(1, { page_size: String(100 + tries) }) } })
      await expect.poll(() => tries).toBe(before + 1)
    }
    await expect.poll(reasons).toEqual(['the first reason'])
    await tryAgain()
    reason = 'another reason'
    await tryAgain()
    await expect.poll(reasons).toEqual(['the first reason', 'another reason'])
  })

  it('are in views as the newest file says, also while a worker has an older one', async () => {
    const sources = { acme: settingsOf(1) }
    const fileOf = (generation: number, group: string) =>
      fileOfSources({ generation, sources, unions: { [group]: { sources: ['acme'] } } })
    const groups = () => query(`select nspname, oid from pg_namespace where starts_with(nspname, 'fleet_')`)
    await using _ = keepTestSources({ database, file: fileOf(2, 'newer').path })
    await expect.poll(groups).toMatchObject([{ nspname: 'fleet_newer' }])
    const before = await groups()
    const file = fileOf(1, 'older')
    await using worker = keepTestSources({ database, file: file.path })
    await expect.poll(() => worker.opened).toEqual(['acme'])
    await wait(4_000)
    expect(await groups()).toEqual(before)
  })

  it('stay while their file is being written, and a changed file holds within five seconds', async () => {
    const [one, two] = [{ acme: settingsOf(1) }, { other: settingsOf(2) }]
    const file = fileOfSources({ sources: { ...one, ...two } })
    await using worker = keepTestSources({ database, file: file.path })
    await expect.poll(() => worker.opened.toSorted()).toEqual(['acme', 'other'])
    file.write({ sources: one })
    const writing = setInterval(() => appendFileSync(file.path, '\n# more of it is to come'), 50)
    await wait(5_000)
    clearInterval(writing)
    file.write({ sources: { ...one, ...two } })
    await wait(5_000)
    expect(await query('select distinct revision::int from tidemark.source_config')).toEqual([
      { revision: 1 },
    ])
    file.write({ sources: one })
    await expect.poll(goneNow, { timeout: 5_000 }).toEqual(['other'])
  })
})
