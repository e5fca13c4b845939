// Streams of the upstream as the rules of reading see them: pages, refusals, and looks at one record.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { relatedStreams, type Stream, knownStreams as streams } from '../../src/streams/catalog.ts'
import { openRelatedSource } from '../../src/upstream/extended-read.ts'
import { openSource } from '../../src/upstream/stream-source.ts'
import {
  failureOf,
  noSignal,
  openClient,
  openServerClient,
  openSimulatorClient,
  startServer,
} from '../support/client.ts'

const named = (name: string): Stream => {
  const stream = streams.find((candidate) => candidate.name === name)
  if (!stream) throw new Error(`there is no stream ${name}`)
  return stream
}
const changes = { since: 0n, page: 1, pageSize: 10, sorts: null } as const
const json = { 'content-type': 'application/json' }

describe('with the stand-in', () => {
  let simulator: Simulator
  beforeEach(async () => {
    simulator = await startSimulator({ assignments: 25, notes: 12, trackers: 7, objects: 3 })
    simulator.requests.start()
  })
  afterEach(() => simulator.close())
  const source = (name: string) => {
    const stream = named(name)
    return openSource(openSimulatorClient(simulator, stream.service), stream, 'RowVersion')
  }
  const latest = () => simulator.requests.entries.at(-1)

  it('asks for changes with everything that was decided', async () => {
    const request = { since: 5n, page: 2, pageSize: 7, sorts: 'descending' } as const
    const answer = await source('assignment').changes(request, noSignal)
    expect(latest()).toMatchObject({
      path: '/api/Assignment/neworchanged/5',
      query: { Page: '2', PageSize: '7', Sorts: '-RowVersion' },
    })
    expect(answer).toMatchObject({ records: { length: 7 }, bytes: expect.any(Number) })
    await source('assignment_note').changes({ ...changes, since: 2n ** 63n - 1n }, noSignal)
    expect(latest()).toMatchObject({
      path: '/api/AssignmentNote/neworchanged/9223372036854775807',
      query: { Page: '1', PageSize: '10' },
    })
  })

  it('asks for lists in the words of each', async () => {
    const asked = { page: 2, pageSize: 5 }
    expect((await source('tracker_object').list(asked, noSignal)).records).toHaveLength(2)
    expect(latest()?.query).toEqual({ Page: '2', Pagesize: '5' })
    await source('assignment_object').list(asked, noSignal)
    expect(latest()?.query).toEqual({ Page: '2', PageSize: '5' })
    await source('webhook_definition').list(asked, noSignal)
    expect(latest()?.query).toEqual({})
    const paged = streams.filter(({ name }) => source(name).listHasPages).map(({ name }) => name)
    expect(paged).toEqual(['assignment', 'assignment_note', 'tracker_object', 'assignment_object'])
  })

  it.each(['items', 'Data', 'results'])('finds the list inside {"%s": […]}', async (listWrapper) => {
    simulator.behaviour.listWrapper = listWrapper
    expect(await source('assignment').changes(changes, noSignal)).toMatchObject({ records: { length: 10 } })
    expect(
      (await source('assignment_object').list({ page: 1, pageSize: 10 }, noSignal)).records,
    ).toHaveLength(3)
  })

  it('P18: counts as answered that there is no such record or page, and not that there is no such list', async () => {
    simulator.behaviour.dialect = 'dotnet-404'
    const client = openSimulatorClient(simulator)
    const { list, lookup } = openSource(client, named('assignment'), 'RowVersion')
    expect(await lookup?.('999', noSignal)).toBe('gone')
    await failureOf(list({ page: 9, pageSize: 10 }, noSignal))
    simulator.faults.add({ kind: 404, times: 1 })
    await failureOf(list({ page: 1, pageSize: 10 }, noSignal))
    await list({ page: 1, pageSize: 10 }, noSignal)
    expect(client.told.requests.map(({ status, isAnswered }) => [status, isAnswered])).toEqual([
      [404, true],
      [404, true],
      [404, false],
      [200, true],
    ])
  })

  it('P6: tells a refused Sorts from a failure', async () => {
    simulator.behaviour.sorts = 'refused'
    const { changes: read } = source('assignment')
    expect(await read({ ...changes, sorts: 'ascending' }, noSignal)).toEqual({ refused: 400 })
    expect(await read(changes, noSignal)).toMatchObject({ records: { length: 10 } })
    simulator.faults.add({ kind: 403 })
    expect((await failureOf(read({ ...changes, sorts: 'ascending' }, noSignal))).status).toBe(403)
    simulator.faults.clear()
    simulator.faults.add({ kind: 400 })
    expect((await failureOf(read(changes, noSignal))).status).toBe(400)
  })

  it('P7: looks at one record', async () => {
    const { lookup } = source('assignment')
    expect(await lookup?.('7', noSignal)).toMatchObject({ found: { AssignmentId: 7 } })
    simulator.source.remove('assignment', 7, 'hard')
    expect(await lookup?.('7', noSignal)).toBe('gone')
    expect(await lookup?.('not a number', noSignal)).toBe('unclear')
    expect(await lookup?.('99999999999', noSignal)).toBe('unclear')
  })

  it('offers no such look where the upstream has none', () => {
    expect(source('tracker_object').lookup).toBeNull()
  })

  it('P7: a record that breaks the upstream is unclear, an upstream that is down is a failure', async () => {
    const { lookup } = source('assignment')
    simulator.faults.add({ kind: 500, path: '/Id/7' })
    expect(await lookup?.('7', noSignal)).toBe('unclear')
    simulator.faults.add({ kind: 503, path: '/Id/8' })
    await failureOf(lookup?.('8', noSignal) ?? Promise.resolve())
    simulator.faults.add({ kind: 401, path: '/Id/9' })
    await failureOf(lookup?.('9', noSignal) ?? Promise.resolve())
  })

  it.each([404, 410, 403, 400])(
    'P7: a sign-in that is answered with %d says nothing of a record',
    async (kind) => {
      const { lookup } = source('assignment')
      simulator.faults.add({ kind, path: 'GenerateAccessToken' })
      const error = await failureOf(lookup?.('7', noSignal) ?? Promise.resolve())
      expect(error).toMatchObject({ code: 'UPSTREAM_SIGN_IN', status: kind })
    },
  )
})

describe('what else may be answered', () => {
  const lookAt = async (status: number, body: string, type = 'application/json', key = '7') => {
    await using server = await startServer((_, response) =>
      response.writeHead(status, { 'content-type': type }).end(body),
    )
    return await openSource(openServerClient(server), named('assignment')).lookup?.(key, noSignal)
  }

  it.each([
    ['another record', 200, '{"AssignmentId":8}'],
    ['an explanation', 200, '{"error":"not found"}'],
    ['nothing', 204, ''],
    ['null', 200, 'null'],
    ['a list', 200, '[]'],
    ['no right', 403, ''],
    ['a page for a browser that says 404', 404, '<html>404 - File or directory not found'],
  ])('P7: %s does not prove that a record is gone', async (_, status, body) => {
    expect(await lookAt(status, body)).toBe('unclear')
  })

  it('P7: 404 and 410 do', async () => {
    expect(await lookAt(404, '')).toBe('gone')
    expect(await lookAt(404, '{"title":"Not Found"}')).toBe('gone')
    expect(await lookAt(410, 'Gone', 'text/plain')).toBe('gone')
  })

  it('a record is found under its key in any spelling', async () => {
    expect(await lookAt(200, '{"assignmentid":"7","X":1.50}')).toEqual({
      found: { assignmentid: '7', X: JSON.rawJSON('1.50') },
    })
  })

  it.each([
    ['{"errors":[]}', 'an object with errors (a list)'],
    ['{"alerts":[],"links":[]}', 'an object with alerts (a list), links (a list)'],
    ['{"message":"busy","code":5}', 'an object with message (string), code (number)'],
    ['{}', 'an empty object'],
    ['"text"', 'a string'],
    ['null', 'null'],
  ])('P7: %s is no empty page', async (body, tableSchema) => {
    await using server = await startServer((_, response) => response.writeHead(200, json).end(body))
    const source = openSource(openServerClient(server), named('assignment'))
    for (const answer of [source.changes(changes, noSignal), source.list(changes, noSignal)]) {
      const error = await failureOf(answer)
      expect(error).toMatchObject({ code: 'UPSTREAM_SHAPE', retryable: false, status: 200 })
      expect(error.message).toContain(`but is ${tableSchema}.`)
    }
  })

  it.each([
    ['beside its groups', '{"AssignmentId":8,"Attachment":[]}', '{"AssignmentId":7,"Attachment":[]}'],
    [
      'in a member',
      '{"assignment":{"assignmentId":8},"attachment":[]}',
      '{"assignment":{"assignmentId":7},"attachment":[]}',
    ],
    ['nowhere', null, '{"attachment":[]}'],
  ])(
    'an extended read is not that of another assignment, whose fields stand %s (P11)',
    async (_, other, own) => {
      const lookedAt = async (body: string) => {
        await using server = await startServer((_, response) => response.writeHead(200, json).end(body))
        const source = openRelatedSource(openServerClient(server), {
          streams: relatedStreams,
          requestsPerSecond: () => null,
          yieldTo: async () => {},
        })
        return await source.lookup?.('7', noSignal)
      }
      if (other !== null) expect(await lookedAt(other)).toBe('unclear')
      expect(await lookedAt(own)).toMatchObject({ found: JSON.parse(own) })
    },
  )

  it('a stream is named that the table of operations cannot serve', () => {
    const client = openClient({
      service: 'assignment',
      baseUrl: 'http://127.0.0.1:9',
      authUrl: 'http://127.0.0.1:9',
    })
    expect(() => openSource(client, { ...named('assignment'), list: 'listNothing' })).toThrow(
      'has no listNothing',
    )
  })
})
