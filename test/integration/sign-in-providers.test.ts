// Signing in against identity providers of a few lines, which answer, refuse and dawdle each in a way of its own.

import { PassThrough } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { environmentOf } from '../../src/config/of-source.ts'
import { openConfiguredUpstream } from '../../src/configured.ts'
import { openLog } from '../../src/log.ts'
import {
  type Client,
  failureOf,
  jumpingClock,
  noSignal,
  openServerClient,
  startServer,
} from '../support/client.ts'
import { complete } from '../support/settings.ts'

const list = (client: Client, signal = noSignal) => client.call('listAssignments', {}, signal)
const times = <Value>(count: number, make: () => Promise<Value>) =>
  Promise.all(Array.from({ length: count }, make))

describe('with identity providers that', () => {
  const ok = (_: unknown, response: { end(text: string): void }) => response.end('[]')

  it('tell the end of a token: it is renewed before, without anybody waiting', async () => {
    let count = 0
    const used: (string | undefined)[] = []
    await using server = await startServer(
      ({ headers }, response) => {
        used.push(headers.authorization)
        response.end('[]')
      },
      (_, response) =>
        response.end(JSON.stringify({ accessToken: `token-number-${++count}`, expiresIn: 3600 })),
    )
    const clock = jumpingClock()
    const client = openServerClient(server, { clock })
    await list(client)
    clock.advance(3500_000)
    await list(client)
    expect(count).toBe(1)
    clock.advance(60_000)
    await list(client)
    await expect.poll(() => client.told.signIns).toHaveLength(2)
    await list(client)
    clock.advance(7200_000)
    await list(client)
    expect(used.map((bearer) => bearer?.at(-1))).toEqual(['1', '1', '1', '2', '3'])
  })

  it('do not tell when a token ends, and the upstream refuses it with a 403 then (P8)', async () => {
    let count = 0
    let ended = 0
    await using server = await startServer(
      ({ headers }, response) => {
        if (Number(headers.authorization?.at(-1)) <= ended) response.writeHead(403)
        response.end('[]')
      },
      (_, response) => response.end(`"token-number-${++count}"`),
    )
    const clock = jumpingClock()
    const client = openServerClient(server, { clock })
    await list(client)
    clock.advance(3600_000)
    ended = 1
    await times(5, () => list(client))
    expect(count).toBe(2)
    ended = 9
    expect(await failureOf(list(client))).toMatchObject({ status: 403, retryable: false })
    expect(count).toBe(2)
    clock.advance(3600_000)
    await times(5, () => failureOf(list(client)))
    expect(count).toBe(3)
  })

  it('refuse another token as well leave the one that is there to go on with', async () => {
    let count = 0
    const rights = { refused: true }
    await using server = await startServer(
      (_, response) => {
        if (rights.refused) response.writeHead(403)
        response.end('[]')
      },
      (_, response) => {
        if (++count > 1) response.writeHead(401)
        response.end('"the-only-token"')
      },
    )
    const clock = jumpingClock()
    const client = openServerClient(server, { clock })
    for (let hour = 0; hour < 3; hour++) {
      expect((await failureOf(list(client))).message).toContain('Check CLIENT_GUID')
      clock.advance(3600_000)
    }
    expect(count).toBe(3)
    rights.refused = false
    await list(client)
  })

  it('hand out the same token until its end are not asked for each request', async () => {
    let count = 0
    const endsAt = new Date(Date.now() + 3600_000).toISOString()
    await using server = await startServer(ok, (_, response) => {
      count++
      // Its clock would not have jumped.
      response.sendDate = false
      response.end(JSON.stringify({ token: 'always-the-same', expiresAt: endsAt }))
    })
    const clock = jumpingClock()
    const client = openServerClient(server, { clock })
    await list(client)
    clock.advance(3590_000)
    for (let round = 0; round < 10; round++) await list(client)
    await expect.poll(() => client.told.signIns).toHaveLength(2)
    clock.advance(5_000)
    for (let round = 0; round < 10; round++) await list(client)
    expect(count).toBe(2)
  })

  it('hand out a token again that is rejected are named in the log with the source that signs in', async () => {
    await using server = await startServer((_, response) => response.writeHead(401).end())
    const lines: string[] = []
    const stream = new PassThrough()
    stream.on('data', (line) => lines.push(String(line)))
    const variables = { ...complete, ASSIGNMENT_BASE_URL: server.url, AUTH_URL: `${server.url}/auth` }
    const config = loadConfig(environmentOf('acme', variables))
    const upstream = openConfiguredUpstream({ config, log: openLog({ level: 'info', stream }) }, 'assignment')
    await failureOf(upstream.call('listAssignments', {}, noSignal))
    upstream.close()
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      source: 'acme',
      msg: expect.stringContaining('the acme.assignment service rejects its token'),
    })
  })

  it('answer something else: the fields are named, never their values', async () => {
    let count = 0
    await using server = await startServer(ok, (_, response) => {
      count++
      response.end(JSON.stringify({ ticket: 'canary-value', data: { code: 'canary-value' } }))
    })
    const client = openServerClient(server)
    const error = await failureOf(list(client))
    expect(error).toMatchObject({ code: 'UPSTREAM_SIGN_IN', retryable: false })
    expect(error.message).toContain('the fields are ticket, data.code. Check AUTH_URL.')
    expect(`${error.stack}${JSON.stringify(error)}${client.logged()}`).not.toContain('canary')
    expect((await failureOf(list(client))).code).toBe('UPSTREAM_SIGN_IN')
    expect(count).toBe(1)
  })

  it.each([302, 307])('send elsewhere are not followed: the key stays here (P9, %s)', async (status) => {
    await using elsewhere = await startServer(ok)
    await using server = await startServer(ok, (_, response) => {
      response.writeHead(status, { location: `${elsewhere.url}/api/Token` }).end()
    })
    const error = await failureOf(list(openServerClient(server)))
    expect(error).toMatchObject({ retryable: false })
    expect(elsewhere.received).toEqual([])
  })

  it('hand out a token that would be a header of its own are not believed', async () => {
    await using server = await startServer(ok, (_, response) =>
      response.end(JSON.stringify({ accessToken: 'a-token-of-theirs\r\nx-forged: yes' })),
    )
    const error = await failureOf(list(openServerClient(server)))
    expect(error.message).not.toContain('a-token')
    expect(server.received).toEqual([])
  })

  it('show a page instead are named so', async () => {
    await using server = await startServer(ok, (_, response) => response.end('<html>Log in here</html>'))
    expect((await failureOf(list(openServerClient(server)))).message).toContain('a page of HTML or XML')
  })

  it('are overloaded for a moment are asked again, within bounds', async () => {
    let count = 0
    await using server = await startServer(ok, (_, response) => {
      if (++count === 3) response.end('"a-token-for-tests"')
      else response.writeHead(503).end()
    })
    const client = openServerClient(server)
    await times(5, () => list(client))
    expect(count).toBe(3)
  })

  it('stay overloaded fail the request after as many tries as any', async () => {
    let count = 0
    await using server = await startServer(ok, (_, response) => {
      count++
      response.writeHead(502).end('<html>Bad gateway</html>')
    })
    const error = await failureOf(list(openServerClient(server)))
    expect(error).toMatchObject({ code: 'UPSTREAM_SIGN_IN_AWAY', retryable: true, status: 502 })
    expect(count).toBe(4)
    expect(server.received).toEqual([])
  })

  it('P10: want to be left alone are, also by the next request', async () => {
    let count = 0
    await using server = await startServer(ok, (_, response) => {
      count++
      response.writeHead(429, { 'retry-after': '600' }).end()
    })
    const clock = jumpingClock()
    let round = 0
    // Nor does another key shorten that.
    const client = openServerClient(server, { clock, apiKey: () => `key ${round} of the tests` })
    for (; round < 3; round++) {
      const error = await failureOf(list(client))
      expect(error).toMatchObject({
        code: 'UPSTREAM_SIGN_IN_AWAY',
        retryable: true,
        notBefore: expect.any(Date),
      })
    }
    expect(count).toBe(1)
    clock.advance(600_000)
    await failureOf(list(client))
    expect(count).toBe(2)
  })

  it('P10: want to be left alone for years are asked again after an hour, and then it goes on', async () => {
    let count = 0
    await using server = await startServer(ok, (_, response) => {
      if (++count > 2) response.end('"a-token-for-tests"')
      else response.writeHead(503, { 'retry-after': '999999999' }).end()
    })
    const clock = jumpingClock()
    const client = openServerClient(server, { clock })
    for (const hour of [1, 2]) {
      for (let round = 0; round < 2; round++) {
        const error = await failureOf(list(client))
        expect(error).toMatchObject({ code: 'UPSTREAM_SIGN_IN_ASKS_LATER', retryable: true, status: 503 })
        expect(error.message).toMatch(/no requests before 20[5-9]\d-/)
      }
      expect(count).toBe(hour)
      clock.advance(3_600_000)
    }
    expect((await list(client)).status).toBe(200)
  })

  it('are slow: who gives up leaves the others waiting for the same sign-in', async () => {
    let finish = () => {}
    await using server = await startServer(ok, (_, response) => {
      finish = () => response.end('"a-token-for-tests"')
    })
    const client = openServerClient(server)
    const controller = new AbortController()
    const gaveUp = list(client, controller.signal)
    const waits = list(client)
    controller.abort(new Error('enough'))
    await expect(gaveUp).rejects.toThrow('enough')
    await expect.poll(() => finish.toString()).toContain('response.end')
    finish()
    expect((await waits).status).toBe(200)
    expect(client.told.signIns).toHaveLength(1)
  })

  it('never answer: closing the client ends the sign-in', async () => {
    await using server = await startServer(ok, () => {})
    const client = openServerClient(server)
    const waits = list(client)
    waits.catch(() => {})
    await expect.poll(() => server.connections).toBe(1)
    client.close()
    await expect(waits).rejects.toThrow('the client was closed')
  })

  it.each([
    ['a token', '8 kB', JSON.stringify({ access_token: `t0ken.${'Ab3_'.repeat(12_000)}` })],
    ['a text', '8 kB', `t0ken.${'Ab3_'.repeat(12_000)}`],
    ['an answer', '64 kB', JSON.stringify({ access_token: `t0ken.${'Ab3_'.repeat(25_000)}` })],
    ['an answer without end', '64 kB', null],
  ])(
    'hand out %s that is too long: the sign-in fails in plain words, and works again with another (P9, P10)',
    async (_, most, long) => {
      let isLong = true
      await using server = await startServer(ok, async (_request, response) => {
        if (!isLong || long !== null) return void response.end(isLong ? long : '"a-token-for-tests"')
        response.on('error', () => {})
        while (!response.destroyed) if (!response.write('t0ken'.repeat(10_000))) await setTimeout(1)
      })
      const clock = jumpingClock()
      const client = openServerClient(server, { clock })
      const failure = await failureOf(list(client))
      expect(failure.code).toBe('UPSTREAM_SIGN_IN')
      expect(failure.message).toMatch(
        new RegExp(
          `^POST /auth/Token/GenerateAccessTokenFromCache: .* of more than ${most}, which .*Check AUTH_URL`,
        ),
      )
      expect(`${inspect(failure)} ${client.logged()}`).not.toMatch(/t0ken|Ab3_/)
      expect(client.told.signIns.map(({ outcome }) => outcome)).toEqual(['failed'])
      isLong = false
      clock.advance(3_600_000)
      expect((await list(client)).body).toEqual([])
    },
  )
})
