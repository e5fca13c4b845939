// Faults as they are written on a command line, e.g. `429:probability=0.05,path=neworchanged,retry-after=1`.

import { type Fault, faultKinds } from './faults.ts'

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
