// The client on a network that fails in every way, and when a request is made again.

import { createServer, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  type Client,
  failureOf,
  noSignal,
  openClient,
  openServerClient,
  startServer,
} from '../support/client.ts'

const list = (client: Client, signal = noSignal) =>
  client.call('listAssignments', { query: { Page: 1 } }, signal)
const create = (client: Client) => client.call('createAssignment', { body: { Name: 'x' } }, noSignal)
const json = (type = 'application/json') => ({ 'content-type': type })

const oneTry = { attempts: 1, firstMs: 1, longestMs: 1, jitter: 0.5, deadlineMs: 1000 }

describe('the network', () => {
  it('that refuses is named with its host, and tried again', async () => {
    const server = await startServer(() => {})
    await server[Symbol.asyncDispose]()
    const client = openServerClient(server)
    const error = await failureOf(list(client))
    expect(error).toMatchObject({ code: 'UPSTREAM_SIGN_IN_AWAY', retryable: true, mayHaveArrived: false })
    expect(error.message).toContain(`127.0.0.1:${server.port} refuses the connection`)
    expect(error.message.match(/POST/g)).toHaveLength(1)
    expect(client.told.signIns).toMatchObject([{ outcome: 'failed' }])
  })

  it('that speaks no TLS is named so, and not tried again', async () => {
    await using server = await startServer(() => {})
    const client = openServerClient(server, { baseUrl: server.url.replace('http', 'https') })
    const error = await failureOf(list(client))
    expect(error).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', retryable: false, mayHaveArrived: false })
    expect(error.message).toContain('does not speak TLS')
  })

  it.each([
    ['announced', { 'content-length': '100' }, Buffer.from('[1]')],
    // All of it may be here but the end, which says so.
    ['in chunks', {}, Buffer.from('[1]')],
    ['packed', { 'content-encoding': 'gzip' }, gzipSync('[1]').subarray(0, -4)],
  ])('that breaks off an answer, %s, is asked again', async (_, headers, part) => {
    let count = 0
    await using server = await startServer((_, response) => {
      if (++count === 3) response.writeHead(200, json()).end('[1]')
      else {
        response.writeHead(200, { ...json(), ...headers })
        response.write(part, () => setTimeout(() => response.destroy(), 20))
      }
    })
    const client = openServerClient(server)
    expect((await list(client)).body).toEqual([1])
    expect(client.told.retries.map(({ reason }) => reason)).toEqual([
      'UPSTREAM_TRUNCATED',
      'UPSTREAM_TRUNCATED',
    ])
    expect(client.told.requests.map(({ status }) => status)).toEqual([null, null, 200])
  })

  it('that says nothing is given up after the timeout', async () => {
    await using server = await startServer(() => {})
    const client = openServerClient(server, { requestTimeoutMs: 500, retryPolicy: oneTry })
    expect(await failureOf(list(client))).toMatchObject({
      code: 'UPSTREAM_TIMEOUT',
      retryable: true,
      status: null,
    })
  })

  it.each([
    ['write', create],
    ['read', list],
  ])('that takes no connection in time cannot have got a %s', async (_, call) => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const baseUrl = `https://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
    await using provider = await startServer(() => {})
    const client = openServerClient(provider, { baseUrl, requestTimeoutMs: 600, retryPolicy: oneTry })
    const error = await failureOf(call(client))
    expect(error).toMatchObject({ code: 'UPSTREAM_TIMEOUT', retryable: true, mayHaveArrived: false })
    expect(error.message).toContain('no connection to')
    server.close()
  })

  it('that drips is given up after the same timeout', async () => {
    await using server = await startServer((_, response) => {
      response.writeHead(200, json())
      const drip = setInterval(() => response.write(' '), 5)
      response.on('close', () => clearInterval(drip))
    })
    const client = openServerClient(server, { requestTimeoutMs: 600, retryPolicy: oneTry })
    expect(await failureOf(list(client))).toMatchObject({ code: 'UPSTREAM_TIMEOUT', retryable: true })
  })

  it('that does not speak HTTP is a named error', async () => {
    const server = createServer((socket) => socket.end('SSH-2.0-nothing\r\n'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const url = `http://127.0.0.1:${port}`
    const error = await failureOf(list(openClient({ service: 'assignment', baseUrl: url, authUrl: url })))
    expect(error).toMatchObject({ code: 'UPSTREAM_SIGN_IN_AWAY', retryable: true })
    server.close()
  })

  it('that does not speak HTTP to a read is a named error', async () => {
    const server = createServer((socket) => socket.end('SSH-2.0-nothing\r\n'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const baseUrl = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
    await using provider = await startServer(() => {})
    const error = await failureOf(list(openServerClient(provider, { baseUrl, retryPolicy: oneTry })))
    expect(error).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', retryable: true })
    expect(error.message).toContain('HPE_INVALID_CONSTANT')
    server.close()
  })

  it('that stops in the middle of a request is stopped by the signal, at once and with its reason', async () => {
    const controller = new AbortController()
    await using server = await startServer(() => controller.abort(new Error('SIGTERM received')))
    await expect(list(openServerClient(server, { retryPolicy: oneTry }), controller.signal)).rejects.toThrow(
      'SIGTERM received',
    )
    await expect(list(openServerClient(server, { retryPolicy: oneTry }), controller.signal)).rejects.toThrow(
      'SIGTERM received',
    )
    expect(server.received).toHaveLength(1)
  })

  it('P9: fails without the library’s own error, which holds the headers', async () => {
    await using server = await startServer((request) => request.socket.destroy())
    const error = await failureOf(list(openServerClient(server)))
    expect(error).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', cause: { code: 'ECONNRESET' } })
    expect(Object.keys(error.cause as object)).toEqual(['code'])
  })
})

describe('a write', () => {
  it.each([500, 503, 429, 408])('P3: is not repeated after %i', async (status) => {
    await using server = await startServer((_, response) =>
      response.writeHead(status, { 'retry-after': '0' }).end(),
    )
    const error = await failureOf(create(openServerClient(server)))
    expect(error).toMatchObject({ code: 'UPSTREAM_STATUS', status, method: 'POST', mayHaveArrived: true })
    expect(server.received).toEqual(['POST /api/Assignment'])
  })

  it('is not repeated when the connection broke before the answer', async () => {
    await using server = await startServer((request) => request.socket.destroy())
    const error = await failureOf(create(openServerClient(server)))
    expect(error).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', mayHaveArrived: true })
    expect(server.received).toHaveLength(1)
  })

  it('is repeated when it cannot have arrived', async () => {
    const closed = await startServer(() => {})
    await closed[Symbol.asyncDispose]()
    await using server = await startServer(() => {})
    const client = openClient({ service: 'assignment', baseUrl: closed.url, authUrl: `${server.url}/auth` })
    const error = await failureOf(create(client))
    expect(error).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', mayHaveArrived: false })
    expect(client.told.retries).toHaveLength(3)
  })

  it('that is answered with another 2xx is done', async () => {
    await using server = await startServer((_, response) => response.writeHead(202).end())
    expect(await create(openServerClient(server))).toMatchObject({ status: 202, body: null })
  })
})

describe('a client that is closed', () => {
  it.each([
    ['GET', list],
    ['POST', create],
  ])('breaks a %s off, sends nothing again and leaves no connection', async (method, ask) => {
    const connections = new Set<Socket>()
    const { promise: isAsked, resolve: asked } = Promise.withResolvers<void>()
    await using server = await startServer(({ socket }) => {
      connections.add(socket)
      asked()
    })
    const client = openServerClient(server)
    const call = ask(client)
    await Promise.all([
      expect(call).rejects.toThrow('the client was closed'),
      isAsked.then(() => client.close()),
    ])
    await expect(ask(client)).rejects.toThrow('the client was closed')
    const address = new URL(server.url)
    await expect(client.askOnce(address, { isSigned: false, mostBytes: 100 }, noSignal)).rejects.toThrow(
      'the client was closed',
    )
    await expect.poll(() => [...connections].map(({ closed }) => closed)).toEqual([true])
    expect(server.received).toEqual([expect.stringMatching(new RegExp(`^${method} `))])
    expect(client.told.retries).toEqual([])
  })

  it('waits no longer to send a request again', async () => {
    await using server = await startServer((_, response) => response.writeHead(503).end())
    const client = openServerClient(server, {
      retryPolicy: { attempts: 4, firstMs: 60_000, longestMs: 60_000, jitter: 0, deadlineMs: 60_000 },
    })
    const call = list(client)
    await Promise.all([
      expect(call).rejects.toThrow('the client was closed'),
      expect
        .poll(() => client.told.retries.length)
        .toBe(1)
        .then(client.close),
    ])
    expect(server.received).toHaveLength(1)
  })
})
