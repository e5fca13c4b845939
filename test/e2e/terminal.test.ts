// The real program on a terminal: what it shows while it works, and what it asks.

import { randomUUID } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv, stripVTControlCharacters } from 'node:util'
import { describe, expect, inject, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { isForChanges } from '../support/asked.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { hasTerminal, onTerminal } from '../support/terminal.ts'
import { runHere } from '../support/verbs.ts'

describe.skipIf(!hasPostgres || !hasTerminal)('on a terminal', () => {
  const database = createTestDatabase()

  it('a sync shows how far it is while it reads, and the status goes on until q', async () => {
    await using simulator = await startSimulator({ assignments: 3_000 })
    const gate = Promise.withResolvers<void>()
    let asked = 0
    simulator.onRequest((request) => (isForChanges(request) && ++asked > 14 ? gate.promise : undefined))
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '100', STREAMS: 'assignment' })
    const sync = onTerminal(['sync', 'assignment'], 60, environment)
    await expect.poll(sync.shown).toMatch(/assignment +first load .*━*╌+ .*\d %/)
    await expect.poll(sync.shown).toMatch(/\d+ of about 3,000/)

    const watch = onTerminal(['status', '--watch'], 60, { ...environment, NO_COLOR: '1' })
    await expect.poll(watch.shown).toMatch(/◐ assignment +first load \d+ %/)
    gate.resolve()
    expect(await sync.ended).toBe(0)
    expect(sync.shown()).toContain('assignment: done, 3,000 new')
    await expect.poll(watch.shown).toMatch(/● assignment +up to date/)
    watch.type('q')
    expect(await watch.ended).toBe(0)
    expect(watch.shown().endsWith('\x1b[?25h\x1b[?1049l')).toBe(true)
    // Every line of every frame fits.
    const lines = stripVTControlCharacters(watch.shown().replaceAll('\x1b[H', '\r\n')).split(/\r+\n/)
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(60)
  })

  it('Ctrl-C ends the status as well, and leaves the terminal as it was', async () => {
    const watch = onTerminal(['status', '--watch'], 100, { DATABASE_URL: database.url })
    await expect.poll(watch.shown).toContain('q ends')
    watch.type('\x03')
    expect(await watch.ended).toBe(0)
    expect(watch.shown().endsWith('\x1b[?25h\x1b[?1049l')).toBe(true)
  })
})

describe.skipIf(!hasTerminal)('a demo on a terminal', () => {
  it('ends clean at Ctrl-C, and asks the next time whether to go on with it', {
    timeout: 120_000,
  }, async () => {
    const directory = mkdtempSync(join(inject('scratch'), 'demo-'))
    const words = ['demo', '--port', '0', '--churn', '0']
    const first = onTerminal([...words, '--assignments', '300'], 100, {}, directory)
    await expect.poll(first.shown, { timeout: 60_000 }).toMatch(/assignment [^\n]+\b300\b/)
    first.type('\x03')
    expect([await first.ended, first.shown().includes('The demo has ended')]).toEqual([0, true])
    const asked = onTerminal(words, 100, {}, directory)
    await expect.poll(asked.shown).toMatch(/A demo with 300 work orders ended here[\s\S]+Continue it\?/)
    asked.type('\x03')
    expect(await asked.ended).toBe(130)
    const again = onTerminal(words, 100, {}, directory)
    await expect.poll(again.shown).toContain('Continue it?')
    again.type('\r')
    await expect.poll(again.shown).toMatch(/assignment [^\n]+up to date[^\n]+\b300\b/)
    again.type('\x03')
    expect(await again.ended).toBe(0)
  })
})

describe.skipIf(!hasPostgres)('the status for programs', () => {
  const database = createTestDatabase()

  it('ends with 1 when something needs somebody, and watches nowhere but on a terminal', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const environment = environmentFor(simulator, database, { STREAMS: 'assignment' })
    await runHere(['sync'], environment)
    await database.pool.query(
      `insert into tidemark.progress (stream, reading, run_id, began_at, updated_at)
       values ('tracker_object', 'first load', 1, now(), now())`,
    )
    const checked = await runHere(['status', '--check'], environment)
    expect(checked).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Everything is up to date/) })
    // Vehicles are not copied by these settings.
    expect(checked.stdout).not.toContain('tracker_object')
    // Nobody reads it since a worker was killed: no stream need be late yet for somebody to start one.
    await database.pool.query(
      `insert into tidemark.worker (id, host, pid, version, started_at, seen_at, runs, waits)
       values ('killed', 'here', 1, '1', now() - interval '1 hour', now() - interval '5 minutes', '[]', '[]');
       update tidemark.stream set last_success_at = now() - interval '5 minutes'`,
    )
    expect(await runHere(['status', '--check'], environment)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /^No worker is running.*\nNo worker has run for 5 min( \d+ s)?, so nothing is read\. Start one: tidemark serve/,
      ),
    })
    // A schedule of one's own reads it, without a worker.
    await runHere(['sync'], environment)
    expect(await runHere(['status', '--check'], environment)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /No worker has run for 5 min( \d+ s)?\. Rows come only from tidemark sync\./,
      ),
    })
    await database.pool.query(
      `update tidemark.stream set blocked_deletions = '{"missing": 3, "living": 20}' where name = 'assignment'`,
    )
    const { code, stdout } = await runHere(['status', '--check', '--json'], environment)
    expect({ code, verdict: JSON.parse(stdout).verdict }).toEqual({ code: 1, verdict: 'One thing needs you' })
    expect((await runHere(['status'], environment)).code).toBe(0)
    expect(await runHere(['status', '--watch'], environment)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('needs a terminal'),
    })
  })
})

describe.skipIf(!hasTerminal)('tidemark init', () => {
  it('asks until it works, shows no key, and writes .env for one user alone', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const { credentials } = simulator
    const directory = mkdtempSync(join(inject('scratch'), 'init-'))
    const file = join(directory, '.env')
    writeFileSync(file, '# mine\nLOG_LEVEL=warn\nAPI_KEY=an-old-key-of-the-tests\n')
    chmodSync(file, 0o644)
    const init = onTerminal(['init'], 400, {}, directory)
    const shown = () => stripVTControlCharacters(init.shown())
    let answered = 0
    const answer = async (question: string | RegExp, text: string) => {
      const isAsked = () => {
        const asked = shown().slice(answered).trimEnd()
        return typeof question === 'string' ? asked.endsWith(question) : question.test(asked)
      }
      await expect.poll(isAsked).toBe(true)
      answered = shown().length
      init.type(`${text}\r`)
    }
    await answer('Assignment service URL', 'not a url')
    await expect.poll(shown).toMatch(/✗ Assignment service URL: .+/)
    await answer('Assignment service URL   (not a url)', `${simulator.assignmentUrl}/api/Assignment`)
    await expect.poll(shown).toContain('nothing is there (404). The service answers below')
    // Enter takes what was suggested.
    await answer(`(${simulator.assignmentUrl})`, '')
    await expect.poll(shown).toContain('✓ path /assignment/api/Assignment: answers 401')
    await answer('Identity provider URL', simulator.authUrl)
    await answer('Client GUID', credentials.clientGuid)
    await answer('Subject ID', credentials.subjectId)
    await answer('API key                  (as it is)', 'a-wrong-key-of-the-tests')
    await expect.poll(shown).toMatch(/✗ sign-in assignment: .*SUBJECT_ID/)
    await answer(`Client GUID              (${credentials.clientGuid})`, '')
    await answer(`Subject ID               (${credentials.subjectId})`, '')
    await answer('API key                  (as it is)', credentials.apiKey)
    await expect.poll(shown).toContain('✓ stream assignment: readable')
    await answer('Tracking service URL (empty: none)', '')
    await answer('Time zone of its times (empty: UTC)', 'Europe/Oslo')
    await answer('Postgres URL (empty: Tidemark starts one)', '<')
    await answer('Time zone of its times (-: UTC) (Europe/Oslo)', '-')
    await answer('Postgres URL (empty: Tidemark starts one)', '')
    await answer('Token of admins, or new (empty: only tokens of single people)', 'new')
    await answer('Chat webhook for alerts (empty: no alerts)', '')
    await answer('a number changes that answer)', '3')
    await answer(`Client GUID              (${credentials.clientGuid})`, randomUUID())
    await answer(`Subject ID               (${credentials.subjectId})`, '')
    await answer('API key                  (as it is)', '')
    // A wrong GUID shows empty lists, so somebody has to say whether that is right.
    await answer('(yes, or Enter to change the answers)', '')
    await answer(/Client GUID +\(.{36}\)$/, credentials.clientGuid)
    await answer(`Subject ID               (${credentials.subjectId})`, '')
    await answer('API key                  (as it is)', '')
    await answer('a number changes that answer)', '')
    expect(await init.ended).toBe(0)
    expect(shown()).toMatch(/wrote \.env, readable by you alone; (\d+) of \1 checks passed\s+Next: npm start/)
    for (const key of [credentials.apiKey, 'a-wrong-key-of-the-tests', 'an-old-key-of-the-tests'])
      expect(init.shown()).not.toContain(key)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readFileSync(file, 'utf8')).toMatch(/^# mine\nLOG_LEVEL=warn\n/)
    const written = parseEnv(readFileSync(file, 'utf8'))
    expect(init.shown()).not.toContain(written.ALERT_SECRETS_KEY)
    expect(init.shown()).not.toContain(written.ADMIN_TOKEN)
    expect(written).toEqual({
      ADMIN_TOKEN: expect.stringMatching(/^[\w-]{32}$/),
      ALERT_SECRETS_KEY: expect.stringMatching(/^[0-9a-f]{64}$/),
      LOG_LEVEL: 'warn',
      ASSIGNMENT_BASE_URL: simulator.assignmentUrl,
      AUTH_URL: simulator.authUrl,
      CLIENT_GUID: credentials.clientGuid,
      SUBJECT_ID: credentials.subjectId,
      API_KEY: credentials.apiKey,
    })
  })

  it('writes nothing when it is interrupted', async () => {
    const directory = mkdtempSync(join(inject('scratch'), 'init-'))
    const init = onTerminal(['init'], 100, {}, directory)
    await expect.poll(init.shown).toContain('Assignment service URL')
    init.type('\x03')
    expect(await init.ended).toBe(130)
    expect(() => statSync(join(directory, '.env'))).toThrow()
  })
})
