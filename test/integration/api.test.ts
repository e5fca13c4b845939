// `tidemark api` against the stand-in: what a person types, and what is stdout.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { api } from '../../src/cli/api.ts'
import type { Environment } from '../../src/config/load.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { UsageError } from '../../src/util/errors.ts'
import { failureOf } from '../support/client.ts'
import { environmentFor } from '../support/environment.ts'
import { callCommand, runHere } from '../support/verbs.ts'

let simulator: Simulator
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-api-'))
  simulator = await startSimulator({
    assignments: 5,
    trackers: 2,
    credentials: { apiKey: 'canary-api-key', subjectId: 'canary-subject' },
  })
  simulator.requests.start()
})
afterAll(async () => {
  await simulator.close()
  await rm(folder, { recursive: true })
})

const run = (words: readonly string[], more: Environment = {}) =>
  callCommand(api, words, environmentFor(simulator, null, more))
const file = async (name: string, content: string | Buffer) => {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}
const latest = () => simulator.requests.entries.at(-1)

describe('tidemark api', () => {
  it('P4: prints the answer with every digit, indented', async () => {
    simulator.source.appendRaw('assignment', '{"AssignmentId":900,"Price":10.50,"Big":9007199254740993}', {
      id: 900,
    })
    const { code, stdout } = await run(['GET', '/api/Assignment/Id/900'])
    expect(code).toBe(0)
    expect(stdout).toBe('{\n  "AssignmentId": 900,\n  "Price": 10.50,\n  "Big": 9007199254740993\n}\n')
  })

  it('P5: says when a field came twice', async () => {
    simulator.source.appendRaw('assignment', '{"AssignmentId":901,"Name":"old","Name":"new"}', { id: 901 })
    const { stdout, logged } = await run(['GET', '/api/Assignment/Id/901'])
    expect(JSON.parse(stdout)).toEqual({ AssignmentId: 901, Name: 'new' })
    expect(logged).toContain('"earlier":{"Name":["old"]}')
  })

  it('refuses a name that is given twice, where it takes one value', async () => {
    await expect(run(['GET', '/api/Assignment?page=1', '--query', 'Page=2'])).rejects.toThrow(
      new UsageError('Page is given 2 times, and takes one value.'),
    )
  })

  it('sends a query whole that holds another question mark', async () => {
    await run(['GET', '/api/Assignment?Filters=Subject@=why?&Page=1'])
    expect(latest()).toMatchObject({ query: { Filters: 'Subject@=why?', Page: '1' } })
  })

  it('takes the query from the path, from options, and in any spelling of its names', async () => {
    await run(['get', 'api/assignment?page=1', '--query', 'pagesize=2', '--query', 'Filters=AssignmentId==3'])
    expect(latest()).toMatchObject({
      method: 'GET',
      path: '/api/Assignment',
      query: { Page: '1', PageSize: '2', Filters: 'AssignmentId==3' },
    })
  })

  it('P4: sends a file of JSON exactly', async () => {
    const body = '{"AssignmentId":3,"Price":1234567890123456.70}'
    const { code, stdout } = await run([
      'PUT',
      '/api/Assignment',
      '--body',
      await file('body.json', ` ${body}\n`),
    ])
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
    expect(latest()).toMatchObject({ method: 'PUT', body, status: 204 })
  })

  it('sends a form out of a file, fields, and the bytes of a file', async () => {
    const fields = await file(
      'form.json',
      '{"FileName":"a.bin","AttachmentType":3,"Description":"from the file"}',
    )
    const data = await file('a.bin', Buffer.from([0, 255, 1, 254]))
    const words = ['--form', fields, '--form', 'Description=a=b', '--form', `FileData=@${data}`]
    const { stdout } = await run(['POST', '/api/Assignment/Id/3/attachment', ...words])
    expect(JSON.parse(stdout)).toMatchObject({ Description: 'a=b', FileData: 'AP8B/g==', OwnerId: 3 })
    expect(latest()?.headers['content-type']).toBe('application/x-www-form-urlencoded')
  })

  it('asks the tracking service with its own credentials', async () => {
    const { stdout } = await run(['GET', '/api/TrackerObject', '--query', 'Pagesize=1'])
    expect(JSON.parse(stdout)).toHaveLength(1)
    await expect(run(['GET', '/api/TrackerObject'], { TRACKING_BASE_URL: undefined })).rejects.toThrow(
      'belongs to the tracking service: set TRACKING_BASE_URL.',
    )
  })

  it('fails with one line that says what the upstream said', async () => {
    const error = await failureOf(run(['GET', '/api/Assignment/Id/77']))
    expect(error.message).toMatch(/^GET \/assignment\/api\/Assignment\/Id\/77: status 404.*Not Found/)
    expect(error.message).not.toContain('\n')
  })

  it.each<[string, string[], string]>([
    ['nothing', [], 'takes a method and a path'],
    ['too much', ['GET', '/api/Assignment', 'x'], 'takes a method and a path'],
    [
      'another path',
      ['GET', '/api/Asignment'],
      'has no operation GET /api/Asignment. The nearest are GET /api/Assignment',
    ],
    [
      'another method',
      ['PATCH', '/api/Assignment/Id/5'],
      'The nearest are GET /api/Assignment/Id/{assignmentId}',
    ],
    ['a forgotten id', ['DELETE', '/api/Assignment/Id'], 'The nearest are'],
    ['a whole URL', ['GET', 'https://elsewhere.example/api/Assignment'], 'Write the path only'],
    ['an id out of bounds', ['GET', '/api/Assignment/Id/2147483648'], 'assignmentId must be a whole number'],
    [
      'an unknown parameter',
      ['GET', '/api/Assignment?x=1'],
      'has no parameter x: it takes Filters, Sorts, Page',
    ],
    [
      'half a parameter',
      ['GET', '/api/Assignment', '--query', 'Page'],
      '--query takes NAME=VALUE, not "Page".',
    ],
    ['a page below 1', ['GET', '/api/Assignment', '--query', 'Page=0'], 'Page must be a whole number from 1'],
    ['what is no JSON', ['POST', '/api/Assignment', '--body', '/dev/null'], '/dev/null is not valid JSON'],
    ['no body', ['POST', '/api/Assignment'], 'needs a body that is a JSON object. Write it to a file and'],
    [
      'half a path',
      ['GET', 'nosuch'],
      'has no operation GET nosuch. Paths begin with /api, e.g. /api/Assignment.',
    ],
    [
      'JSON for the name of its file',
      ['POST', '/api/Assignment', '--body', '{"Subject":"x"}'],
      '--body takes the name of a file, not JSON',
    ],
    [
      'a missing file',
      ['POST', '/api/Assignment', '--body', '/nowhere.json'],
      '/nowhere.json: there is no such file.',
    ],
    [
      'two bodies',
      ['POST', '/api/Assignment', '--body', 'a', '--form', 'b=c'],
      'Use either --body or --form, not both.',
    ],
  ])('refuses %s before anything is sent', async (_, words, message) => {
    const before = simulator.requests.entries.length
    const error: unknown = await run(words).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UsageError)
    expect((error as Error).message).toContain(message)
    expect((error as Error).message).not.toContain('\n')
    expect(simulator.requests.entries).toHaveLength(before)
  })

  it('does not print what the identity provider answers for what the operation would', async () => {
    const environment = environmentFor(simulator, null, { API_KEY: 'a wrong key of the tests' })
    const { code, stdout, stderr } = await runHere(['api', 'GET', '/api/Assignment/Id/1'], environment)
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(stderr).toContain('the identity provider refuses the sign-in')
  })

  it('P9: prints no secret, even when the upstream sends it back', async () => {
    await run(['GET', '/api/Assignment/Id/1'])
    const token = latest()?.headers.authorization?.toString().replace('Bearer ', '') ?? ''
    expect(token.length).toBeGreaterThan(100)
    const echo = JSON.stringify({
      AssignmentId: 902,
      A: token,
      B: `x canary-api-key y`,
      C: 'Bearer canary-bearer',
    })
    simulator.source.appendRaw('assignment', echo, { id: 902 })
    const { stdout, logged } = await run(['GET', '/api/Assignment/Id/902'])
    expect(JSON.parse(stdout)).toEqual({
      AssignmentId: 902,
      A: '[secret]',
      B: 'x [secret] y',
      C: 'Bearer [secret]',
    })
    expect(`${stdout}${logged}`).not.toMatch(/canary|eyJ/)
  })
})
