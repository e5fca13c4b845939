// The API with real data: each operation of its description is called, and what it answers is as described, with nothing beside.

import { Ajv2020, type AnySchema } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { checkpoints } from '../../src/cli/checkpoints.ts'
import { deletions } from '../../src/cli/deletions.ts'
import { explain } from '../../src/cli/explain.ts'
import { pause, resume } from '../../src/cli/pause.ts'
import { quarantine } from '../../src/cli/quarantine.ts'
import { reconcile } from '../../src/cli/reconcile.ts'
import { runs } from '../../src/cli/runs.ts'
import { sql } from '../../src/cli/sql.ts'
import { status } from '../../src/cli/status.ts'
import { sessions, token } from '../../src/cli/token.ts'
import { verify } from '../../src/cli/verify.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Browsing, openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { viewerToken } from '../support/served-actions.ts'
import { callCommand } from '../support/verbs.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

type Called = {
  readonly status: number
  readonly type: string
  readonly body: unknown
  readonly link: string | null
}

type Described = { readonly description: string }

describe.skipIf(!hasPostgres)('the API', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let worker: TestWorker
  let description: { readonly paths: Readonly<Record<string, object>> }
  let validates: (reference: string, body: unknown) => string
  const called = new Set<string>()

  async function call(
    method: string,
    path: string,
    more: RequestInit & { token?: string } = {},
  ): Promise<Called> {
    const { token = method === 'GET' ? viewerToken : adminToken, ...init } = more
    const answer = await fetch(`${worker.url}/api/v1${path}`, {
      ...init,
      method,
      headers: {
        ...(token !== '' && { authorization: `Bearer ${token}` }),
        ...(init.body !== undefined && { 'content-type': 'application/json' }),
        ...init.headers,
      },
    })
    const text = await answer.text()
    const { status, headers } = answer
    const type = headers.get('content-type')?.replace(/;.*/, '') ?? ''
    return { status, type, body: text === '' ? null : JSON.parse(text), link: headers.get('link') }
  }
  const get = async (path: string) => (await call('GET', path)).body as never
  /** What is wrong with an answer by the description; empty: nothing. */
  async function mistakes(
    method: 'get' | 'post',
    template: string,
    path: string,
    body?: object,
  ): Promise<string> {
    called.add(`${method} ${template}`)
    const sent = body && { body: JSON.stringify(body) }
    const { status, type, body: answer } = await call(method.toUpperCase(), path, { ...sent })
    const of = `${method} ${path} ${status}`
    if (status >= 400) {
      const wrong = validates('components/schemas/ProblemDetails', answer)
      return type === 'application/problem+json' && wrong === '' && status < 500
        ? ''
        : `${of} ${type} ${wrong}`
    }
    const escaped = template.replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D')
    const place = `paths/${escaped}/${method}/responses/${status}/content/application~1json/schema`
    const wrong = validates(place, answer)
    return wrong === '' ? '' : `${of}: ${wrong}`
  }

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 60, notes: 5, malformed: ['no-key', 'not-an-object'] })
    worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment,assignment_note',
      SCHEDULE_ASSIGNMENT: '1h',
      SCHEDULE_ASSIGNMENT_NOTE: '1h',
      SCHEDULE_DELETIONS: '1h',
      HISTORY: 'assignment',
      VIEWER_TOKEN: viewerToken,
      ALERT_SECRETS_KEY: 'a key of the tests for secrets',
    })
    await worker.live
    await vi.waitFor(
      async () => {
        const found: { streams: { last_reconcile_at: unknown }[] } = await get('/status')
        expect(found.streams.filter((one) => one.last_reconcile_at !== null)).toHaveLength(2)
      },
      { timeout: 60_000, interval: 200 },
    )
    description = await get('/openapi.json')
    const ajv = new Ajv2020({ strict: false, allErrors: true })
    ajv.addFormat('int64', { type: 'number', validate: Number.isSafeInteger })
    ajv.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    ajv.addSchema(closed(description) as AnySchema, 'api')
    validates = (reference, body) => {
      const validate = ajv.getSchema(`api#/${reference}`)
      if (!validate) return `${reference} is not described`
      return validate(body) ? '' : ajv.errorsText(validate.errors)
    }
  }, 90_000)
  afterAll(async () => {
    await worker?.stop()
    await simulator?.close()
  })

  it('answers each document as it is described', async () => {
    const [run]: { id: string }[] = await get('/runs?kind=reconcile')
    const asked = ['/status', '/status?stream=assignment', '/streams', '/problems', '/alerts', '/dictionary']
    const more = ['/runs?limit=3', '/checkpoints', '/backfills', '/deletions', '/quarantine', '/actions']
    const others = ['/actions/verification', '/upstream', '/workers', '/settings', '/sources', '/sessions']
    for (const path of [...asked, ...more, ...others])
      expect(await mistakes('get', path.replace(/\?.*/, ''), path)).toBe('')
    expect(await mistakes('get', '/streams/{stream}', '/streams/assignment')).toBe('')
    const searched = '/streams/assignment/rows?q=a&limit=5&column=subject&deleted=hidden'
    expect(await mistakes('get', '/streams/{stream}/rows', searched)).toBe('')
    expect(await mistakes('get', '/history', '/history?per=minute')).toBe('')
    expect(await mistakes('get', '/runs/{id}', `/runs/${run?.id}`)).toBe('')
    expect(await mistakes('get', '/records/{stream}/{key}', '/records/assignment/7')).toBe('')
    expect(await get('/quarantine')).not.toEqual([])
    type Line = { readonly id: string; readonly started_at: string; readonly finished_at: string }
    const [last]: Line[] = await get('/runs?kind=reconcile&limit=1')
    const lines = async (span: string) =>
      ((await get(`/runs?kind=reconcile&limit=1000&${span}`)) as Line[]).map(({ id }) => id)
    expect(await lines(`from=${last?.finished_at}`)).toContain(last?.id)
    expect(await lines(`to=${last?.started_at}`)).not.toContain(last?.id)
    expect(await lines('from=2100-01-01T00:00:00Z')).toEqual([])
    expect(await get('/sources')).toMatchObject([{ name: '', streams: 2, state: 'live', problem: null }])
  })

  it('answers what the terminal prints with --json', async () => {
    const environment = environmentFor(simulator, database, { STREAMS: 'assignment,assignment_note' })
    const printed = async (verb: Parameters<typeof callCommand>[0], ...words: string[]) =>
      JSON.parse((await callCommand(verb, [...words, '--json'], environment)).stdout)
    const [run]: { id: string }[] = await get('/runs?kind=reconcile')
    const id = run?.id ?? ''
    expect(await get(`/runs/${id}`)).toEqual(await printed(runs, 'show', id))
    expect(await get('/runs?kind=reconcile')).toEqual(await printed(runs, '--kind', 'reconcile'))
    expect(await get('/checkpoints?limit=2')).toEqual(await printed(checkpoints, '--limit', '2'))
    expect(await get('/quarantine')).toEqual(await printed(quarantine))
    expect(await get('/deletions')).toEqual(await printed(deletions, 'list'))
  })

  it('acts as described, or says in one line why not', async () => {
    const at = (what: string) => `/streams/{stream}/${what}`
    const stream = async (what: string, body: object = {}) =>
      await mistakes('post', at(what), `/streams/assignment/${what}`, body)
    const reason = 'a test'
    expect(await stream('pause', { reason })).toBe('')
    expect(await get('/streams/assignment')).toMatchObject({ state: 'paused', paused: { reason } })
    // As clients in Java send a body that is left out.
    expect((await call('POST', '/streams/assignment/resume', { body: 'null' })).status).toBe(200)
    for (const what of ['resume', 'acknowledge', 'probe', 'look-again']) expect(await stream(what)).toBe('')
    expect(await stream('backfill', { from_version: '1', dry_run: true })).toBe('')
    expect(await stream('backfill', { from_version: '1' })).toBe('')
    expect(await mistakes('post', '/backfills/{id}/cancel', '/backfills/1/cancel', {})).toBe('')
    expect(await stream('rewind', { to_version: '1', reason, confirm: 'assignment' })).toBe('')
    expect(await mistakes('post', '/records/{stream}/{key}/compare', '/records/assignment/7/compare')).toBe(
      '',
    )
    const [entry]: { id: string }[] = await get('/quarantine')
    const drop = `/quarantine/${entry?.id}/drop`
    expect(await mistakes('post', '/quarantine/{target}/drop', drop, { reason })).toBe('')
    expect(await mistakes('post', '/quarantine/{target}/retry', '/quarantine/all/retry')).toBe('')
    const mute = { target: 'stream:assignment', for: '1h', reason }
    expect(await mistakes('post', '/alerts/mute', '/alerts/mute', mute)).toBe('')
    expect(await mistakes('get', '/alerts', '/alerts')).toBe('')
    expect(await mistakes('post', '/alerts/unmute', '/alerts/unmute', { target: 'assignment' })).toBe('')
    const setting = { target: 'PAGE_SIZE' }
    expect(await mistakes('post', '/settings/set', '/settings/set', { ...setting, value: '50' })).toBe('')
    expect(await mistakes('get', '/settings', '/settings')).toBe('')
    expect(await mistakes('post', '/settings/unset', '/settings/unset', setting)).toBe('')
    const chat = { target: 'chat', webhook: 'http://127.0.0.1:9/x', reason }
    expect(await mistakes('post', '/alerts/receivers/set', '/alerts/receivers/set', chat)).toBe('')
    const rule = { target: 'night', to: 'chat', kinds: 'needs_you', after: '15m' }
    expect(await mistakes('post', '/alerts/rules/set', '/alerts/rules/set', rule)).toBe('')
    expect(await get('/alerts')).toMatchObject({
      receivers: [{ name: 'chat', from: 'console' }],
      rules: [{ name: 'night', from: 'console', after_ms: 900_000 }],
    })
    for (const [path, target] of [
      ['/alerts/undo', 'rule:night'],
      ['/alerts/remove', 'receiver:chat'],
    ] as const)
      expect(await mistakes('post', path, path, { target })).toBe('')
    expect(await get('/alerts')).toMatchObject({ receivers: [], rules: [] })
    for (const path of ['/alerts/test', '/sessions/end']) expect(await mistakes('post', path, path)).toBe('')
    const ola = { target: 'ola', role: 'viewer' }
    expect(await mistakes('post', '/tokens/create', '/tokens/create', ola)).toBe('')
    expect(await get('/tokens')).toMatchObject([{ name: 'ola', role: 'viewer', ends_at: null }])
    expect(await mistakes('get', '/tokens', '/tokens')).toBe('')
    expect(await mistakes('post', '/tokens/{name}/revoke', '/tokens/ola/revoke')).toBe('')
    expect(await get('/tokens')).toEqual([])
    expect(await mistakes('post', '/sessions/{id}/end', '/sessions/7/end')).toBe('')
    expect(await mistakes('post', '/alerts/{receiver}/test', '/alerts/nobody/test')).toBe('')
    for (let id = 1; id <= 30; id++) simulator.source.remove('assignment', id)
    expect(await stream('sync', { kind: 'reconcile' })).toBe('')
    type Blocked = { readonly blocked: readonly { readonly missing: number }[] }
    const blocked = async () => ((await get('/deletions')) as Blocked).blocked
    await vi.waitFor(async () => expect(await blocked()).toHaveLength(1), { timeout: 30_000, interval: 200 })
    for (const path of ['/deletions', '/status', '/streams'])
      expect(await mistakes('get', path, `${path}?stream=assignment`)).toBe('')
    expect(await stream('reject', { reason })).toBe('')
    expect(await stream('look-again')).toBe('')
    const [problem]: { key: string }[] = await get('/problems')
    const known = { target: problem?.key, reason }
    expect(await mistakes('post', '/alerts/acknowledge', '/alerts/acknowledge', known)).toBe('')
    expect(await stream('approve', { rows: 30, reason })).toBe('')
    expect(await mistakes('get', '/actions', '/actions?limit=1000')).toBe('')
    const all = Object.entries(description.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method} ${path}`),
    )
    expect(all.filter((one) => !called.has(one))).toEqual([])
    const [first]: { door: string; told: string }[] = await get('/actions')
    expect(first).toMatchObject({ door: 'HTTP', action: 'approve', target: 'assignment', reason })
  }, 120_000)

  it('lets the terminal look and act without a password of Postgres', async () => {
    const environment = environmentFor(simulator, database, { STREAMS: 'assignment,assignment_note' })
    const locally = environment as Record<string, string>
    const remotely = (token: string) => ({ TIDEMARK_URL: worker.url, TIDEMARK_TOKEN: token })
    const said = async (
      verb: Parameters<typeof callCommand>[0],
      words: string[],
      of: Record<string, string>,
    ) => (await callCommand(verb, words, of)).stdout
    for (const [verb, ...words] of [[checkpoints], [quarantine], [runs, '--kind', 'reconcile']] as const)
      for (const more of [[], ['--json']]) {
        const here = await said(verb, [...words, ...more], environment as Record<string, string>)
        expect(await said(verb, [...words, ...more], remotely(viewerToken))).toBe(here)
      }
    await expect(said(pause, ['assignment_note'], remotely(viewerToken))).rejects.toThrow('viewer')
    const paused = await said(pause, ['assignment_note', '--reason', 'from afar'], remotely(adminToken))
    expect(paused).toBe('assignment_note is paused. No worker reads it by itself until it is resumed.\n')
    expect(await get('/streams/assignment_note')).toMatchObject({ paused: { reason: 'from afar' } })
    expect(JSON.parse(await said(resume, ['assignment_note', '--json'], remotely(adminToken)))).toMatchObject(
      {
        ...{ stream: 'assignment_note', paused: false, outcome: 'done' },
      },
    )
    // Between the two a minute may end, and its rows be counted.
    for (const words of [['assignment'], ['assignment', '--json']])
      await vi.waitFor(
        async () => {
          const [here, there] = [
            await said(status, words, locally),
            await said(status, words, remotely(viewerToken)),
          ]
          expect(shapeOf(there)).toEqual(shapeOf(here))
        },
        { timeout: 20_000, interval: 100 },
      )
    const checked = async (of: Record<string, string>) => (await callCommand(status, ['--check'], of)).code
    expect(await checked(remotely(viewerToken))).toBe(await checked(locally))
    for (const words of [
      ['assignment', '7'],
      ['assignment', '7', '--values'],
      ['assignment', '7', '--json'],
    ])
      expect(shapeOf(await said(explain, words, remotely(adminToken)))).toEqual(
        shapeOf(await said(explain, words, locally)),
      )
    const looked = await said(explain, ['assignment', '7'], remotely(viewerToken))
    expect(looked).toContain('assignment 7: the upstream was not asked: the token may only look')
    const never = await said(explain, ['assignment', '999999'], remotely(adminToken))
    expect(never).toContain('the upstream has no such record, and none was ever seen here')
    const compared = await callCommand(reconcile, ['assignment_note'], remotely(adminToken))
    expect(compared).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^assignment_note: reconcile done \(run \d+\), 0 new/),
    })
    await expect(said(sql, ['select 1'], remotely(adminToken))).rejects.toThrow('needs Postgres itself')
    await expect(said(verify, [], remotely(adminToken))).rejects.toThrow('needs Postgres itself')
    const nobody = { TIDEMARK_URL: 'http://127.0.0.1:1' }
    await expect(said(checkpoints, [], nobody)).rejects.toThrow('does not answer')
  })

  it('answers rows by what they hold, page by page, and the figures of charts', async () => {
    type Rows = { rows: { key: string; values: Record<string, unknown> }[]; next: string | null }
    const rowsOf = async (query: string): Promise<Rows> => await get(`/streams/assignment/rows?${query}`)
    // The others may be marked as deleted by what was approved above.
    const found = await rowsOf('field=assignment_id&value=57')
    expect(found).toMatchObject({
      key_column: 'assignment_id',
      rows: [{ key: '57', is_deleted: false }],
      next: null,
    })
    const [{ values } = { values: {} }] = found.rows
    const { rows: stored } = await database.pool.query(
      'select to_jsonb(a) - array[$1, $2] as row from mirror.assignment as a where assignment_id = 57',
      ['assignment_id', '_xid'],
    )
    for (const [name, value] of Object.entries(values))
      expect([name, value]).toEqual([name, stored[0].row[name]])
    const keys: string[] = []
    let next: string | null = '/streams/assignment/rows?limit=13&column=subject'
    while (next !== null) {
      const { body, link }: Called = await call('GET', next)
      const { rows, next: cursor } = body as Rows
      keys.push(...rows.map(({ key }) => key))
      expect(link === null).toBe(cursor === null)
      next = link === null ? null : (/^<\/api\/v1(\/[^>]+)>; rel="next"$/.exec(link)?.[1] ?? '')
    }
    const { rows: all } = await database.pool.query(
      'select assignment_id::text as key from mirror.assignment',
    )
    expect(keys.toSorted()).toEqual(all.map(({ key }) => key).toSorted())
    expect((await rowsOf('from=2100-01-01T00:00:00Z')).rows).toEqual([])
    // A question mark may stand in a query as it is.
    expect((await rowsOf('field=assignment_id&value=57&q=57?')).rows).toEqual([])
    expect((await rowsOf('field=subject&value=null?&limit=1&deleted=hidden')).rows).toEqual([])
    expect(await call('GET', '/streams/assignment/rows?q=a?&nothing=1')).toMatchObject({ status: 400 })
    await database.pool.query(
      `insert into tidemark.service_minute (service, at, minutes, worker, requests, bytes, failures, asked_for, latency)
       values ('assignment', '2026-01-05T10:17:00Z', 1, 'a worker', 10, 1000, '{"5xx": 2}', '{"assignment incremental": 7}',
         array[0, 9, 0, 1] || array_fill(0::bigint, array[10]))`,
    )
    expect(await get('/history?to=0000-01-01T00:00:00Z')).toMatchObject({ requests: [], services: [] })
    const day = '/history?per=day&from=2026-01-05T00:00:00Z&to=2026-01-06T00:00:00Z'
    const at = '2026-01-05T00:00:00.000Z'
    expect(await mistakes('get', '/history', day)).toBe('')
    expect(await get(day)).toEqual({
      ...{ from: at, to: '2026-01-06T00:00:00.000Z', rows: [] },
      requests: [
        { at, stream: 'assignment', kind: 'incremental', requests: 7 },
        { at, stream: null, kind: null, requests: 3 },
      ],
      services: [
        {
          ...{ at, service: 'assignment', requests: 10, bytes: 1000, failures: { '5xx': 2 } },
          ...{ half_within_ms: 20, most_within_ms: 80 },
        },
      ],
    })
  })

  it('does to the one that is named what it also does to all', async () => {
    const [here, remotely, stays] = await Promise.all(
      [1, 2, 3].map(async () => {
        const browsing = openBrowsing(worker.url)
        await browsing.signIn(adminToken)
        return browsing
      }),
    )
    const isSignedIn = async (browsing: Browsing | undefined) => (await browsing?.get('/people'))?.status
    const [second, first]: { id: string }[] = await get('/sessions')
    expect(await call('POST', `/sessions/${first?.id}/end`)).toMatchObject({
      status: 200,
      body: { ended: 1 },
    })
    const afar = { TIDEMARK_URL: worker.url, TIDEMARK_TOKEN: adminToken }
    expect((await callCommand(sessions, ['end', second?.id ?? ''], afar)).stdout).toBe(
      `Session ${second?.id} ended.\n`,
    )
    const left = [await isSignedIn(here), await isSignedIn(remotely), await isSignedIn(stays)]
    expect(left.filter((status) => status === 200)).toHaveLength(1)
    expect((await callCommand(sessions, ['end', 'all'], afar)).stdout).toContain('1 session ended.')
    const ids = Object.values(description.paths).flatMap((operations) =>
      Object.values(operations).map((one: { operationId: string }) => one.operationId),
    )
    expect(ids).toEqual([...new Set(ids)])
  })

  it('lets each role do what the description says, and no more', async () => {
    const environment = environmentFor(simulator, database)
    const make = async (role: string) =>
      (await callCommand(token, ['create', `an-${role}`, '--role', role], environment)).stdout.trim()
    const tokens = { viewer: await make('viewer'), operator: await make('operator') }
    const needed: string[] = []
    for (const [path, { post }] of Object.entries(
      description.paths as Record<string, { post?: Described }>,
    )) {
      if (!post) continue
      const url = path.replaceAll(/\{\w+\}/g, 'x')
      expect([path, (await call('POST', url, { token: tokens.viewer })).status]).toEqual([path, 403])
      const isForAdmins = (await call('POST', url, { token: tokens.operator, body: '{' })).status === 403
      expect([path, post.description]).toEqual([
        path,
        `Needs the role ${isForAdmins ? 'admin' : 'operator'}.`,
      ])
      if (isForAdmins) needed.push(path)
    }
    expect(needed).toEqual([
      ...['/quarantine/{target}/drop', '/alerts/receivers/set', '/alerts/rules/set'],
      ...['/alerts/remove', '/alerts/undo', '/settings/set', '/settings/unset'],
      ...['/sessions/end', '/sessions/{id}/end', '/tokens/create', '/tokens/{name}/revoke'],
    ])
  })

  it('goes on from page to page without a gap', async () => {
    const all: { id: string }[] = await get('/checkpoints?limit=1000')
    const seen: string[] = []
    let next: string | null = '/checkpoints?limit=2'
    while (next !== null) {
      const { body, link }: Called = await call('GET', next)
      seen.push(...(body as { id: string }[]).map(({ id }) => id))
      next = link === null ? null : (/^<\/api\/v1(\/[^>]+)>; rel="next"$/.exec(link)?.[1] ?? '')
    }
    expect(seen).toEqual(all.map(({ id }) => id))
  })

  it.each([
    ['GET', '/runs?nothing=1', {}, 400, 'Nothing is called `nothing`. What can be given is `stream`'],
    ['GET', '/runs?limit=1e1', {}, 400, '`limit`'],
    ['GET', '/runs?limit=1&limit=2', {}, 400, '`limit` is given more than once.'],
    ['GET', '/records/assignment/a%00b', {}, 400, 'A text holds a NUL.'],
    ['GET', '/runs/999999', {}, 404, 'There is no run 999999.'],
    ['GET', '/streams/asignment', {}, 404, 'did you mean assignment?'],
    ['POST', '/tokens/nobody/revoke', {}, 404, 'There is no token nobody.'],
    ['POST', '/sessions/999/end', {}, 404, 'There is no session 999.'],
    ['POST', '/backfills/999/cancel', {}, 404, 'There is no backfill 999.'],
    ['GET', '/records/assignment/x', {}, 404, 'is a whole number'],
    ['GET', '/streams/assignment/rows?field=subjct&value=a', {}, 404, 'has no column "subjct". It has '],
    ['GET', '/streams/assignment/rows?field=subject', {}, 409, 'belong together'],
    ['GET', '/streams/assignment/rows?cursor=2026-02-30+10:00:00%2B00+7', {}, 409, '`cursor`'],
    ['GET', '/streams/assignment/rows?from=yesterday', {}, 400, '`from`'],
    ['GET', '/history?per=minute&from=2026-01-01T00:00:00Z', {}, 409, 'steps of a minute'],
    ['GET', '/history?from=2100-01-01T00:00:00Z', {}, 409, 'nothing lies between'],
    ['GET', '/nothing', {}, 404, 'Nothing is at this address.'],
    ['GET', '/status', { token: '' }, 401, 'Authorization: Bearer'],
    ['DELETE', '/runs/1', { token: viewerToken }, 405, 'This address takes GET, HEAD, OPTIONS.'],
    ['PUT', '/streams/assignment/pause', {}, 405, 'This address takes POST, OPTIONS.'],
    ['POST', '/streams/assignment/pause', { token: viewerToken }, 403, 'viewer'],
    ['POST', '/streams/assignment/pause', { token: '' }, 401, 'Authorization: Bearer'],
    ['POST', '/streams/assignment/pause', { body: '{"reson":"x"}' }, 400, 'Nothing is called `reson`.'],
    ['POST', '/streams/assignment/pause', { body: '{' }, 400, 'no JSON'],
    ['POST', '/streams/assignment/pause', { body: '[]' }, 400, 'The body'],
    ['POST', '/streams/assignment/pause', { body: `{"reason":"${'x'.repeat(20_000)}"}` }, 413, 'longer than'],
    [
      'POST',
      '/streams/assignment/pause',
      { body: 'a=b', headers: { 'content-type': 'text/plain' } },
      415,
      'JSON',
    ],
    ['POST', '/records/assignment/7/compare', { body: '{"x":1}' }, 400, 'Nothing can be given here.'],
    ['POST', '/streams/nothing/pause', {}, 404, 'no stream "nothing"'],
    [
      'POST',
      '/streams/assignment/rewind',
      { body: '{"to_version":"1","reason":"x","confirm":"y"}' },
      409,
      'confirm',
    ],
  ] as const)('refuses %s %s %o with %d', async (method, path, more, status, words) => {
    const answer = await call(method, path, more)
    expect(answer).toMatchObject({
      ...{ status, type: 'application/problem+json' },
      body: { type: 'about:blank', status, detail: expect.stringContaining(words) },
    })
    expect(JSON.stringify(answer.body)).not.toContain('\\n')
  })
})

/** Without what is another a second later; of a document, whatever the order of its fields. */
function shapeOf(text: string): unknown {
  const shape = text.replaceAll(/\d+(\.\d+)?/g, '1').replaceAll(/ +/g, ' ')
  return shape.startsWith('{') ? JSON.parse(shape) : shape
}

/** With nothing in an object that is not described. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const inner = Object.fromEntries(Object.entries(schema).map(([name, one]) => [name, closed(one)]))
  const isObject = inner.type === 'object' && inner.properties !== undefined
  return isObject ? { ...inner, additionalProperties: false } : inner
}
