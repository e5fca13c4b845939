// Everything the stand-in can do wrong, against the client: what passes is overcome, what does not has a name.

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Json } from '../../src/json/json.ts'
import { type Fault, faultKinds } from '../../src/simulator/faults.ts'
import { type MalformedKind, malformedKinds } from '../../src/simulator/malformed-records.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import {
  type Client,
  type ClientChanges,
  failureOf,
  jumpingClock,
  noSignal,
  openSimulatorClient,
} from '../support/client.ts'

let simulator: Simulator
beforeAll(async () => {
  simulator = await startSimulator({ assignments: 30 })
  simulator.requests.start()
})
afterEach(() => {
  simulator.faults.clear()
  simulator.requests.clear()
})
afterAll(() => simulator.close())

const page = (client: Client, number = 1) =>
  client.call(
    'listChangedAssignments',
    { path: { rowVersion: 0 }, query: { Page: number, PageSize: 10 } },
    noSignal,
  )
const asked = () => simulator.requests.entries.filter(({ service }) => service === 'assignment').length

/** What one fault of each kind, met once and met always, comes to. */
type Outcome = { readonly whenAlways: string; readonly isOvercome: boolean; readonly changes?: ClientChanges }
const overcome = (whenAlways: string, changes?: ClientChanges): Outcome => ({
  whenAlways,
  isOvercome: true,
  ...(changes && { changes }),
})
const named = (whenAlways: string): Outcome => ({ whenAlways, isOvercome: false })

const outcomes: readonly (readonly [Fault, Outcome])[] = [
  [{ kind: 401 }, overcome('UPSTREAM_UNAUTHORIZED')],
  [{ kind: 403 }, named('UPSTREAM_STATUS')],
  [{ kind: 404 }, named('UPSTREAM_STATUS')],
  [{ kind: 408 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 429 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 429, retryAfterSeconds: 7 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 429, retryAfterSeconds: 7, retryAfterAs: 'date' }, overcome('UPSTREAM_STATUS')],
  [{ kind: 500 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 500, record: 3 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 500, page: 1 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 502 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 503, retryAfterSeconds: 2 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 504 }, overcome('UPSTREAM_STATUS')],
  [{ kind: 'hang' }, overcome('UPSTREAM_TIMEOUT', { requestTimeoutMs: 400 })],
  [{ kind: 'slow-drip', bytesPerSecond: 500 }, overcome('UPSTREAM_TIMEOUT', { requestTimeoutMs: 400 })],
  [{ kind: 'reset' }, overcome('UPSTREAM_TRUNCATED')],
  [{ kind: 'truncated' }, overcome('UPSTREAM_JSON')],
  [{ kind: 'html' }, overcome('UPSTREAM_HTML')],
  [{ kind: 'content-type' }, named('UPSTREAM_CONTENT_TYPE')],
  [{ kind: 'endless' }, named('UPSTREAM_TOO_LARGE')],
  [{ kind: 'gzip-bomb' }, named('UPSTREAM_TOO_LARGE')],
]
const title = (fault: Fault) =>
  Object.entries(fault)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')

describe('a fault', () => {
  it('of every kind is in this list, but for those that only the rules of reading can see', () => {
    const kinds = new Set(outcomes.map(([{ kind }]) => kind))
    expect(faultKinds.filter((kind) => !kinds.has(kind))).toEqual(['duplicate-page', 'empty-page'])
  })

  it.each(outcomes.map(([fault, outcome]) => [title(fault), fault, outcome] as const))(
    'met once: %s',
    async (_, fault, { isOvercome, whenAlways, changes }) => {
      const clock = jumpingClock()
      const client = openSimulatorClient(simulator, 'assignment', { clock, ...changes })
      simulator.faults.add({ ...fault, times: 1 })
      if (isOvercome) expect((await page(client)).body).toHaveLength(10)
      else expect(await failureOf(page(client))).toMatchObject({ code: whenAlways, retryable: false })
      expect(asked()).toBe(isOvercome ? 2 : 1)
      const { retryAfterSeconds } = fault
      if (retryAfterSeconds)
        expect(Math.max(...clock.waitedMs)).toBeGreaterThan((retryAfterSeconds - 1) * 1000)
    },
  )

  it.each(outcomes.map(([fault, outcome]) => [title(fault), fault, outcome] as const))(
    'met always: %s',
    async (_, fault, { isOvercome, whenAlways, changes }) => {
      const client = openSimulatorClient(simulator, 'assignment', { clock: jumpingClock(), ...changes })
      simulator.faults.add(fault)
      const error = await failureOf(page(client))
      expect(error).toMatchObject({ code: whenAlways, retryable: isOvercome, method: 'GET' })
      expect(error.path).toBe('/assignment/api/Assignment/neworchanged/0')
      if (typeof fault.kind === 'number') expect(error.status).toBe(fault.kind)
      if (typeof fault.kind === 'number' && fault.kind !== 401)
        expect(error.excerpt).toContain('stand-in was told')
      expect(asked()).toBe(fault.kind === 401 ? 2 : isOvercome ? 4 : 1)
    },
  )

  it('because of one record spares the pages without it', async () => {
    const client = openSimulatorClient(simulator, 'assignment', { clock: jumpingClock() })
    const [first] = (await page(client)).body as { AssignmentId: number }[]
    simulator.faults.add({ kind: 500, record: first?.AssignmentId ?? 0 })
    expect((await failureOf(page(client, 1))).status).toBe(500)
    expect((await page(client, 2)).body).toHaveLength(10)
  })

  it('at the sign-in: passing ones are overcome as well', async () => {
    for (const kind of [429, 500, 503, 'reset', 'hang'] as const) {
      const client = openSimulatorClient(simulator, 'assignment', {
        clock: jumpingClock(),
        requestTimeoutMs: 500,
      })
      simulator.faults.add({ kind, path: 'GenerateAccessToken', times: 2 })
      expect((await page(client)).body, String(kind)).toHaveLength(10)
      simulator.faults.clear()
    }
  })

  it('of all sorts at once, half of the time, is overcome with inTime', async () => {
    const clock = jumpingClock()
    const retryPolicy = { attempts: 40, firstMs: 1, longestMs: 5, jitter: 0.5, deadlineMs: 60_000 }
    const client = openSimulatorClient(simulator, 'assignment', { clock, retryPolicy, requestTimeoutMs: 200 })
    for (const [fault] of outcomes) {
      const isPassing = ![401, 403, 404, 'content-type', 'endless', 'gzip-bomb'].includes(fault.kind)
      if (isPassing) simulator.faults.add({ ...fault, probability: 0.05 })
    }
    for (let round = 0; round < 30; round++) expect((await page(client)).body).toHaveLength(10)
    expect(client.told.retries.length).toBeGreaterThan(10)
  })
})

describe('a malformed record', () => {
  const client = () => openSimulatorClient(simulator)

  it.each(malformedKinds as readonly MalformedKind[])('P4: arrives as it was sent: %s', async (kind) => {
    await using single = await startSimulator({ malformed: [kind] })
    const [sent] = single.source.texts('assignment')
    const { body } = await openSimulatorClient(single).call('listAssignments', {}, noSignal)
    const [received] = body as Json[]
    // What JSON.parse and JSON.stringify make of the same text, with the numbers as they were written.
    const asWritten = JSON.parse(sent ?? '', (_, value, context?: { source?: string }) =>
      typeof value === 'number' && context?.source ? JSON.rawJSON(context.source) : value,
    )
    expect(JSON.stringify(received)).toBe(JSON.stringify(asWritten))
  })

  it('is named when its bytes are no UTF-8', async () => {
    const bytes = Buffer.from('{"AssignmentId":900,"Subject":"\xff"}', 'latin1')
    const { id } = simulator.source.appendRaw('assignment', bytes)
    const error = await failureOf(client().call('listAssignments', { query: { PageSize: 1000 } }, noSignal))
    expect(error).toMatchObject({ code: 'UPSTREAM_JSON', retryable: false })
    expect(error.message).toContain('not valid UTF-8')
    simulator.source.remove('assignment', id, 'hard')
  })
})
