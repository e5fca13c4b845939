// Each of the recorded exchanges is replayed against the stand-in, in order, and its answer compared with the recorded
// one: status, headers and body, exactly where the request and the records decide it, by form where chance or the
// clock does.

import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Behaviour, initialBehaviour } from '../../src/simulator/behaviour.ts'
import type { Simulator } from '../../src/simulator/simulator.ts'
import {
  clientGuid,
  credentials,
  differing,
  type Exchange,
  exchanges,
  type RecordedResponse,
  recordedOpenApi,
  startRecorded,
} from '../support/recorded.ts'

let simulator: Simulator
let origin: string
/** Tokens for the assignment service and for tracking. */
let tokens: { readonly assignment: string; readonly tracking: string }
/** The id that the service gave to the subscription, and the one that the stand-in gave to it. */
let subscription: readonly [string, string] | null = null

beforeAll(async () => {
  simulator = await startRecorded()
  origin = new URL(simulator.assignmentUrl).origin
  tokens = { assignment: await signIn(3), tracking: await signIn(13) }
})
afterAll(() => simulator.close())

async function signIn(clientId: 3 | 13): Promise<string> {
  const { subjectId, apiKey } = credentials
  const response = await fetch(`${origin}/Token/GenerateAccessTokenFromCache`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ clientId, subjectId, apiKey }),
  })
  return ((await response.json()) as { accessToken: string }).accessToken
}

const settings: Readonly<Record<string, (value: string) => Partial<Behaviour>>> = {
  SIEVE_THROW: (value) => ({ unknownNames: value === 'true' ? 'error' : 'whole-list' }),
  SIEVE_MAX_PAGE_SIZE: (value) => ({ pageCap: Number(value) || null }),
  SIEVE_DEFAULT_PAGE_SIZE: (value) => ({ defaultPageSize: Number(value) || null }),
  DEFAULT_ORDER: (value) => ({ order: value === 'version' ? 'row-version' : value === 'id' ? 'id' : 'heap' }),
  VERSION_INCLUSIVE: (value) => ({ inclusive: value === 'true' }),
  SOFT_DELETE_VISIBLE: (value) => ({ hideDeleted: value === 'false' }),
  // Seconds in the recording, hundredths here: nobody wants to wait for a token to expire.
  TOKEN_LIFETIME_SECONDS: (value) => ({ tokenLifetimeMs: Number(value) * 10, tokenCache: 'none' }),
  TOKEN_CLOCK_SKEW_SECONDS: (value) => ({ tokenClockSkewMs: Number(value) || null }),
  EXTENDED_ENABLED: (value) => ({ extendedOff: value === 'false' }),
}

function applySettings(wanted: Exchange['request']['settings']): void {
  const changes = Object.entries(wanted).map(([name, value]) => {
    const read = settings[name]
    if (!read) throw new Error(`The recording has a setting ${name} that this test does not know.`)
    return read(value)
  })
  Object.assign(simulator.behaviour, initialBehaviour({}, 'recorded'), ...changes)
}

/** What was written to the database behind the back of the service before an exchange. */
const writtenBefore: Readonly<Record<string, { readonly id: number; readonly name: string }>> = {
  'drift: page 2, after a row of page 1 was written': { id: 1, name: 'x' },
  'drift: page 2 without sort, after a row of page 1 was written': { id: 6, name: 'y' },
}

async function bearer({ name, request }: Exchange): Promise<string | null> {
  const { Authorization: recorded } = request.headers
  if (recorded === undefined) return null
  if (name === 'garbage token') return 'abc.def.ghi'
  if (name === 'token with wrong signature')
    return `${tokens.assignment.split('.').slice(0, 2).join('.')}.${'A'.repeat(43)}`
  if (name === 'expired token' || name.startsWith('token after its exp')) {
    const token = await signIn(3)
    await delay(60)
    return token
  }
  if (recorded === 'Bearer <token>') return tokens.assignment
  return tokens.tracking
}

async function replay(exchange: Exchange): Promise<Response> {
  const { name, request } = exchange
  applySettings(request.settings)
  const write = writtenBefore[name]
  if (write) simulator.source.change('assignment', write.id, { AssignmentName: write.name })
  const token = await bearer(exchange)
  const { Authorization: _, ...headers } = request.headers
  const body = name === 'attachment 5 MB' ? `FileName=x&FileData=${'A'.repeat(5_000_000)}` : request.body
  const { method, path, query } = request
  return fetch(`${origin}${replaced(path)}${query ? `?${query}` : ''}`, {
    method,
    headers: { ...headers, ...(token !== null && { Authorization: `Bearer ${token}` }) },
    ...(body !== null && { body: replaced(body.replace('<apiKey>', credentials.apiKey)) }),
  })
}

const replaced = (text: string) => (subscription ? text.replace(...subscription) : text)

const comparedHeaders = [
  'content-type',
  'location',
  'www-authenticate',
  'content-length',
  'allow',
  'retry-after',
]

const guid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g
const trace = /00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]/g
const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?/g
const jwt = /eyJhbGciOiJI(?:\.\.\.<jwt>|[\w.-]+)/g
const withoutChance = (text: string) =>
  text.replace(trace, '<trace>').replace(guid, '<guid>').replace(time, '<time>').replace(jwt, '<jwt>')

function headersOf(entries: Iterable<[string, string]>): Record<string, string> {
  const compared = [...entries]
    .filter(([name]) => comparedHeaders.includes(name.toLowerCase()))
    .toSorted(([a], [b]) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1))
  return Object.fromEntries(
    compared.map(([name, value]) => [
      name.toLowerCase(),
      withoutChance(value)
        .replace(/127\.0\.0\.1:\d+/, '<host>')
        .replace(/\d\d\/\d\d\/\d{4} \d\d:\d\d:\d\d/, '<time>'),
    ]),
  )
}

const momentFields = ['regTime', 'noteDate', 'sysCreatedDateUTC', 'sysUpdatedDateUTC']
const randomFields = ['uid', 'ownerUID', 'webhookSubscriptionId', 'traceId', 'accessToken']
const recordedAtMs = Date.UTC(2026, 10, 22, 4, 15)
const quarterMs = 900_000

/** Whether a time, in whatever zone it is meant, is about this moment. */
function isAbout(text: string, momentMs: number): boolean {
  const hasOffset = /(?:Z|[+-]\d\d:\d\d)$/.test(text)
  const ms = Date.parse(hasOffset ? text : `${text}Z`)
  const offsets = hasOffset ? [0] : [0, 1, 2]
  return offsets.some((hours) => Math.abs(ms - hours * 3_600_000 - momentMs) < quarterMs)
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Paths at which two bodies differ. */
function differences(wanted: unknown, got: unknown, path = '$', field = ''): string[] {
  if (Array.isArray(wanted) && Array.isArray(got)) {
    if (wanted.length !== got.length) return [`${path}: ${wanted.length} elements, not ${got.length}`]
    return wanted.flatMap((value, index) => differences(value, got[index], `${path}[${index}]`, field))
  }
  if (isRecord(wanted) && isRecord(got)) {
    const [names, gotNames] = [Object.keys(wanted), Object.keys(got)]
    const isProblem = 'traceId' in wanted || path.endsWith('.errors')
    const inOrder = (list: string[]) => JSON.stringify(isProblem ? list.toSorted() : list)
    if (inOrder(names) !== inOrder(gotNames)) return [`${path}: has ${names}, not ${gotNames}`]
    return names.flatMap((name) => differences(wanted[name], got[name], `${path}.${name}`, name))
  }
  if (Object.is(wanted, got)) return []
  const hasChance = randomFields.includes(field) && isText(wanted) && isText(got)
  if (hasChance && withoutChance(wanted) === withoutChance(got)) return []
  const hasClock = momentFields.includes(field) && isText(wanted) && isText(got)
  if (hasClock && sameForm(wanted, got) && isAbout(wanted, recordedAtMs) && isAbout(got, Date.now()))
    return []
  return [`${path}: ${JSON.stringify(wanted)}, not ${JSON.stringify(got)}`]
}

/** Of whatever day: both with an offset or both without; both with the digits of a second that a stored time has, or a written one. */
function sameForm(a: string, b: string): boolean {
  const form = (text: string) =>
    text.replace(
      /^\d{4}-\d\d-\d\dT.*?(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?$/,
      (_, digits = '', zone = '') => `${digits.length > 3} ${zone}`,
    )
  return form(a) === form(b)
}

function listDifferences(exchange: Exchange, got: unknown): string[] {
  const { response: wanted, request } = exchange
  if (!Array.isArray(got)) return [`no list: ${JSON.stringify(got).slice(0, 80)}`]
  if (got.length !== wanted.count) return [`${wanted.count} records, not ${got.length}`]
  const [key = ''] = Object.keys(got[0] ?? {})
  const [ids, versions] = [got.map((record) => record[key]), got.map(({ sysRowVersion }) => sysRowVersion)]
  const isOrdered = hasOrder(exchange)
  if (isOrdered)
    return [
      ...differences(wanted.body, got.slice(0, 3)),
      ...differences(wanted.ids ?? ids, ids, '$ids'),
      ...differences(wanted.sysRowVersions ?? versions, versions, '$versions'),
    ]
  // Where the database had put rows by then is its own affair: without a sort, only a whole list can be compared.
  const isWhole = !/PageSize=/i.test(request.query ?? '') || /Sorts=nosuch/.test(request.query ?? '')
  const sorted = (numbers: readonly unknown[]) => numbers.map(Number).sort((a, b) => a - b)
  return isWhole && wanted.ids ? differences(sorted(wanted.ids), sorted(ids), '$ids') : []
}

/** Whether the request, or the absence of any write before it, decides the order of the answer. */
const hasOrder = (exchange: Exchange) =>
  /Sorts=(?!nosuch)/i.test(exchange.request.query ?? '') || !hasMoved(exchange)

/** Rows stay where they were first written until somebody writes them again. */
const firstWrite = exchanges.findIndex(({ name }) => name === 'POST assignment')
const hasMoved = (exchange: Exchange) =>
  exchanges.indexOf(exchange) > firstWrite && exchange.request.settings.DEFAULT_ORDER !== 'version'

async function answerDifferences(exchange: Exchange, response: Response): Promise<string[]> {
  const { response: wanted } = exchange
  const text = await response.text()
  const got = text === '' ? null : JSON.parse(text)
  const status = response.status === wanted.status ? [] : [`status ${wanted.status}, not ${response.status}`]
  return [
    ...status,
    ...differences(headersOf(Object.entries(wanted.headers)), headersOf(response.headers), 'headers'),
    ...(wanted.count === undefined ? differences(wanted.body, got) : listDifferences(exchange, got)),
    ...textDifferences(exchange, wanted, text),
  ]
}

/** How characters are escaped, how numbers are written, in what order members come. */
function textDifferences(exchange: Exchange, { rawStart, body }: RecordedResponse, text: string): string[] {
  if (rawStart === undefined) return []
  if (Array.isArray(body) && !hasOrder(exchange)) return []
  if (isRecord(body) && isRecord(body.errors) && Object.keys(body.errors).length > 1) return []
  const [wanted, got] = [withoutChance(rawStart), withoutChance(text)]
  const length = rawStart.length < 2_500 ? Math.max(wanted.length, got.length) : wanted.length - 60
  const shown = [...got]
  const at = [...wanted.slice(0, length)].findIndex((character, index) => character !== shown[index])
  return at === -1
    ? []
    : [`text at ${at}: ${wanted.slice(at - 20, at + 30)}, not ${got.slice(at - 20, at + 30)}`]
}

describe('the recorded exchanges', () => {
  it('are all here', () => {
    expect(exchanges.length).toBe(222)
    expect(new Set(exchanges.map(({ name }) => name)).size).toBe(222)
    expect(
      Object.keys(differing).filter((name) => !exchanges.some((exchange) => exchange.name === name)),
    ).toEqual([])
    expect(simulator.credentials.clientGuid).toBe(clientGuid)
  })

  it.each(exchanges.map((exchange) => [exchange.name, exchange] as const))('%s', async (name, exchange) => {
    const response = await replay(exchange)
    const copy = response.clone()
    const found = await answerDifferences(exchange, response)
    if (name === 'subscription POST') {
      const recorded = exchange.response.body as { webhookSubscriptionId: string }
      const given = (await copy.json()) as { webhookSubscriptionId: string }
      subscription = [recorded.webhookSubscriptionId, given.webhookSubscriptionId]
    }
    // What is listed must differ, so that the list gets shorter as soon as it can.
    if (differing[name]) expect(found, differing[name]).not.toEqual([])
    else expect(found).toEqual([])
  })
})

describe('the recorded description', () => {
  it('is what the stand-in says of itself', async () => {
    applySettings({})
    const response = await fetch(`${origin}/openapi/v1.json`)
    expect(response.headers.get('content-type')).toBe('application/json;charset=utf-8')
    const { servers: _, ...described } = (await response.json()) as Record<string, unknown>
    const { servers: __, ...recorded } = recordedOpenApi()
    expect(described).toEqual(recorded)
  })
})
