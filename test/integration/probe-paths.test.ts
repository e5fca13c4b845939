// What `tidemark init` finds out about the path of a base URL before anybody signs in.

import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { placesNear, probePath, type Service } from '../../src/cli/init-questions.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { noProxies } from '../../src/util/proxies.ts'

const probe = (base: string, service: Service) =>
  probePath(base, service, noProxies, AbortSignal.timeout(30_000))

async function listen(answer: RequestListener) {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe('the path of a base URL', () => {
  it('is found at the service itself, and nowhere else', async () => {
    await using simulator = await startSimulator({ assignments: 1 })
    const { assignmentUrl, authUrl, trackingUrl } = simulator
    const right = [
      [assignmentUrl, 'assignment'],
      [authUrl, 'identity'],
      [trackingUrl, 'tracking'],
    ] as const
    for (const [base, service] of right)
      expect(await probe(base, service), service).toMatchObject({ check: { isFine: true }, better: null })
    for (const [base, service] of right)
      expect(await probe(`${base}/wrong/deeper`, service), service).toMatchObject({
        check: { isFine: false, says: expect.stringContaining(`The service answers below ${base}.`) },
        better: base,
      })
    expect((await probe(`${assignmentUrl}/api/Assignment`, 'assignment')).better).toBe(assignmentUrl)
    expect((await probe(assignmentUrl, 'tracking')).better).toBe(trackingUrl)
  })

  it.each<[RequestListener, RegExp]>([
    [
      (_, reply) => reply.writeHead(404).end(),
      /^nothing is there \(404\)\. The base URL is the part before \/api/,
    ],
    [(_, reply) => reply.writeHead(200, { 'content-type': 'text/html' }).end('<p>hello'), /^is a web page/],
    [
      (_, reply) => reply.writeHead(302, { location: 'https://elsewhere.example/' }).end(),
      /^leads to another address \(302\): https:\/\/elsewhere\.example\//,
    ],
    [(request) => request.socket.destroy(), /could not|closed|connection/i],
  ])('says what is there instead: %s', async (answer, says) => {
    await using server = await listen(answer)
    const { check, better } = await probe(`${server.origin}/some/where`, 'assignment')
    expect({ better, isFine: check.isFine }).toEqual({ better: null, isFine: false })
    expect(check.says).toMatch(says)
  })

  it('is left to the sign-in where a gateway wants one for every path', async () => {
    await using server = await listen((_, reply) => reply.writeHead(401).end())
    expect(await probe(`${server.origin}/any`, 'assignment')).toMatchObject({ check: { isFine: true } })
  })

  it('is looked for above, and by the usual names', () => {
    expect(placesNear('https://h.example/a/b/api/Assignment/', 'assignment')).toEqual([
      ...['https://h.example/a/b', 'https://h.example/a', 'https://h.example'],
      ...['/a/b/assignment', '/a/assignment', '/assignment'].map((path) => `https://h.example${path}`),
    ])
  })
})
