// When something goes wrong, and how it looks: the conditions of a fault, the schedule by which it strikes, and the
// answer it gives or breaks.

import { type Answer, type Incoming, jsonText, problem, wholeBody } from './answer.ts'
import type { Delivery } from './http.ts'
import { type Random, seededRandom } from './random.ts'
import type { Row } from './row.ts'

export const faultKinds = [
  'hang',
  'slow-drip',
  'reset',
  'truncated',
  'html',
  'content-type',
  'duplicate-page',
  'empty-page',
  'endless',
  'gzip-bomb',
] as const

export type Fault = {
  /** An HTTP status from 400 to 599, or one of the other kinds. */
  readonly kind: number | (typeof faultKinds)[number]
  /** Part of the path, or a pattern for it. Without one the fault strikes everything but the sign-in. */
  readonly path?: string | RegExp
  readonly method?: string
  /** Only requests for this page. */
  readonly page?: number
  /** Only answers in which the record with this id would be. */
  readonly record?: number
  /** Only while this holds. */
  readonly while?: (request: Incoming) => boolean
  /** Of the requests that match, only this one, counted from 1. */
  readonly nth?: number
  /** Of the requests that match, each one whose number is a multiple of this. */
  readonly every?: number
  readonly probability?: number
  /** Strikes at most this often. */
  readonly times?: number
  readonly retryAfterSeconds?: number
  readonly retryAfterAs?: 'seconds' | 'date'
  /** Of a slow drip; 1,000 when absent. */
  readonly bytesPerSecond?: number
}

export type Faults = {
  /** Returns what takes the fault away again. */
  add(fault: Fault): () => void
  clear(): void
  /** How often faults struck since the start. */
  readonly struck: number
}
export type FaultSchedule = Faults & {
  /** The fault that strikes a request before it is worked on, if any. */
  faultFor(request: Incoming): Fault | null
  /** The fault that strikes because of a record in the answer, if any. */
  faultForRows(request: Incoming, rows: readonly Row[]): Fault | null
  readonly needsPreviousPage: boolean
}

type Planned = { readonly fault: Fault; matches: number; times: number; readonly random: Random }

export function scheduleFaults(seed: number): FaultSchedule {
  const planned = new Set<Planned>()
  let added = 0
  let struck = 0

  function firstDue(isMet: (fault: Fault) => boolean): Fault | null {
    for (const plan of planned) {
      if (!isMet(plan.fault) || !isDue(plan)) continue
      plan.times++
      struck++
      return plan.fault
    }
    return null
  }

  return {
    add(fault) {
      const plan = { fault, matches: 0, times: 0, random: seededRandom(seed + 977 * ++added) }
      planned.add(plan)
      return () => planned.delete(plan)
    },
    clear: () => planned.clear(),
    get struck() {
      return struck
    },
    get needsPreviousPage() {
      return planned.values().some(({ fault }) => fault.kind === 'duplicate-page')
    },
    faultFor: (request) => firstDue((fault) => fault.record === undefined && isAbout(fault, request)),
    faultForRows: (request, rows) =>
      firstDue(
        (fault) =>
          fault.record !== undefined &&
          isAbout(fault, request) &&
          rows.some((row) => row.id === fault.record),
      ),
  }
}

function isAbout(fault: Fault, request: Incoming): boolean {
  const { path, method, page } = fault
  if (path === undefined && request.service === 'auth') return false
  if (typeof path === 'string' && !request.path.toLowerCase().includes(path.toLowerCase())) return false
  if (path instanceof RegExp && !path.test(request.path)) return false
  if (method !== undefined && method.toUpperCase() !== request.method) return false
  if (page !== undefined && Number(request.query.get('page') ?? 1) !== page) return false
  return fault.while?.(request) ?? true
}

function isDue(plan: Planned): boolean {
  const { nth, every, probability, times } = plan.fault
  plan.matches++
  if (times !== undefined && plan.times >= times) return false
  if (nth !== undefined && plan.matches !== nth) return false
  if (every !== undefined && plan.matches % every !== 0) return false
  return probability === undefined || plan.random() < probability
}

// How each fault looks to the client: another answer, or the right answer delivered wrongly.
/** The answer of a fault that needs no right answer. */
export function faultAnswer(fault: Fault): Answer | null {
  if (typeof fault.kind === 'number') {
    const seconds = fault.retryAfterSeconds
    const answer = problem(fault.kind, { detail: 'The stand-in was told to fail this request.' })
    if (seconds === undefined) return answer
    const date = new Date(Math.ceil((Date.now() + seconds * 1000) / 1000) * 1000)
    const value = fault.retryAfterAs === 'date' ? date.toUTCString() : String(seconds)
    return { ...answer, headers: { 'retry-after': value } }
  }
  if (fault.kind === 'html') {
    const page = '<!DOCTYPE html><html><head><title>Maintenance</title></head><body>Back soon.</body></html>'
    return { ...jsonText(200, page), contentType: 'text/html; charset=utf-8' }
  }
  if (isHuge(fault)) return { ...jsonText(200, ''), body: hugeList() }
  return null
}

const isHuge = ({ kind }: Fault): boolean => kind === 'endless' || kind === 'gzip-bomb'

const hugeBytes = 2 ** 30
const hugePiece = Buffer.from(`{"Description":"${'x'.repeat(2 ** 16)}"},`)

/** A list that is right in its form, and of a gigabyte. It is made while it is sent. */
function* hugeList(): Generator<Buffer> {
  yield Buffer.from('[')
  for (let sent = 0; sent < hugeBytes; sent += hugePiece.length) yield hugePiece
  yield Buffer.from('{}]')
}

/** The answer of a fault that spoils a right one. The last two leave an answer as it is if it is no list. */
export function spoiled(fault: Fault, answer: Answer, previousPage: Answer | undefined): Answer {
  switch (fault.kind) {
    case 'truncated': {
      const whole = wholeBody(answer)
      return { ...answer, body: [whole.subarray(0, Math.floor(whole.length / 2))] }
    }
    case 'content-type':
      return { ...answer, contentType: 'application/octet-stream' }
    case 'duplicate-page':
      return previousPage ?? answer
    case 'empty-page':
      return answer.ifEmpty ? { ...answer, body: [answer.ifEmpty], rows: [] } : answer
    default:
      return answer
  }
}

export const isBomb = (fault: Fault | null): boolean => fault?.kind === 'gzip-bomb'

export function deliveryOf(fault: Fault | null): Delivery {
  if (fault?.kind === 'hang') return 'never'
  if (fault?.kind === 'reset') return 'reset'
  if (fault?.kind === 'slow-drip') return { bytesPerSecond: fault.bytesPerSecond ?? 1_000 }
  return 'whole'
}

/** Which list a page belongs to: the same one, whatever row version or page it was asked from. */
export const streamOf = (request: Incoming): string =>
  `${request.service} ${request.path.toLowerCase().replace(/\/-?\d+$/, '')}`

// Faults as they are written on a command line, e.g. `429:probability=0.05,path=neworchanged,retry-after=1`.
type Draft = { -readonly [Name in keyof Fault]?: Fault[Name] }

const whole = (text: string, least: number): number | null =>
  /^\d+$/.test(text) && Number(text) >= least ? Number(text) : null
const fraction = (text: string): number | null => {
  const number = Number(text)
  return text !== '' && number >= 0 && number <= 1 ? number : null
}
const seconds = (text: string): number | null => (/^\d+(?:\.\d+)?$/.test(text) ? Number(text) : null)

/** What each condition sets, or null when its value cannot be read. */
const conditions: Readonly<Record<string, { readonly value: string; read(text: string): Draft | null }>> = {
  path: { value: 'PART', read: (text) => (text === '' ? null : { path: text }) },
  method: { value: 'METHOD', read: (text) => (/^[a-z]+$/i.test(text) ? { method: text } : null) },
  page: { value: 'N', read: (text) => setting('page', whole(text, 1)) },
  record: { value: 'ID', read: (text) => setting('record', whole(text, 0)) },
  nth: { value: 'N', read: (text) => setting('nth', whole(text, 1)) },
  every: { value: 'N', read: (text) => setting('every', whole(text, 1)) },
  probability: { value: '0…1', read: (text) => setting('probability', fraction(text)) },
  times: { value: 'N', read: (text) => setting('times', whole(text, 1)) },
  'retry-after': { value: 'SECONDS', read: (text) => setting('retryAfterSeconds', seconds(text)) },
  'retry-after-date': {
    value: 'SECONDS',
    read: (text) => {
      const draft = setting('retryAfterSeconds', seconds(text))
      return draft && { ...draft, retryAfterAs: 'date' }
    },
  },
  'bytes-per-second': { value: 'N', read: (text) => setting('bytesPerSecond', whole(text, 1)) },
}

const setting = (name: keyof Fault, number: number | null): Draft | null =>
  number === null ? null : { [name]: number }

export const faultSyntax = `KIND[:${Object.entries(conditions)
  .map(([name, { value }]) => `${name}=${value}`)
  .join(',')}]`

/** The fault, or what is wrong with its text. */
export function readFault(text: string): Fault | { readonly wrong: string } {
  const [kindText = '', ...rest] = text.split(':')
  const kind = readKind(kindText)
  if (kind === null)
    return { wrong: `"${kindText}" is neither a status from 400 to 599 nor one of ${faultKinds.join(', ')}` }
  const draft: Draft = {}
  for (const part of rest.join(':').split(',').filter(Boolean)) {
    const [name = '', ...value] = part.split('=')
    const condition = conditions[name]
    if (!condition)
      return { wrong: `"${name}" is no condition; there are ${Object.keys(conditions).join(', ')}` }
    const read = condition.read(value.join('='))
    if (!read) return { wrong: `"${part}" should be ${name}=${condition.value}` }
    Object.assign(draft, read)
  }
  return { ...draft, kind }
}

function readKind(text: string): Fault['kind'] | null {
  if (/^[45]\d\d$/.test(text)) return Number(text)
  return faultKinds.find((kind) => kind === text) ?? null
}

/** A little of everything, about one request in twenty. */
export const mildMix: readonly Fault[] = [
  ...[401, 500, 503].map((kind) => ({ kind, probability: 0.006 })),
  { kind: 429, probability: 0.006, retryAfterSeconds: 1 },
  { kind: 429, probability: 0.003, retryAfterSeconds: 1, retryAfterAs: 'date' as const },
  { kind: 429, probability: 0.003 },
  { kind: 403, probability: 0.001 },
  { kind: 404, probability: 0.001, path: 'neworchanged' },
  ...(['reset', 'truncated', 'html', 'content-type'] as const).map((kind) => ({ kind, probability: 0.004 })),
  ...(['duplicate-page', 'empty-page'] as const).map((kind) => ({ kind, probability: 0.002 })),
  { kind: 'slow-drip', probability: 0.002, bytesPerSecond: 200_000 },
  { kind: 'hang', probability: 0.0005 },
]
