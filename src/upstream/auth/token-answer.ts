// Finds the token, and how long it is good for, in an answer of the identity provider whose field names are not known.
// Whatever fails here names fields, never their values (P9).

import { httpDate } from '../http/answer.ts'

export type TokenAnswer = {
  readonly token: string
  /** When the token ends, by this machine's clock; null: the answer does not say. */
  readonly endsAtMs: number | null
}
export type NoToken = { readonly noToken: string }
export type ReceivedAnswer = {
  readonly bytes: Uint8Array
  readonly date: string | undefined
  readonly receivedAtMs: number
}

type Fields = { readonly [field: string]: unknown }

const tokenFields = [
  ...'accesstoken bearertoken token jwt jwttoken bearer authtoken authenticationtoken'.split(' '),
  ...'authorizationtoken securitytoken sessiontoken apitoken tokenvalue tokenstring idtoken'.split(' '),
]
const endFields = [
  ...'expiresin expiresinseconds expiresat expireson expires expiresutc expiration expirationtime'.split(' '),
  ...'expirationdate expiry expirydate validto validuntil lifetime tokenlifetime ttl exp'.split(' '),
]

export function readTokenAnswer(answer: ReceivedAnswer): TokenAnswer | NoToken {
  const { bytes, receivedAtMs } = answer
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8').trim()
  if (text === '') return { noToken: 'the answer is empty' }
  if (text.startsWith('<')) return { noToken: 'the answer is a page of HTML or XML' }
  const value = parsedOr(text, text)
  const objects = isFields(value) ? [value, ...Object.values(value).filter(isFields)] : []
  const token = tokenText(typeof value === 'string' ? value : findToken(objects))
  if (token === null) return { noToken: whatWasSeen(value) }
  // Times in the answer are by the provider's clock, and its `Date` header tells how far that is from ours.
  const skewMs = receivedAtMs - (httpDate(answer.date) ?? receivedAtMs)
  const ends = [...objects, claimsOf(token)]
    .flatMap((fields) => endFields.map((name) => endTime(field(fields, name), receivedAtMs, skewMs)))
    .filter((time) => time !== null)
  return { token, endsAtMs: ends.length > 0 ? Math.min(...ends) : null }
}

function parsedOr<Fallback>(text: string, fallback: Fallback): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return fallback
  }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function field(fields: Fields, name: string): unknown {
  for (const [key, value] of Object.entries(fields))
    if (key.toLowerCase().replaceAll(/[^a-z]/g, '') === name) return value
  return undefined
}

function findToken(objects: readonly Fields[]): string | null {
  for (const fields of objects) {
    for (const name of tokenFields) {
      const value = field(fields, name)
      if (tokenText(value) !== null) return value as string
    }
  }
  // The field has a name that nobody thought of, but only one text of the answer is a JWT: that is the token.
  const tokens = objects.flatMap((fields) => Object.values(fields)).filter(isJwt)
  return tokens.length === 1 ? (tokens[0] ?? null) : null
}

const isJwt = (value: unknown): value is string =>
  typeof value === 'string' && /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/.test(value)

/** What can be sent in a header: one word of visible ASCII. */
function tokenText(value: unknown): string | null {
  if (typeof value !== 'string') return null
  const text = value.trim().replace(/^bearer\s+/i, '')
  return /^[\x21-\x7e]{8,}$/.test(text) && !/^[{["]/.test(text) ? text : null
}

function claimsOf(token: string): Fields {
  const [, payload] = isJwt(token) ? token.split('.') : []
  const claims = parsedOr(Buffer.from(payload ?? '', 'base64url').toString('utf8'), null)
  return isFields(claims) ? { exp: claims.exp } : {}
}

/** Seconds from now, a date, or an epoch in seconds or milliseconds. */
function endTime(value: unknown, receivedAtMs: number, skewMs: number): number | null {
  const isNumber = typeof value === 'number' || (typeof value === 'string' && /^\d+(\.\d+)?$/.test(value))
  if (!isNumber)
    return typeof value === 'string' ? inTheFuture(Date.parse(value) + skewMs, receivedAtMs) : null
  const number = Number(value)
  if (number < 1e9) return inTheFuture(receivedAtMs + number * 1000, receivedAtMs)
  return inTheFuture((number < 1e11 ? number * 1000 : number) + skewMs, receivedAtMs)
}

/** A token that was just handed out has not ended yet: a time in the past means something else. */
const inTheFuture = (time: number, nowMs: number): number | null => (time > nowMs ? time : null)

function whatWasSeen(value: unknown): string {
  if (isFields(value)) {
    const names = Object.entries(value).flatMap(([name, inner]) =>
      isFields(inner) ? Object.keys(inner).map((innerName) => `${name}.${innerName}`) : [name],
    )
    const shown = names.slice(0, 20).map((name) => name.slice(0, 60))
    return names.length === 0 ? 'the answer is an empty object' : `the fields are ${shown.join(', ')}`
  }
  if (typeof value === 'string') return 'the answer is a text that cannot be a token'
  return `the answer is ${Array.isArray(value) ? 'a list' : `JSON of type ${value === null ? 'null' : typeof value}`}`
}
