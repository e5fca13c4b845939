// The HTTP server itself: clients that are slow, many or hostile, names that a site could bind, and addresses that are taken.

import { connect } from 'node:net'
import { hostname } from 'node:os'
import { PassThrough } from 'node:stream'
import { Registry } from 'prom-client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openLog } from '../../src/log.ts'
import { readAssets } from '../../src/web/assets.ts'
import { html } from '../../src/web/html.ts'
import { healthRoutes, hookRoute, metricsRoute } from '../../src/web/monitoring.ts'
import { sendPage } from '../../src/web/pages/layout.ts'
import { AddressUnusable, byKnownNames, type Routes, startHttpServer } from '../../src/web/server.ts'
import { quietLog } from '../support/database.ts'
import { serve } from '../support/served-routes.ts'

const secret = 'a-webhook-secret-of-the-tests'

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
    onTestFinished(() => server.close())
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
      (server) =>
        void server.get('/page', async (_request, reply) =>
          sendPage(reply, {
            title: 'x',
            path: '/page',
            viewer: null,
            assets: readAssets(),
            problems: null,
            body: html`x`,
          }),
        ),
    ]
    const server = await startHttpServer({
      ...{ host: '127.0.0.1', port: 0, routes, log: quietLog, timeoutMs: 150 },
      publicUrl: 'https://mirror.example/x',
    })
    onTestFinished(() => server.close())
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
    onTestFinished(() => server.close())
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
    const { url, close } = await startHttpServer({
      ...{ host: '127.0.0.1', port: 0, log: quietLog },
      routes: [],
    })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    await new Promise((resolve) => socket.once('connect', resolve))
    await close()
    socket.destroy()
  })
})
