// What the recorded service says when it refuses, told whole: every complaint, the request, and the limit that was probably met.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Environment } from '../../src/config/load.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { UpstreamError } from '../../src/upstream/http/errors.ts'
import { environmentFor } from '../support/environment.ts'
import { callVerb } from '../support/verbs.ts'

let simulator: Simulator
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-refusals-'))
  simulator = await startSimulator({ look: 'recorded', assignments: 5, notes: 2, trackers: 2 })
})
afterAll(async () => {
  await simulator.close()
  await rm(folder, { recursive: true })
})

async function refused(words: readonly string[], more: Environment = {}) {
  const { error, stdout } = await callVerb(['api', ...words], environmentFor(simulator, null, more))
  expect(error).toBeInstanceOf(UpstreamError)
  const { message, status } = error as UpstreamError
  expect(message).not.toContain('\n')
  return { message, status, stdout }
}
const file = async (content: string) => {
  const path = join(folder, 'body.json')
  await writeFile(path, content)
  return path
}

describe('a refusal', () => {
  it('is told with every entry of its errors, and printed entire', async () => {
    const long = 'x'.repeat(51)
    const body = await file(
      `{"assignmentIdext":"${long}","zipCode":"12345678901","city":"${'y'.repeat(300)}"}`,
    )
    const { message, status, stdout } = await refused(['POST', '/api/Assignment', '--body', body])
    expect(status).toBe(400)
    expect(message).toContain('One or more validation errors occurred.')
    expect(message).toContain('ZipCode: The field ZipCode must be a string with a maximum length of 10.')
    expect(message).toContain(
      'AssignmentIdext: The field AssignmentIdext must be a string with a maximum length of 50.',
    )
    const printed = JSON.parse(stdout)
    expect(printed).toMatchObject({ status: 400, traceId: expect.any(String) })
    expect(Object.keys(printed.errors)).toEqual(expect.arrayContaining(['ZipCode', 'AssignmentIdext']))
  })

  it('is told with its detail', async () => {
    const unknown = '00000000-0000-4000-8000-00000000dead'
    const body = await file('{"assignmentIdext":"T-9"}')
    const { message } = await refused(['POST', '/api/Assignment', '--body', body], { CLIENT_GUID: unknown })
    expect(message).toMatch(
      /^POST \S+\/api\/Assignment: status 400.*It says: Bad Request\. Unknown client\.$/,
    )
  })

  it('is told with what was asked', async () => {
    simulator.behaviour.unknownNames = 'error'
    simulator.faults.add({ kind: 500, times: 20, path: '/api/Assignment' })
    try {
      const words = ['GET', '/api/Assignment', '--query', 'Sorts=nosuch', '--query', 'Page=2']
      expect((await refused(words)).message).toContain('It was asked with ?Sorts=nosuch&Page=2.')
    } finally {
      simulator.behaviour.unknownNames = 'whole-list'
      simulator.faults.clear()
    }
  })

  it('names the limit of a form that a file is too large for', async () => {
    const path = join(folder, 'large.bin')
    await writeFile(path, Buffer.alloc(3_800_000))
    const words = ['POST', '/api/Assignment/Id/3/attachment', '--form', `FileData=@${path}`]
    const { message } = await refused(words)
    expect(message).toContain('A value of a form may have 4 MiB there, that is a file of 3.1 MB.')
    await writeFile(path, Buffer.alloc(3_100_000))
    expect(await callVerb(['api', ...words], environmentFor(simulator, null, {}))).toMatchObject({ code: 0 })
  })

  it('of an external id with a slash names the filter that finds the record', async () => {
    simulator.source.change('assignment', 4, { AssignmentIdext: 'WO/5,a' })
    const { message, status } = await refused(['GET', '/api/Assignment/IdExt/WO%2F5,a'])
    expect(status).toBe(404)
    const [, advised = ''] = /Look it up in the list: GET (\S+) and go on with its id\./.exec(message) ?? []
    const { stdout } = await callVerb(['api', 'GET', advised], environmentFor(simulator, null, {}))
    expect(JSON.parse(stdout)).toMatchObject([{ assignmentIdext: 'WO/5,a' }])
    expect((await refused(['DELETE', '/api/AssignmentNote/N%2F1'])).message).toContain('assignmentNoteIdext')
    const raw = await callVerb(
      ['api', 'GET', '/api/Assignment/IdExt/WO/5,a'],
      environmentFor(simulator, null),
    )
    expect(String(raw.error)).toContain('Write a slash inside an id as %2F.')
    expect((await refused(['GET', '/api/Assignment/IdExt/nosuch'])).message).not.toContain('slash')
  })

  it('of a token takes its reason from WWW-Authenticate, because its body is empty', async () => {
    const elsewhere = await startSimulator({ look: 'recorded', assignments: 1 })
    const { message } = await refused(['GET', '/api/Assignment'], { AUTH_URL: elsewhere.authUrl })
    await elsewhere.close()
    expect(message).toMatch(/rejects the token \(invalid_token: The signature key was not found\), and also/)
  })

  it('by hanging up says how much was sent', async () => {
    const server = createServer((request) => {
      if (request.url?.includes('/Token')) return
      let received = 0
      request.on('data', (chunk: Buffer) => {
        received += chunk.length
        if (received > 1_000_000) request.socket.resetAndDestroy()
      })
    }).listen(0, '127.0.0.1')
    const url = `http://127.0.0.1:${await new Promise<number>((resolve) => server.once('listening', () => resolve((server.address() as AddressInfo).port)))}`
    const path = join(folder, 'large.bin')
    await writeFile(path, Buffer.alloc(12_000_000))
    const words = ['POST', '/api/Assignment/Id/3/attachment', '--form', `FileData=@${path}`]
    const { message } = await refused(words, { ASSIGNMENT_BASE_URL: url })
    server.close()
    const [, sent = '', total = ''] =
      / ([\d,]+) of ([\d,]+) bytes were sent\. Services hang up on/.exec(message) ?? []
    const [sentBytes, totalBytes] = [sent, total].map((text) => Number(text.replaceAll(',', '')))
    expect(totalBytes).toBeGreaterThan(16_000_000)
    expect(sentBytes).toBeGreaterThan(500_000)
    expect(sentBytes).toBeLessThan(totalBytes as number)
  })
})
