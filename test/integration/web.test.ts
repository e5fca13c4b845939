// The routes of the worker as their clients meet them, hostile ones included, without a worker behind them.

import { createHmac } from 'node:crypto'
import { connect } from 'node:net'
import { hostname } from 'node:os'
import { PassThrough } from 'node:stream'
import { Registry } from 'prom-client'
import { afterEach, describe, expect, it } from 'vitest'
import { openLog } from '../../src/log.ts'
import type { Part } from '../../src/problems/parts.ts'
import { readAssets } from '../../src/web/assets.ts'
import { html } from '../../src/web/html.ts'
import { healthRoutes, hookRoute, kept, metricsRoute } from '../../src/web/monitoring.ts'
import { sendPage } from '../../src/web/page-routes.ts'
import {
  AddressUnusable,
  byKnownNames,
  type HttpServer,
  type Routes,
  startHttpServer,
} from '../../src/web/server.ts'
import { quietLog } from '../support/database.ts'

const secret = 'a-webhook-secret-of-the-tests'
const servers: HttpServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function serve(...routes: Routes[]): Promise<string> {
  const server = await startHttpServer({ host: '127.0.0.1', port: 0, routes, log: quietLog })
  servers.push(server)
  return server.url
}
const post = (url: string, options: RequestInit = {}) => fetch(url, { method: 'POST', ...options })

describe('POST /hooks/<secret>', () => {
  async function serveHooks(own: string | null = secret): Promise<{ url: string; delivered(): number }> {
    let deliveries = 0
    const url = await serve(
      hookRoute({
        secret: own,
        onDelivery: () => {
          deliveries++
        },
      }),
    )
    return { url, delivered: () => deliveries }
  }

  it('takes any body of any kind', async () => {
    const { url, delivered } = await serveHooks()
    const bodies: RequestInit[] = [
      {},
      { body: '{"broken":', headers: { 'content-type': 'application/json' } },
      { body: '<x/>', headers: { 'content-type': 'application/xml' } },
      { body: new Uint8Array(65_536), headers: { 'content-type': 'no/such-thing' } },
      { body: '{"__proto__":{"x":1}}', headers: { 'content-type': 'application/json' } },
    ]
    for (const body of bodies) {
      const answer = await post(`${url}/hooks/${secret}`, body)
      expect([answer.status, await answer.text()]).toEqual([202, ''])
    }
    expect(delivered()).toBe(bodies.length)
  })

  it('does not tell a wrong secret from a path that is not there, and repeats neither (P9)', async () => {
    const { url, delivered } = await serveHooks()
    const wrong = await post(`${url}/hooks/${secret.slice(0, -1)}x`)
    const nothing = await post(`${url}/nothing/here`)
    const told = [wrong.status, await wrong.text()]
    expect(told).toEqual([nothing.status, await nothing.text()])
    expect(told).toEqual([404, '{"error":"not found"}'])
    expect((await fetch(`${url}/hooks/${secret}`)).status).toBe(404)
    expect((await post(`${url}/hooks/${'x'.repeat(5_000)}`)).status).toBeGreaterThanOrEqual(400)
    expect((await post(`${url}/hooks/%E0%A4%A`)).status).toBeGreaterThanOrEqual(400)
    expect(delivered()).toBe(0)
  })

  it('is not there without a secret', async () => {
    const { url } = await serveHooks(null)
    expect((await post(`${url}/hooks/`)).status).toBe(404)
    expect((await post(`${url}/hooks/null`)).status).toBe(404)
  })

  it('refuses a body that is larger than any delivery', async () => {
    const { url } = await serveHooks()
    for (const size of [65_537, 3_000_000]) {
      const outcome = await post(`${url}/hooks/${secret}`, { body: new Uint8Array(size) }).then(
        ({ status }) => status,
        () => 'cut off',
      )
      expect([413, 400, 'cut off']).toContain(outcome)
    }
  })

  it('takes a signed delivery once, refuses an old one, and takes an unsigned one unless signatures are required', async () => {
    const signingSecret = 'what deliveries are signed with'
    let nowMs = 1_700_000_000_000
    const kinds = { required: 0, optional: 0 }
    const serveSigned = (kind: keyof typeof kinds) =>
      serve(
        hookRoute({
          ...{ secret, signingSecret, requiresSignature: kind === 'required', now: () => nowMs },
          onDelivery: () => {
            kinds[kind]++
          },
        }),
      )
    const urls = { required: await serveSigned('required'), optional: await serveSigned('optional') }
    const signed = (text: string) =>
      `t=1700000000,v1=${createHmac('sha256', signingSecret).update(`1700000000.${text}`).digest('hex')}`
    const outcomeOf = async (kind: keyof typeof kinds, body: string, headers: Record<string, string>) => {
      const before = kinds[kind]
      const { status } = await post(`${urls[kind]}/hooks/${secret}`, { body, headers })
      return [status, kinds[kind] - before]
    }
    for (const kind of ['required', 'optional'] as const) {
      const right = { 'x-signature': signed('{}') }
      expect(await outcomeOf(kind, '{}', right)).toEqual([202, 1])
      expect(await outcomeOf(kind, '{}', right)).toEqual([202, 0])
      expect(await outcomeOf(kind, '[]', right)).toEqual([401, 0])
      nowMs += 301_000
      expect(await outcomeOf(kind, '{"n":2}', { 'x-signature': signed('{"n":2}') })).toEqual([401, 0])
      nowMs -= 301_000
      const isTaken = kind === 'optional' ? [202, 1] : [401, 0]
      expect(await outcomeOf(kind, '{}', {})).toEqual(isTaken)
      expect(await outcomeOf(kind, '{}', { 'x-signature': 'rsa;x' })).toEqual(isTaken)
    }
  })
})

describe('GET /healthz, /readyz and /metrics', () => {
  it('tell apart that the program runs and that it can work', async () => {
    const part = { name: 'queue', kind: 'queue', since: new Date(0) } as const
    let isReady = false
    const queue = (): Part =>
      isReady
        ? { ...part, isUp: true, state: 'works', reason: null, whatToDo: null }
        : { ...part, isUp: false, state: 'not yet', reason: 'No job has gone through.', whatToDo: 'Wait.' }
    const service = { ...part, name: 'tracking', kind: 'service', state: 'down' } as const
    const url = await serve(
      healthRoutes(() => ({
        isRunning: true,
        parts: [
          queue(),
          {
            ...service,
            isUp: false,
            reason: 'It begins: Jane Doe.',
            publicReason: 'It answers 503.',
            whatToDo: 'Wait.',
          },
        ],
      })),
    )
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    const away = await fetch(`${url}/readyz`)
    expect([away.status, await away.json()]).toMatchObject([
      503,
      { parts: { queue: { up: false, state: 'not yet', reason: 'No job has gone through.' } } },
    ])
    isReady = true
    const ready = await fetch(`${url}/readyz`)
    expect([ready.status, await ready.json()]).toEqual([
      200,
      {
        status: 'ready',
        parts: {
          queue: { up: true, state: 'works', since: '1970-01-01T00:00:00.000Z' },
          tracking: {
            ...{ up: false, state: 'down', since: '1970-01-01T00:00:00.000Z' },
            ...{ reason: 'It answers 503.', what_to_do: 'Wait.' },
          },
        },
        services_down: ['tracking'],
      },
    ])
    expect((await fetch(`${url}/readyz`, { method: 'HEAD' })).status).toBe(200)
  })

  it('look for a metric once in two seconds, however often they are asked, and whether it was found or not', async () => {
    let [nowMs, looks] = [0, 0]
    let isThere = false
    const look = kept(
      () =>
        isThere ? Promise.resolve(++looks).then((count) => (count === 2 ? Promise.reject() : count)) : null,
      () => nowMs,
    )
    expect(await look()).toBeNull()
    isThere = true
    const found: unknown[] = []
    for (nowMs of [0, 1_999, 2_000, 3_999, 4_000]) found.push(await look())
    expect(found).toEqual([1, 1, null, null, 3])
  })

  it('answer a failure without its reason', async () => {
    const url = await serve(
      metricsRoute({
        registry: new Registry(),
        refresh: () => Promise.reject(new Error('password=hunter2')),
      }),
    )
    const answer = await fetch(`${url}/metrics`)
    expect([answer.status, await answer.text()]).toEqual([
      500,
      '{"error":"It failed. The log of the worker says why."}',
    ])
  })
})

describe('the server', () => {
  /** What the server says to these bytes until it hangs up; more are sent one by one. */
  async function answerTo(url: string, bytes: string, more = ''): Promise<string> {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', () => {})
    socket.write(bytes)
    const dribble = setInterval(() => more && socket.write(more), 20)
    await new Promise((resolve) => socket.once('close', resolve))
    clearInterval(dribble)
    return Buffer.concat(chunks).toString()
  }

  it('hangs up on clients that send a byte now and then, in headers and in bodies (P10)', async () => {
    const server = await startHttpServer({
      host: '127.0.0.1',
      port: 0,
      routes: [hookRoute({ secret, onDelivery: () => {} })],
      timeoutMs: 150,
      log: quietLog,
    })
    servers.push(server)
    const post = `POST /hooks/${secret} HTTP/1.1\r\nhost: x\r\n`
    const [slowHeaders, slowBody] = await Promise.all([
      answerTo(server.url, 'GET /healthz HTTP/1.1\r\nhost: x\r\nx: ', 'y'),
      answerTo(server.url, `${post}content-length: 60000\r\n\r\n`, 'y'),
    ])
    expect(slowHeaders).toMatch(/^HTTP\/1\.1 408 /)
    expect(slowBody).toMatch(/^(HTTP\/1\.1 408 |$)/)
  })

  it('refuses headers without end, and what could be read as two requests (P10)', async () => {
    const url = await serve(healthRoutes(() => ({ isRunning: true, parts: [] })))
    const get = 'GET /healthz HTTP/1.1\r\nhost: x\r\n'
    const many = Array.from({ length: 5_000 }, (_, index) => `x-${index}: y\r\n`).join('')
    for (const headers of [many, `x: ${'y'.repeat(70_000)}\r\n`])
      expect(await answerTo(url, `${get}${headers}\r\n`)).toMatch(/^HTTP\/1\.1 431 /)
    const smuggled = `${get}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n`
    expect(await answerTo(url, smuggled)).toMatch(/^HTTP\/1\.1 400 /)
  })

  it('shows pages by names that are its own, by addresses and over TLS, and by none that a site could bind to it', async () => {
    const page: Routes = (server) => void server.get('/', async () => 'a page')
    const publicUrl = 'https://mirror.example/tidemark'
    const url = await serve(byKnownNames({ listensOn: '127.0.0.1', publicUrl, names: [] }, [page]))
    const names = ['inside.example', 'Mirror']
    const open = await serve(byKnownNames({ listensOn: '0.0.0.0', publicUrl, names }, [page]))
    const isShown = async (host: string, more = '', at = url) => {
      const answer = await answerTo(at, `GET / HTTP/1.1\r\nhost: ${host}\r\n${more}connection: close\r\n\r\n`)
      return /^HTTP\/1\.1 200 [\s\S]*a page$/.test(answer)
    }
    const own = ['127.0.0.1:8080', 'localhost', 'LOCALHOST:8080', 'x.localhost', '[::1]:8080', '192.0.2.7']
    for (const host of [...own, 'mirror.example', 'Mirror.example:444'])
      expect([host, await isShown(host)]).toEqual([host, true])
    const strange = [
      'evil.example',
      'evil.example:8080',
      '127.evil.example',
      'localhost.evil.example',
      'evil',
    ]
    for (const host of [...strange, 'mirror.example.evil.example', '127.0.0.1@evil.example', ''])
      expect([host, await isShown(host)]).toEqual([host, false])
    expect(await isShown('by.a.proxy.example', 'sec-fetch-site: same-origin\r\n')).toBe(true)
    expect(await isShown('evil.example', 'x-forwarded-host: localhost\r\n')).toBe(false)
    for (const host of [
      'inside.example:8080',
      'mirror',
      hostname(),
      'mirror.example',
      '192.0.2.7',
      'localhost',
    ])
      expect([host, await isShown(host, '', open)]).toEqual([host, true])
    expect(await isShown('localhost', 'host: evil.example\r\n')).toBe(false)
    for (const host of ['evil.example', 'evil.inside.example', '0.0.0.0.evil.example'])
      expect([host, await isShown(host, '', open)]).toEqual([host, false])
  })

  it('answers probes and Prometheus by whatever name they find it, and no page of a site that was bound to it', async () => {
    const metrics = metricsRoute({ registry: new Registry(), refresh: async () => {} })
    const health = healthRoutes(() => ({ isRunning: true, parts: [] }))
    const own = { listensOn: '0.0.0.0', publicUrl: null, names: ['tidemark.internal'] }
    const url = await serve(byKnownNames(own, [health, metrics], { browsersOnly: true }))
    const statusOf = async (path: string, host: string, more: readonly string[]) => {
      const lines = [`GET ${path} HTTP/1.1`, `host: ${host}`, ...more, 'connection: close', '', '']
      return Number((await answerTo(url, lines.join('\r\n'))).slice(9, 12))
    }
    const programs = [
      ['user-agent: kube-probe/1.31', 'accept: */*'],
      ['user-agent: Prometheus/3.5.0', 'accept: text/plain;version=0.0.4', 'accept-encoding: gzip'],
      ['user-agent: curl/8.14.1', 'accept: */*'],
      // Invoke-WebRequest of PowerShell, and monitors.
      ['user-agent: Mozilla/5.0 (Windows NT 10.0; Microsoft Windows 10.0.20348; en-US) PowerShell/7.5.0'],
      ['user-agent: Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.20348.1'],
      [
        'user-agent: Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)',
        'accept: */*',
        'accept-encoding: gzip, deflate',
      ],
      // `fetch` of Node.
      ['accept: */*', 'accept-language: *', 'sec-fetch-mode: cors', 'user-agent: node'],
      [],
    ]
    // What browsers send of a script to the site that it came from, with all that a script can change.
    const browsers = [
      ['user-agent: Mozilla/5.0 (X11; Linux x86_64)', 'accept: */*', 'accept-language: en'],
      ['user-agent: x', 'accept-language: ', 'accept: */*'],
      ['origin: http://evil.example'],
      ['referer: http://evil.example/'],
      ['cookie: a=b'],
    ]
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      for (const headers of programs)
        for (const host of ['tidemark', 'tidemark.default.svc:8080', '10.1.2.3:8080', 'tidemark.internal'])
          expect([host, headers, await statusOf(path, host, headers)]).toEqual([host, headers, 200])
      for (const headers of browsers) {
        expect([headers, await statusOf(path, 'evil.example:8080', headers)]).toEqual([headers, 421])
        expect([headers, await statusOf(path, 'tidemark.internal:8080', headers)]).toEqual([headers, 200])
      }
    }
  })

  it('answers although 1,200 connections say nothing, of its own address as well, and goes on answering whom it answers (P10)', async () => {
    let goOn = () => {}
    const slow: Routes = (server) =>
      void server.get('/slow', async () => {
        await new Promise<void>((resolve) => {
          goOn = resolve
        })
        return 'at last'
      })
    const url = await serve(
      slow,
      healthRoutes(() => ({ isRunning: true, parts: [] })),
    )
    const answered = fetch(`${url}/slow`).then((answer) => answer.text())
    const sockets = Array.from({ length: 1_200 }, (_, index) =>
      connect({
        host: '127.0.0.1',
        port: Number(new URL(url).port),
        localAddress: `127.0.0.${1 + (index % 7)}`,
      }),
    )
    try {
      for (const socket of sockets) socket.on('error', () => {})
      await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
      for (let time = 0; time < 3; time++)
        expect((await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(3_000) })).status).toBe(200)
      goOn()
      expect(await answered).toBe('at last')
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  })

  it('says to browsers of every answer, also of those that no route gives, what they may do with it', async () => {
    const routes: Routes[] = [
      healthRoutes(() => ({ isRunning: true, parts: [] })),
      hookRoute({ secret, onDelivery: () => {} }),
      metricsRoute({ registry: new Registry(), refresh: () => Promise.reject(new Error('x')) }),
      readAssets().routes,
      (server) => void server.get('/page', async (_request, reply) => sendPage(reply, html`x`)),
    ]
    const server = await startHttpServer({
      ...{ host: '127.0.0.1', port: 0, routes, log: quietLog, timeoutMs: 150 },
      publicUrl: 'https://mirror.example/x',
    })
    servers.push(server)
    const headersOf = async (start: string, host = 'x') => {
      const answer = await answerTo(
        server.url,
        `${start} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`,
      )
      return answer.slice(0, answer.indexOf('\r\n\r\n')).toLowerCase()
    }
    const asset = readAssets().urlOf('page.js')
    const paths = ['/healthz', '/readyz', '/metrics', '/page', '/none', '/%E0%A4%A', asset]
    for (const start of [
      ...paths.map((path) => `GET ${path}`),
      `POST /hooks/${secret}`,
      'BROKEN',
      'GET /x y',
    ]) {
      const headers = await headersOf(start)
      for (const line of [
        'x-content-type-options: nosniff',
        'x-frame-options: deny',
        'referrer-policy: same-origin',
        'cross-origin-opener-policy: same-origin',
        'cross-origin-resource-policy: same-origin',
        'permissions-policy: camera=()',
        `cache-control: ${start.includes(asset) ? 'public, max-age=31536000, immutable' : 'no-store'}`,
      ])
        expect(`\n${headers}`, start).toContain(`\n${line}`)
      const [, policy = ''] = /content-security-policy: (.*)/.exec(headers) ?? []
      for (const part of ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"])
        expect(policy, start).toContain(part)
      expect(policy, start).toContain(start === 'GET /page' ? "form-action 'self'" : "form-action 'none'")
      expect(headers, start).not.toContain('strict-transport')
    }
    // Over plain HTTP browsers ignore it; under another name it would bind what is not this worker's.
    expect(await headersOf('GET /page', 'mirror.example')).toContain(
      'strict-transport-security: max-age=31536000',
    )
  })

  it('writes nothing into its log for those who hang up, or send too much or nonsense', async () => {
    const lines: string[] = []
    const stream = new PassThrough().on('data', (line) => lines.push(String(line)))
    const routes: Routes[] = [
      (server) => void server.post('/other', async () => 'read'),
      hookRoute({ secret, onDelivery: () => {} }),
    ]
    const server = await startHttpServer({
      ...{ host: '127.0.0.1', port: 0, routes, log: openLog({ level: 'info', stream }) },
    })
    servers.push(server)
    for (const path of ['/other', `/hooks/${secret}`]) {
      const post = `POST ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n`
      await answerTo(server.url, `${post}content-length: 3000000\r\n\r\n${'x'.repeat(3_000_000)}`)
      const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
      await answerTo(server.url, `${post}transfer-encoding: chunked\r\n\r\n${chunk.repeat(40)}0\r\n\r\n`)
      await answerTo(server.url, `${post}transfer-encoding: chunked\r\n\r\n5\r\nabcde\r\nzzz\r\n`)
      const socket = connect(server.port, '127.0.0.1')
      socket.end(`${post}content-length: 100\r\n\r\nx`)
      await new Promise((resolve) => socket.resume().once('close', resolve))
    }
    expect(lines).toEqual([])
  })

  it('says which address is taken', async () => {
    const url = await serve()
    const attempt = startHttpServer({
      host: '127.0.0.1',
      port: Number(new URL(url).port),
      routes: [],
      log: quietLog,
    })
    await expect(attempt).rejects.toThrow(AddressUnusable)
    await expect(attempt).rejects.toThrow(/is taken by another program\. Set HTTP_PORT/)
  })

  it('closes although a client keeps its connection and sends nothing', async () => {
    const url = await serve()
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    await new Promise((resolve) => socket.once('connect', resolve))
    const [server] = servers.splice(0)
    await server?.close()
    socket.destroy()
  })
})
