// Where a description of the upstream is found, and what else may be there instead: asked over real HTTP, within bounds.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { findDescription } from '../../src/openapi/find-description.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openServerClient, openSimulatorClient, startServer } from '../support/client.ts'

const signal = new AbortController().signal
const description = {
  openapi: '3.0.3',
  info: { title: 'Small', version: '1' },
  paths: { '/api/Thing': { get: { responses: { 200: { description: 'OK' } } } } },
}

describe('a description', () => {
  let directory = ''
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tidemark-contract-'))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  it('is found where services of ASP.NET have it, with all that it names', async () => {
    await using simulator = await startSimulator({ look: 'recorded' })
    const upstream = openSimulatorClient(simulator)
    const finding = await findDescription({ kind: 'usual' }, upstream, signal)
    if (finding.found !== 'description') throw new Error(JSON.stringify(finding))
    expect(finding.at).toBe(`${simulator.assignmentUrl}/openapi/v1.json`)
    expect(finding.description.types.TblAssignment?.fields.length).toBeGreaterThan(50)
  })

  it('may not be there, which is no fault', async () => {
    await using simulator = await startSimulator({ look: 'recorded', behaviour: { openApiOff: true } })
    const upstream = openSimulatorClient(simulator)
    expect(await findDescription({ kind: 'usual' }, upstream, signal)).toEqual({ found: 'nothing' })
  })

  it('may be at the root of the host, and only for those who sign in, or only for those who do not', async () => {
    for (const wantsToken of [true, false]) {
      await using service = await startServer(({ url, headers }, response) => {
        const isLetIn =
          url === '/swagger/v1/swagger.json' && (headers.authorization !== undefined) === wantsToken
        response.statusCode = isLetIn ? 200 : url === '/swagger/v1/swagger.json' ? 401 : 404
        response.setHeader('content-type', 'application/json')
        response.end(isLetIn ? JSON.stringify(description) : '')
      })
      const upstream = openServerClient(service, { baseUrl: `${service.url}/below` })
      const finding = await findDescription({ kind: 'usual' }, upstream, signal)
      expect(finding).toMatchObject({ found: 'description', at: `${service.url}/swagger/v1/swagger.json` })
    }
  })

  it('is asked of another host without the token', async () => {
    await using simulator = await startSimulator()
    const headers: IncomingHttpHeaders[] = []
    await using other = await startServer((request, response) => {
      headers.push(request.headers)
      response.setHeader('content-type', 'application/yaml')
      response.end(stringify(description))
    })
    const upstream = openSimulatorClient(simulator)
    const finding = await findDescription({ kind: 'url', at: `${other.url}/api.yaml` }, upstream, signal)
    expect(finding).toMatchObject({ found: 'description', description: { openApi: '3.0.3' } })
    expect(headers.map(({ authorization }) => authorization)).toEqual([undefined])
  })

  it('is read from a file, as JSON and as YAML', async () => {
    for (const [name, text] of [
      ['a.json', `\ufeff${JSON.stringify(description)}`],
      ['b.yml', stringify(description)],
    ] as const) {
      await writeFile(join(directory, name), text)
      expect(await findDescription({ kind: 'file', at: join(directory, name) }, null, signal)).toMatchObject({
        found: 'description',
        description: { title: 'Small', operations: [{ method: 'GET', path: '/api/Thing' }] },
      })
    }
  })

  it('is read in YAML without comparing each name with all others (P10)', { timeout: 60_000 }, async () => {
    const at = join(directory, 'names.yml')
    const lines = Array.from({ length: 30_000 }, (_, index) => `  k${index}: 1`)
    await writeFile(at, `openapi: 3.0.3\ninfo:\n${lines.join('\n')}\npaths:\n  /a: {get: {responses: {}}}`)
    const before = process.cpuUsage()
    expect(await findDescription({ kind: 'file', at }, null, signal)).toMatchObject({ found: 'description' })
    // With comparisons it took 5.3 s, a time that grows with the square of the names.
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1e6).toBeLessThan(3)
  })

  it.each<[string, string, string]>([
    ['no file', '', 'cannot be read (ENOENT)'],
    ['JSON that is cut off', '{"openapi":"3.0.3","paths":{', 'it is not JSON'],
    ['words', 'hello: [', 'neither JSON nor YAML'],
    ['another JSON', '{"success":false,"data":[]}', 'does not say which OpenAPI'],
    ['aliases that repeat each other', bomb(), 'neither JSON nor YAML'],
    [
      'nesting without end',
      `{"openapi":"3.0.3","paths":{"/a":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}}`,
      'nested too deeply',
    ],
    ['lists without end', `${'['.repeat(200_000)}${']'.repeat(200_000)}`, 'nested too deeply'],
  ])('that is none is told: %s', async (name, text, words) => {
    const at = join(directory, `${name}.txt`)
    if (text !== '') await writeFile(at, text)
    const finding = await findDescription({ kind: 'file', at }, null, signal)
    expect(finding).toMatchObject({ found: 'unusable', at, why: expect.stringContaining(words) })
  })

  it.each<[string, number, object | string]>([
    ['an error that is no error', 200, { error: 'no such page' }],
    ['a word', 200, 'OK'],
    ['a failure', 500, { title: 'An error occurred' }],
    ['a description of Swagger 2.0', 200, { swagger: '2.0', paths: {} }],
  ])('is found behind other answers at the usual places: %s', async (_, status, body) => {
    let isThere = true
    await using service = await startServer(({ url }, response) => {
      const [code, answer] =
        url === '/openapi/v1.json'
          ? [status, body]
          : url === '/swagger/v1/swagger.json' && isThere
            ? [200, description]
            : [404, '']
      response.writeHead(code, { 'content-type': 'application/json' })
      response.end(typeof answer === 'string' ? answer : JSON.stringify(answer))
    })
    const upstream = openServerClient(service)
    const look = () => findDescription({ kind: 'usual' }, upstream, signal)
    expect(await look()).toMatchObject({ found: 'description', at: `${service.url}/swagger/v1/swagger.json` })
    isThere = false
    const otherwise =
      status === 500 ? 'no answer' : typeof body === 'object' && 'swagger' in body ? 'unusable' : 'nothing'
    expect((await look()).found).toBe(otherwise)
  })

  it('is looked for in all other places at once where the first has none', async () => {
    let underWay = 0
    let most = 0
    await using service = await startServer((_, response) => {
      underWay++
      most = Math.max(most, underWay)
      setTimeout(() => {
        underWay--
        response.writeHead(404).end()
      }, 50)
    })
    const upstream = openServerClient({ ...service, url: `${service.url}/api-of-it` })
    expect((await findDescription({ kind: 'usual' }, upstream, signal)).found).toBe('nothing')
    expect(most).toBe(5)
  })

  it('is asked for once where the service is down', async () => {
    await using service = await startServer((_, response) => response.writeHead(429).end())
    const upstream = openServerClient(service)
    expect((await findDescription({ kind: 'usual' }, upstream, signal)).found).toBe('no answer')
    expect(service.received.length).toBeLessThanOrEqual(2)
  })

  it('that is refused is told with the status, and no address with its query (P9)', async () => {
    let isLetIn = false
    await using service = await startServer((_, response) => {
      response.writeHead(isLetIn ? 200 : 401, { 'content-type': 'application/json' })
      response.end(isLetIn ? JSON.stringify(description) : '')
    })
    const upstream = openServerClient(service)
    const place = { kind: 'url', at: `${service.url}/api.json?code=SECRET` } as const
    const at = `${service.url}/api.json`
    expect(await findDescription(place, upstream, signal)).toEqual({
      found: 'unusable',
      at,
      why: 'status 401',
    })
    isLetIn = true
    expect(await findDescription(place, upstream, signal)).toMatchObject({ found: 'description', at })
  })

  it('of 100 MB is cut off while it streams in', async () => {
    let sent = 0
    await using service = await startServer(({ url }, response) => {
      if (url !== '/openapi/v1.json') return response.writeHead(404).end()
      response.setHeader('content-type', 'application/json')
      const piece = Buffer.alloc(1024 * 1024, ' ')
      const go = () => {
        while (sent < 100 && !response.destroyed) {
          sent++
          if (response.write(piece)) continue
          response.once('drain', go)
          return
        }
        response.end('{}')
      }
      return go()
    })
    const upstream = openServerClient(service)
    expect(await findDescription({ kind: 'usual' }, upstream, signal)).toEqual({
      ...{ found: 'unusable', at: `${service.url}/openapi/v1.json` },
      why: 'it is larger than 16 MB',
    })
    expect(sent).toBeLessThan(60)
  })

  it('leads to no other host by its references, and nowhere by a redirect', async () => {
    await using trap = await startServer((_, response) => response.end('{}'))
    const remote = {
      ...description,
      components: {
        schemas: { A: { type: 'object', properties: { a: { $ref: `${trap.url}/x.json#/A` } } } },
      },
    }
    await using service = await startServer(({ url }, response) => {
      if (url === '/moved') return response.writeHead(302, { location: `${trap.url}/y.json` }).end()
      response.setHeader('content-type', 'application/json')
      return response.end(JSON.stringify(remote))
    })
    const upstream = openServerClient(service)
    const finding = await findDescription({ kind: 'usual' }, upstream, signal)
    if (finding.found !== 'description') throw new Error(JSON.stringify(finding))
    expect(finding.description.remarks.join()).toContain('leads out of the description and is not followed')
    expect(
      await findDescription({ kind: 'url', at: `${service.url}/moved` }, upstream, signal),
    ).toMatchObject({
      found: 'unusable',
      why: expect.stringContaining('redirect'),
    })
    expect(trap.received).toEqual([])
  })

  it('is no page that a service answers to everything, and nobody’s fault while it is down', async () => {
    let status = 200
    await using service = await startServer((_, response) => {
      response.writeHead(status, { 'content-type': 'text/html' }).end('<!doctype html><title>app</title>')
    })
    const upstream = openServerClient(service)
    expect(await findDescription({ kind: 'usual' }, upstream, signal)).toEqual({ found: 'nothing' })
    status = 503
    expect(await findDescription({ kind: 'usual' }, upstream, signal)).toMatchObject({ found: 'no answer' })
  })
})

/** Nine levels of ten: a billion words, if anybody wrote them out. */
function bomb(): string {
  const levels = Array.from(
    { length: 9 },
    (_, n) => `l${n + 1}: &l${n + 1} [${Array(10).fill(`*l${n}`).join(',')}]`,
  )
  return ['openapi: 3.0.3', 'l0: &l0 [a]', ...levels].join('\n')
}
