// Requests that leave through a proxy: of the upstream, its sign-in and alerts, over http and https, and what is said when it refuses.

import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { probeHost } from '../../src/cli/probe-hosts.ts'
import { sendTest } from '../../src/problems/deliver.ts'
import { noProxies } from '../../src/util/proxies.ts'
import { makeCertificate } from '../support/certificate.ts'
import { type ClientChanges, failureOf, noSignal, openClient, startServer } from '../support/client.ts'
import { startProxy } from '../support/proxy.ts'

const list = (client: ReturnType<typeof openClient>) =>
  client.call('listAssignments', { query: { Page: 1 } }, noSignal)
const json = { 'content-type': 'application/json' }
const usual = getCACertificates('default')

describe('an upstream behind a proxy', () => {
  let server: Server
  let port = 0
  const bodies: string[] = []
  beforeAll(async () => {
    const { key, cert } = makeCertificate(inject('scratch'), 'DNS:api.example,DNS:hooks.example')
    setDefaultCACertificates([...usual, cert])
    server = createServer({ key, cert }, async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      bodies.push(`${request.method} ${request.headers.host}${request.url} ${Buffer.concat(chunks)}`)
      response.writeHead(200, json).end(request.url?.includes('/Token/') ? '"a-token-for-tests"' : '[]')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    port = (server.address() as AddressInfo).port
  })
  afterAll(async () => {
    setDefaultCACertificates(usual)
    server.closeAllConnections()
    server.close()
  })
  const open = (proxy: string, changes: ClientChanges = {}) =>
    openClient({
      ...{ service: 'assignment', baseUrl: 'https://api.example', authUrl: 'https://api.example/auth' },
      proxies: { ...noProxies, https: proxy },
      ...changes,
    })

  it('is signed in to and read through one tunnel each, with the password that the proxy wants and the certificate of the upstream', async () => {
    await using proxy = await startProxy({ 443: port })
    const client = open(proxy.url.replace('//', '//somebody:p%40ss-word@'))
    for (let time = 0; time < 3; time++) expect((await list(client)).status).toBe(200)
    // Connections of reads are kept; a sign-in has one of its own.
    expect(proxy.asked).toEqual(['CONNECT api.example:443', 'CONNECT api.example:443'])
    expect(proxy.credentials).toEqual(['somebody:p@ss-word', 'somebody:p@ss-word'])
    client.close()
  })

  it('over http is asked with its whole address', async () => {
    await using upstream = await startServer((_, response) => response.writeHead(200, json).end('[]'))
    await using proxy = await startProxy({ 80: upstream.port })
    const urls = { baseUrl: 'http://api.example', authUrl: 'http://api.example/auth' }
    const client = open(proxy.url, { ...urls, proxies: { ...noProxies, http: proxy.url } })
    expect((await list(client)).status).toBe(200)
    expect(proxy.asked).toEqual([
      'POST http://api.example/auth/Token/GenerateAccessTokenFromCache',
      'GET http://api.example/api/Assignment?Page=1',
    ])
    client.close()
  })

  it.each([
    [
      407,
      /the proxy 127\.0\.0\.1:\d+, through which api\.example is asked, answers 407: it wants a user and a password/,
    ],
    [403, /the proxy .* answers 403: it does not let requests to that host pass/],
    [502, /the proxy .* answers 502: it cannot reach that host/],
  ])(
    'is told of in plain words when the proxy answers %i, without the password (P9)',
    async (status, words) => {
      await using proxy = await startProxy({ 443: port })
      const client = open(proxy.url.replace('//', '//somebody:canary-word@'))
      const expectRefusal = async () => {
        const error = await failureOf(list(client))
        expect(error.message).toMatch(words)
        expect(error.message).toContain('NO_PROXY')
        expect(error).toMatchObject({ retryable: true, mayHaveArrived: false })
      }
      proxy.refusal = status
      await expectRefusal()
      proxy.refusal = null
      await list(client)
      // A write has a connection of its own.
      proxy.refusal = status
      const write = client.call('createAssignment', { body: { Name: 'x' } }, noSignal)
      expect((await failureOf(write)).message).toMatch(words)
      expect(client.logged()).not.toContain('canary-word')
      client.close()
    },
  )

  it('is told of by the name of the proxy when nobody listens there', async () => {
    const error = await failureOf(list(open('http://127.0.0.1:1')))
    expect(error.message).toMatch(
      /the proxy 127\.0\.0\.1:1, through which api\.example is asked, cannot be reached \(ECONNREFUSED\)/,
    )
  })

  it('is probed through the tunnel, down to its certificate', async () => {
    await using proxy = await startProxy({ 443: port })
    const proxies = { ...noProxies, https: proxy.url }
    const name = `proxy ${proxy.host}`
    const says = expect.stringMatching(/^api\.example is asked through it: TLSv1\.3, certificate valid until/)
    expect(await probeHost('https://api.example', proxies)).toEqual([{ name, isFine: true, says }])
    proxy.refusal = 403
    const refused = expect.stringMatching(/the proxy .* answers 403/)
    expect(await probeHost('https://api.example', proxies)).toEqual([{ name, isFine: false, says: refused }])
    expect(bodies.some((body) => body.startsWith('GET api.example/ '))).toBe(false)
  })

  it('gets alerts through it as well, and says so when it refuses', async () => {
    await using proxy = await startProxy({ 443: port })
    const receiver = { url: 'https://hooks.example/services/x', proxies: { ...noProxies, https: proxy.url } }
    expect(await sendTest(receiver, new Date(), noSignal)).toContain('was sent')
    expect(proxy.asked).toEqual(['CONNECT hooks.example:443'])
    expect(bodies.at(-1)).toMatch(/^POST hooks\.example\/services\/x \{.*This is a test/)
    proxy.refusal = 407
    await expect(sendTest(receiver, new Date(), noSignal)).rejects.toThrow(
      `the receiver cannot be reached through the proxy ${proxy.host} (it answers 407)`,
    )
  })
})
