// A worker that reads several sources: each into tables of its own, by the file of sources as it is at the moment. What is wrong with one
// stops that one alone (P19).

import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { webhookSecretOf } from '../../src/config/load.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { readAppliedSources } from '../../src/store/book/source-config.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'
import { startTestWorker, webhookSecret } from '../support/worker.ts'

async function startSilentServer() {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const guid = (digit: number) => `00000000-0000-4000-8000-00000000000${digit}`

describe.skipIf(!hasPostgres)('a worker with a file of sources', () => {
  const database = createTestDatabase()
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const countIn = async (schema: string): Promise<number | null> =>
    (await query(`select to_regclass('${schema}.assignment') is not null as "isThere"`))[0].isThere
      ? (await query(`select count(*)::int as rows from ${schema}.assignment`))[0].rows
      : null
  const clientOf = (simulator: Simulator) => ({
    assignment_base_url: simulator.assignmentUrl,
    auth_url: simulator.authUrl,
    client_guid: simulator.credentials.clientGuid,
    subject_id: simulator.credentials.subjectId,
    streams: 'assignment,assignment_note',
    contract: 'off',
  })

  it('reads all, takes up changes of the file, and stops only what is wrong (P19)', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    await using acme = await startSimulator({
      seed: 2,
      assignments: 30,
      credentials: { clientGuid: guid(1) },
    })
    await using other = await startSimulator({
      seed: 3,
      assignments: 40,
      credentials: { clientGuid: guid(2) },
    })
    for (const one of [simulator, acme, other]) one.requests.start()
    const file = join(mkdtempSync(join(tmpdir(), 'tidemark-sources-')), 'sources.yaml')
    const write = (sources: object, defaults: object = {}) =>
      writeFileSync(file, JSON.stringify({ defaults, sources }))
    const acmeSettings = { ...clientOf(acme), api_key: 'env:ACME_KEY', schedule_assignment: '1s' }
    const otherSettings = {
      ...clientOf(other),
      api_key: 'env:OTHER_KEY',
      schedule_assignment: '1h',
      page_size: '500',
    }
    write({
      acme: acmeSettings,
      lacking: { ...otherSettings, client_guid: guid(3), api_key: 'env:NOT_HERE' },
    })
    const variables = {
      SOURCES_FILE: file,
      STREAMS: 'assignment',
      SCHEDULE_ASSIGNMENT: '1s',
      PUBLIC_URL: 'http://127.0.0.1:9',
      ACME_KEY: acme.credentials.apiKey,
      OTHER_KEY: other.credentials.apiKey,
    }
    const worker = await startTestWorker(simulator, database, variables)
    const notices = async () =>
      Object.fromEntries(
        (await query('select key, what from tidemark.notice')).map(({ key, what }) => [key, what]),
      )
    const soon = { timeout: 60_000, interval: 200 }
    try {
      await expect.poll(() => countIn('bi'), soon).toBe(20)
      await expect.poll(() => countIn('acme'), soon).toBe(30)
      await expect.poll(notices, soon).toMatchObject({
        'source_stopped:lacking': expect.stringContaining('API_KEY is not set'),
      })

      // What is said of everything is about all sources, with what is known of those of others (P18).
      const environment = environmentFor(simulator, database, variables)
      const cli = async (...words: readonly string[]) => await runTidemark(words, environment as never)
      const whole = await cli('status', '--json', '--check')
      const said = JSON.parse(whole.stdout)
      expect([whole.code, said.error ?? said.verdict]).toEqual([1, expect.stringContaining('need')])
      expect(said.sources[0]).toMatchObject({
        name: 'lacking',
        state: 'stopped',
        problem: expect.any(String),
      })
      const ofOne = await cli('status', '--source', 'acme', '--json', '--check')
      expect([ofOne.code, JSON.parse(ofOne.stdout).sources]).toEqual([0, []])
      // What is not there yet would be read all the same later.
      const early = await cli('sources', 'pause', 'lacking')
      expect([early.code, early.stderr]).toEqual([2, expect.stringContaining('Nothing was paused')])

      // Pages and actions know its streams by their names.
      const page = await worker.get('/streams/acme.assignment')
      expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('acme.assignment')])
      // Its settings are its own: changed for it alone, over what the file says, also after the file changed.
      const settingsOf = async (source: string, name: string) => {
        const answer = await worker.get(`/api/v1/settings?source=${source}`)
        const { settings, detail } = JSON.parse(await answer.text())
        return detail ?? settings.find((one: { name: string }) => one.name === name)
      }
      const shownIn = async (path: string) => await (await worker.get(path)).text()
      const sizes = { first: new Set<number>(), acme: new Set<number>() }
      for (const [name, { onRequest }] of [['first', simulator] as const, ['acme', acme] as const])
        onRequest(({ path, query: { PageSize: size } }) => {
          if (path.includes('Assignment/neworchanged')) sizes[name].add(Number(size))
        })
      const changed = await cli('config', 'set', 'PAGE_SIZE', 'acme.assignment=7', '--reason', 'a test')
      expect([changed.code, changed.stdout]).toEqual([
        0,
        expect.stringContaining(
          'acme.PAGE_SIZE_ASSIGNMENT is now 7 (override); before: as PAGE_SIZE says (default).',
        ),
      ])
      acme.source.change('assignment', 5)
      await expect.poll(() => [...sizes.acme], { ...soon, timeout: 15_000 }).toContain(7)
      expect([...sizes.first]).not.toContain(7)
      expect(await settingsOf('acme', 'PAGE_SIZE_ASSIGNMENT')).toMatchObject({
        ...{ value: '7', source: 'override', stream: 'acme.assignment', default: 'as PAGE_SIZE says' },
      })
      expect(await settingsOf('environment', 'PAGE_SIZE_ASSIGNMENT')).toMatchObject({ source: 'default' })
      expect(await settingsOf('nobody', 'PAGE_SIZE_ASSIGNMENT')).toContain('There is no source nobody.')
      expect(await shownIn('/streams/acme.assignment/settings')).toContain('<b><bdi>7</bdi></b>')
      expect(await shownIn('/streams/assignment/settings')).not.toContain('<bdi>7</bdi>')
      expect(await shownIn('/settings?source=acme')).toContain('Changed while workers run')
      expect(await shownIn('/settings')).not.toContain('Changed while workers run')
      const { rows: noted } = await database.pool.query(
        `select concat_ws(' ', door, action, target, stream, result, reason) as what from tidemark.action where action = 'setSetting'`,
      )
      expect(noted.map(({ what }) => what)).toEqual([
        'terminal setSetting acme.PAGE_SIZE_ASSIGNMENT acme.assignment done a test',
      ])
      expect(
        (
          await worker.post('/streams/acme.assignment/pause', {
            authorization: `Bearer ${'an-admin-token-of-the-tests'}`,
          })
        ).status,
      ).toBe(200)
      expect(await query(`select name from tidemark.stream where paused_at is not null`)).toEqual([
        { name: 'acme.assignment' },
      ])
      await worker.post('/streams/acme.assignment/resume', {
        authorization: `Bearer ${'an-admin-token-of-the-tests'}`,
      })

      // A broken file changes nothing; a new source comes, one that is gone is paused, all without a restart.
      writeFileSync(file, 'sources:\n  acme: { client_giud: 1 }')
      await expect
        .poll(notices, soon)
        .toMatchObject({ sources_file: expect.stringContaining('client_guid?') })
      acme.source.insert('assignment')
      await expect.poll(() => countIn('acme'), soon).toBe(31)
      write({ acme: { ...acmeSettings, page_size_assignment: '11' }, other: otherSettings })
      await expect.poll(() => countIn('other'), soon).toBe(40)
      await expect.poll(notices, soon).toEqual({})
      expect(await settingsOf('acme', 'PAGE_SIZE_ASSIGNMENT')).toMatchObject({
        ...{ value: '7', instead_of: [{ value: '11', source: 'SOURCES_FILE' }, { source: 'default' }] },
      })
      // Of a change of what holds by default, only sources with settings that differ by it are opened again.
      const openings = () =>
        worker
          .logged()
          .flatMap((line) => (line.includes('A source is read from now on') ? [JSON.parse(line).source] : []))
      const before = openings()
      write(
        { acme: { ...acmeSettings, page_size_assignment: '11' }, other: { ...otherSettings, tags: ['one'] } },
        { page_size: '900' },
      )
      await expect.poll(() => openings().length, soon).toBeGreaterThan(before.length)
      write(
        {
          acme: { ...acmeSettings, page_size_assignment: '11', stale_after: '20m' },
          other: { ...otherSettings, tags: ['two'] },
        },
        { page_size: '900' },
      )
      await expect
        .poll(
          async () => (await readAppliedSources(database.pool)).find(({ name }) => name === 'other')?.tags,
          soon,
        )
        .toEqual(['two'])
      await expect.poll(() => shownIn('/streams/acme.assignment'), soon).toContain('a problem after 20 m')
      expect(await shownIn('/streams/assignment')).toContain('a problem after 15 m')
      expect(openings().slice(before.length)).not.toContain('other')
      expect((await cli('sources', 'export')).stdout).toContain('# acme: PAGE_SIZE_ASSIGNMENT=7\n')
      const inFleet = async () =>
        (await query('select source, count(*)::int as rows from fleet.assignment group by 1 order by 1')).map(
          ({ source, rows }) => [source, rows],
        )
      await expect.poll(inFleet, soon).toEqual([
        ['acme', 31],
        ['environment', 20],
        ['other', 40],
      ])
      // Each has webhooks at an address of its own, with its own secret, which starts a reading of it alone.
      const hooksAt = (upstream: Simulator) => [
        ...new Set(
          upstream.requests.entries
            .filter(({ method, path }) => method === 'POST' && path.endsWith('/subscription'))
            .map(({ body }) => /http[^"]*/.exec(body)?.[0]),
        ),
      ]
      const subscriptions = (upstream: Simulator) => upstream.source.count('webhook_subscription')
      await expect
        .poll(() => [simulator, acme, other].map(hooksAt), soon)
        .toEqual([
          [`http://127.0.0.1:9/hooks/${webhookSecret}`],
          [`http://127.0.0.1:9/hooks/acme/${webhookSecretOf(webhookSecret, 'acme')}`],
          [`http://127.0.0.1:9/hooks/other/${webhookSecretOf(webhookSecret, 'other')}`],
        ])
      other.source.insert('assignment')
      const deliver = async (path: string) => (await worker.post(`/hooks/${path}`)).status
      expect(await deliver(`other/${webhookSecretOf(webhookSecret, 'acme')}`)).toBe(404)
      expect(await deliver(`other/${webhookSecretOf(webhookSecret, 'other')}`)).toBe(202)
      await expect.poll(() => countIn('other'), soon).toBe(41)

      write({ other: otherSettings })
      await expect.poll(() => subscriptions(acme), soon).toBe(0)
      expect(subscriptions(other)).toBeGreaterThan(0)
      await expect
        .poll(
          async () => (await readAppliedSources(database.pool)).find(({ name }) => name === 'acme')?.goneAt,
          soon,
        )
        .toBeInstanceOf(Date)
      expect(await countIn('acme')).toBe(31)
      expect(
        await query(`select distinct pause_reason as why from tidemark.stream where name like 'acme.%'`),
      ).toEqual([{ why: 'The file of sources does not name it any more.' }])
      expect(worker.logged().join('\n')).not.toContain(acme.credentials.apiKey)
      const paused = 'Streams of the source acme are paused, all others are up to date'
      const headline = async () =>
        /<span role="status">(.*?)<\/span>/.exec(await (await worker.get('/')).text())?.[1]
      await expect.poll(headline, soon).toBe(paused)
      expect(JSON.parse((await cli('status', '--json')).stdout).verdict).toBe(paused)

      const overview = await (await worker.get('/sources?state=live')).text()
      expect(overview).toContain('<a href="/sources/other">')
      expect(overview).not.toContain('acme')
      const ofOther = await (await worker.get('/sources/other')).text()
      expect(ofOther).toContain('<a href="/streams/other.assignment">')
      expect(ofOther).not.toContain('acme')

      // The rows of another client do not come into its tables; the others are read on.
      write({ other: { ...otherSettings, client_guid: guid(4) } })
      await expect
        .poll(notices, soon)
        .toMatchObject({ 'source_stopped:other': expect.stringContaining(guid(4)) })
      simulator.source.insert('assignment')
      await expect.poll(() => countIn('bi'), soon).toBe(21)
      write({ other: otherSettings })
      await expect.poll(notices, soon).toEqual({})

      const listed = await cli('sources', 'list', '--json')
      expect(
        JSON.parse(listed.stdout).map(({ name, is_gone }: { name: string; is_gone: boolean }) => [
          name,
          is_gone,
        ]),
      ).toEqual(
        expect.arrayContaining([
          ['', false],
          ['acme', true],
          ['other', false],
        ]),
      )
      expect((await cli('sources', 'drop', 'other', '--confirm', 'other')).code).toBe(2)
      const dropped = await cli('sources', 'drop', 'acme', '--confirm', 'acme')
      expect([dropped.code, dropped.stderr]).toEqual([0, ''])
      expect(await query(`select nspname from pg_namespace where nspname like 'acme%'`)).toEqual([])
      expect(await query(`select name from tidemark.stream where name like 'acme.%'`)).toEqual([])
      expect(await query('select name from tidemark.setting_override')).toEqual([])
      expect(await countIn('other')).toBe(41)
      expect(await countIn('bi')).toBe(21)
      expect((await inFleet()).map(([source]) => source)).toEqual(['environment', 'other'])
    } finally {
      await worker.stop()
    }
  })

  it('lets a source that hangs, is refused or lacks a secret change nothing of what is said of others (P18, P19)', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    await using well = await startSimulator({
      seed: 2,
      assignments: 30,
      credentials: { clientGuid: guid(5) },
    })
    await using hanging = await startSilentServer()
    const file = join(mkdtempSync(join(tmpdir(), 'tidemark-sources-')), 'sources.yaml')
    const write = (sources: object, defaults: object = {}) =>
      writeFileSync(file, JSON.stringify({ defaults, sources }))
    const settings = { ...clientOf(well), api_key: 'env:WELL_KEY', schedule_assignment: '1s' }
    const { contract: _, ...described } = settings
    const hang = {
      ...described,
      assignment_base_url: `${hanging.url}/assignment`,
      auth_url: `${hanging.url}/auth`,
      client_guid: guid(6),
    }
    const refused = { ...settings, api_key: 'env:WRONG_KEY', client_guid: guid(7) }
    write({ a_hang: hang, a_second: { ...hang, client_guid: guid(8) }, refused, well: settings })
    const worker = await startTestWorker(simulator, database, {
      SOURCES_FILE: file,
      STREAMS: 'assignment',
      SCHEDULE_ASSIGNMENT: '1h',
      WELL_KEY: well.credentials.apiKey,
      WRONG_KEY: 'a key that nobody has, of some length',
    })
    const soon = { timeout: 60_000, interval: 200 }
    const freshness = async (of: string) =>
      (await query(`select state, reason from tidemark.freshness where stream = '${of}.assignment'`))[0]
    try {
      // Each hanging upstream is waited for some fifteen seconds.
      await expect.poll(() => countIn('well'), { ...soon, timeout: 12_000 }).toBe(30)
      const problems = async () =>
        (await query('select key from tidemark.problem_history where ended_at is null')).map(({ key }) => key)
      await expect.poll(problems, soon).toContain('token_refused:refused.assignment')
      expect(await problems()).not.toContain('token_refused:assignment')
      expect(await freshness('well')).toEqual({ state: 'live', reason: null })
      expect(await query(`select state from tidemark.freshness where stream = 'assignment'`)).toEqual([
        { state: 'live' },
      ])

      write({ well: { ...settings, api_key: 'env:NOT_HERE' } })
      await expect
        .poll(() => freshness('well'), soon)
        .toEqual({ state: 'stopped', reason: expect.stringContaining('API_KEY is not set') })
      write({ well: settings })
      await expect.poll(() => freshness('well'), soon).toEqual({ state: 'live', reason: null })
    } finally {
      await worker.stop()
    }
  })
})
