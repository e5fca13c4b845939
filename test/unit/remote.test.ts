// The terminal over the API of a worker, when what answers is not such a worker.

import { createServer, type RequestListener } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { explain } from '../../src/cli/explain.ts'
import { pause } from '../../src/cli/pause.ts'
import { token } from '../../src/cli/token.ts'
import { DatabaseError, UsageError } from '../../src/util/errors.ts'
import { callCommand } from '../support/verbs.ts'

async function answering(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  onTestFinished(() => void server.close())
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
}
const at = (url: string) => ({ TIDEMARK_URL: url, TIDEMARK_TOKEN: 'a-canary-token' })
const saying = (status: number, body: unknown) =>
  answering((_request, response) => response.writeHead(status).end(JSON.stringify(body)))

describe('the terminal at TIDEMARK_URL', () => {
  it('follows nobody to another host, with its token or without (P9)', async () => {
    const asked: string[] = []
    const elsewhere = await answering(({ url = '' }, response) => {
      asked.push(url)
      response.end('[]')
    })
    const url = await answering((request, response) =>
      response.writeHead(307, { location: elsewhere + request.url }).end(),
    )
    for (const called of [
      callCommand(token, ['list'], at(url)),
      callCommand(pause, ['assignment', '--reason', 'a secret'], at(url)),
    ])
      await expect(called).rejects.toThrow(`The worker at ${url} (TIDEMARK_URL) answers 307. Is it Tidemark?`)
    expect(asked).toEqual([])
  })

  it('asks for a token where none was sent, and not before it is needed', async () => {
    const url = await saying(401, { detail: 'Send a token.' })
    for (const called of [
      callCommand(token, ['list'], { TIDEMARK_URL: url }),
      callCommand(explain, ['assignment', '3'], { TIDEMARK_URL: url }),
    ])
      await expect(called).rejects.toThrow(`The worker at ${url} asks who you are: set TIDEMARK_TOKEN.`)
    const asked: string[] = []
    const open = await answering(({ method, url: path = '' }, response) => {
      asked.push(`${method} ${path}`)
      response.writeHead(method === 'POST' ? 401 : 200).end('{}')
    })
    await expect(callCommand(explain, ['assignment', '3'], { TIDEMARK_URL: open })).rejects.toThrow('version')
    expect(asked).toEqual(['POST /api/v1/records/assignment/3/compare', 'GET /api/v1/records/assignment/3'])
  })

  it.each([
    [200, [{ label: 'ola' }], DatabaseError, 'use the version of the worker'],
    [200, { tokens: [] }, DatabaseError, 'use the version of the worker'],
    [
      401,
      { detail: 'No token is taken.' },
      UsageError,
      'refuses the token in TIDEMARK_TOKEN: No token is taken.',
    ],
    [404, {}, DatabaseError, 'answers 404. Is it Tidemark?'],
    [409, { detail: 'As things stand.' }, UsageError, 'As things stand.'],
    [503, { detail: 'Not now.' }, DatabaseError, 'answers 503. Not now.'],
  ] as const)('says in a line what is wrong with %d %j', async (status, body, kind, words) => {
    const called = callCommand(token, ['list'], at(await saying(status, body)))
    await expect(called).rejects.toThrow(words)
    await expect(called).rejects.toThrow(kind)
    await expect(called).rejects.not.toThrow(/\n|a-canary-token/)
  })
})
