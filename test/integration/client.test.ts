// What the client sends, and what it makes of answers, against small servers that misbehave in one way each.

import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { type Hiding, openHiding } from '../../src/wire/hidden-fields.ts'
import { isRecordPage } from '../../src/wire/record-page.ts'
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

describe('a request', () => {
  it('carries token, GUID, and what it accepts', async () => {
    await using server = await startServer(({ headers }, response) => {
      response.writeHead(200, json()).end(JSON.stringify([headers]))
    })
    const { body } = await list(openServerClient(server))
    expect(body).toMatchObject([
      {
        authorization: 'Bearer a-token-for-tests',
        clientid: '00000000-0000-4000-8000-000000000001',
        'user-agent': 'tidemark',
        'accept-encoding': expect.stringContaining('gzip'),
        accept: expect.stringContaining('application/json'),
      },
    ])
  })

  it('has no GUID for the tracking service', async () => {
    await using server = await startServer(({ headers }, response) => {
      response.writeHead(200, json()).end(JSON.stringify([Object.keys(headers)]))
    })
    const client = openClient({ service: 'tracking', baseUrl: server.url, authUrl: `${server.url}/auth` })
    const { body } = await client.call('listTrackerObjects', {}, noSignal)
    expect(body).toEqual([expect.not.arrayContaining(['clientid'])])
  })

  it('goes to its own service only', async () => {
    const client = openClient({
      service: 'tracking',
      baseUrl: 'http://127.0.0.1:9',
      authUrl: 'http://127.0.0.1:9',
    })
    await expect(list(client)).rejects.toThrow('listAssignments is an operation of the assignment service')
  })

  it('reads share a connection, each write has its own', async () => {
    await using server = await startServer((_, response) => response.writeHead(200, json()).end('{}'))
    const client = openServerClient(server)
    await list(client)
    const before = server.connections
    for (let count = 0; count < 5; count++) await list(client)
    expect(server.connections).toBe(before)
    for (let count = 0; count < 5; count++) await create(client)
    expect(server.connections).toBe(before + 5)
  })

  it.each(['https://user:pass@host.example', 'https://host.example/?a=b', 'https://host.example/#a'])(
    'P9: is not made with the base URL %s',
    (baseUrl) => {
      expect(() => openClient({ service: 'assignment', baseUrl, authUrl: 'https://host.example' })).toThrow(
        /^the base URL on host.example must have no user/,
      )
    },
  )
})

describe('an answer', () => {
  it.each(['application/json', 'text/json; charset=utf-8', 'text/plain', 'application/problem+json', ''])(
    'P4: is read exactly as %j',
    async (type) => {
      const text = '[{"Id":9007199254740993,"Price":10.50,"Name":"ø\\ud800"}]'
      await using server = await startServer((_, response) =>
        response.writeHead(200, type ? json(type) : {}).end(text),
      )
      const answer = await list(openServerClient(server))
      expect(JSON.stringify(answer.body)).toBe(text)
      expect(answer).toMatchObject({ status: 200, bytes: Buffer.byteLength(text), date: expect.any(Date) })
    },
  )

  it('may be compressed', async () => {
    const text = JSON.stringify([{ Name: 'x'.repeat(100_000) }])
    await using server = await startServer((_, response) => {
      response.writeHead(200, { ...json(), 'content-encoding': 'gzip' }).end(gzipSync(text))
    })
    expect(JSON.stringify((await list(openServerClient(server))).body)).toBe(text)
  })

  it('comes in the memory of one before it, announced or not, packed or not, and shows its own records', async () => {
    const counts = [900, 1, 4_000, 3_000, 5_000, 2, 4_500, 4_000]
    const textOf = (count: number) =>
      JSON.stringify(
        Array.from({ length: count }, (_, index) => ({ id: `${count}/${index}`, x: 'x'.repeat(40) })),
      )
    let answered = 0
    await using server = await startServer((_, response) => {
      const way = answered % 3
      const text = textOf(counts[answered++] ?? 0)
      if (way === 0) response.writeHead(200, { ...json(), 'content-length': text.length }).end(text)
      else if (way === 1)
        response.writeHead(200, { ...json(), 'content-encoding': 'gzip' }).end(gzipSync(text))
      else {
        response.writeHead(200, json())
        for (let at = 0; at < text.length; at += 50_000) response.write(text.slice(at, at + 50_000))
        response.end()
      }
    })
    const client = openServerClient(server)
    for (const count of counts) {
      const { body } = await client.callForRecords('listAssignments', { query: { Page: 1 } }, noSignal)
      if (!isRecordPage(body)) throw new Error('the list was not scanned')
      expect(JSON.stringify([...body])).toBe(textOf(count))
      body.release()
    }
  })

  it.each<[string, { status?: number; type?: string; body?: string | Buffer }, string, boolean, RegExp]>([
    [
      'a page with 200',
      { type: 'text/html', body: '<html>Login' },
      'UPSTREAM_HTML',
      true,
      /an HTML page, not JSON.*<html>Login$/,
    ],
    [
      'a page that calls itself JSON',
      { body: ' \n<!DOCTYPE html>' },
      'UPSTREAM_HTML',
      true,
      /<!DOCTYPE html>$/,
    ],
    [
      'another type',
      { type: 'application/octet-stream', body: 'x' },
      'UPSTREAM_CONTENT_TYPE',
      false,
      /type application\/octet-stream/,
    ],
    [
      'another charset',
      { type: 'text/plain; charset=iso-8859-1', body: '[]' },
      'UPSTREAM_CONTENT_TYPE',
      false,
      /UTF-8/,
    ],
    [
      'JSON cut off',
      { body: '[{"Id":1},{"Id":' },
      'UPSTREAM_JSON',
      true,
      /cut off \(16 bytes\).*It begins: \[\{"Id":1\}/,
    ],
    ['no body', { body: '' }, 'UPSTREAM_JSON', true, /no body/],
    ['not UTF-8', { body: Buffer.from('5b22ff225d', 'hex') }, 'UPSTREAM_JSON', false, /not valid UTF-8/],
    ['204 for a read', { status: 204 }, 'UPSTREAM_STATUS', false, /status 204/],
    ['400', { status: 400, body: '{"error":"why"}' }, 'UPSTREAM_STATUS', false, /status 400.*"why"/],
    ['403', { status: 403 }, 'UPSTREAM_STATUS', false, /CLIENT_GUID/],
    ['404', { status: 404 }, 'UPSTREAM_STATUS', false, /no such record/],
    ['500', { status: 500, body: 'x\ny' }, 'UPSTREAM_STATUS', true, /status 500.*x y$/],
    ['503', { status: 503 }, 'UPSTREAM_STATUS', true, /not available/],
  ])(
    'that is %s is a named error',
    async (_, { status = 200, type, body = '' }, code, retryable, message) => {
      await using server = await startServer((_request, response) =>
        response.writeHead(status, json(type)).end(body),
      )
      const client = openServerClient(server)
      const error = await failureOf(list(client))
      expect(error).toMatchObject({ code, retryable, method: 'GET', path: '/api/Assignment', status })
      expect(error.message).toMatch(message)
      expect(error.message).toMatch(/^GET \/api\/Assignment: /)
      expect(error.message).not.toContain('\n')
      expect(server.received).toHaveLength(retryable ? 4 : 1)
      expect(client.told.retries).toHaveLength(retryable ? 3 : 0)
    },
  )

  it('that is a redirect is not followed, least of all with the token', async () => {
    await using elsewhere = await startServer((_, response) => response.writeHead(200, json()).end('[]'))
    await using server = await startServer((_, response) => {
      response.writeHead(302, { location: `${elsewhere.url}/api/Assignment?secret=1` }).end()
    })
    const error = await failureOf(list(openServerClient(server)))
    expect(error).toMatchObject({ code: 'UPSTREAM_REDIRECT', retryable: false, status: 302 })
    expect(error.message).toContain(`${elsewhere.url}/api/Assignment. Tidemark does not send the token`)
    expect(error.message).not.toContain('secret')
    expect(elsewhere.received).toEqual([])
  })

  it.each([true, false])('P10: is not read beyond the size limit (told beforehand: %s)', async (isTold) => {
    await using server = await startServer((_, response) => {
      response.writeHead(200, { ...json(), ...(isTold && { 'content-length': '200000000' }) })
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      }
      response.on('drain', more)
      more()
    })
    const error = await failureOf(list(openServerClient(server, { maxResponseBytes: 1_000_000 })))
    expect(error).toMatchObject({ code: 'UPSTREAM_TOO_LARGE', retryable: false })
    expect(error.message).toMatch(/^GET \/api\/Assignment: the answer is larger than 1 MB\. /)
    expect(server.received).toHaveLength(1)
  })

  it('P10: is measured as it is when unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000, 'x'))
    await using server = await startServer((_, response) => {
      response.writeHead(200, { ...json(), 'content-encoding': 'gzip' }).end(bomb)
    })
    const error = await failureOf(list(openServerClient(server, { maxResponseBytes: 1_000_000 })))
    expect(error.code).toBe('UPSTREAM_TOO_LARGE')
  })

  it('is refused before anything is hidden in it when it holds too much, where its fields are private (P10, P20)', async () => {
    const body = JSON.stringify(Array.from({ length: 500_000 }, () => ({ Name: 1 })))
    await using server = await startServer((_, response) => response.writeHead(200, json()).end(body))
    let hidden = 0
    const hiding: Hiding = openHiding({
      ...{ hidesOwn: true, inside: () => hiding, other: () => '0' },
      of: () => () => String(++hidden),
    })
    const client = openServerClient(server, { privateAnswers: () => hiding })
    const outcome: unknown = await client.call('listAssignments', {}, noSignal).catch((error) => error)
    expect(hidden).toBe(0)
    expect(outcome).toMatchObject({ code: 'UPSTREAM_TOO_LARGE', retryable: false })
    expect(String(outcome)).toContain('the answer holds more than 300,000 records')
  })

  it.each(['gzip', 'br'])(
    'without a body is told by its status, though it says that it is packed (%s)',
    async (packing) => {
      await using server = await startServer((_, response) => {
        response.writeHead(429, { ...json(), 'content-encoding': packing, 'retry-after': '3600' }).end()
      })
      expect(await failureOf(list(openServerClient(server)))).toMatchObject({
        code: 'UPSTREAM_STATUS',
        status: 429,
        notBefore: expect.any(Date),
      })
      expect(server.received).toHaveLength(1)
    },
  )

  it('that is packed but damaged is a named error', async () => {
    const packed = gzipSync('[1,2,3]')
    packed.fill(0xff, 12)
    await using server = await startServer((_, response) => {
      response.writeHead(200, { ...json(), 'content-encoding': 'gzip' }).end(packed)
    })
    expect(await failureOf(list(openServerClient(server)))).toMatchObject({
      code: 'UPSTREAM_TRUNCATED',
      retryable: true,
    })
  })

  it('P9: that repeats what we sent is shown without token and key', async () => {
    await using server = await startServer(({ headers }, response) => {
      response
        .writeHead(500)
        .end(
          `you sent ${headers.authorization}, ${headers.authorization?.slice(7)} and an-api-key-of-the-tests`,
        )
    })
    const client = openServerClient(server)
    const error = await failureOf(list(client))
    expect(error.message).toContain('you sent Bearer [secret], [secret] and [secret]')
    expect(`${JSON.stringify(error)} ${error.stack} ${client.logged()}`).not.toMatch(
      /a-token-for-tests|an-api-key/,
    )
  })
})
