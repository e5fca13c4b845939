// The identity provider: who may sign in, what a token looks like, how long it is good for, and which service takes it.

import { createHmac, randomBytes } from 'node:crypto'
import { type Answer, empty, type Incoming, json, jsonText, problem } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import { defineFields } from './fields.ts'
import { readRecord } from './request-bodies.ts'

export type Credentials = { readonly clientGuid: string; readonly subjectId: string; readonly apiKey: string }
type SignedIn = 'assignment' | 'tracking'
type Token = { readonly text: string; readonly service: SignedIn; readonly endsAtMs: number }

export type Tokens = {
  signIn(request: Incoming): Answer
  /** Null when the request may pass. */
  refusal(request: Incoming): Answer | null
  /** Every token handed out so far is rejected from now on. */
  revoke(): void
}

const serviceOf = new Map<unknown, SignedIn>([
  [3, 'assignment'],
  [13, 'tracking'],
])
const keptTokens = 1_000

const signInBody = {
  parameter: 'request',
  entity: 'AssignmentService.TokenRequest',
  fields: defineFields(`
ClientId int32?
SubjectId string?
ApiKey string?`),
  required: ['ClientId', 'SubjectId', 'ApiKey'],
}

export function openTokens(credentials: Credentials, behaviour: Behaviour): Tokens {
  const accepted = new Map<string, Token>()
  const latest = new Map<SignedIn, Token>()
  const signature = randomBytes(32)
  const isGood = (token: Token) => accepted.has(token.text) && token.endsAtMs > Date.now()

  function issue(service: SignedIn): Token {
    const known = latest.get(service)
    if (known && behaviour.tokenCache === 'stuck') return known
    if (known && behaviour.tokenCache === 'until-expiry' && isGood(known)) return known
    const endsAtMs = Date.now() + behaviour.tokenLifetimeMs
    const text =
      behaviour.tokenFormat === 'jwt'
        ? jwt({ credentials, service, endsAtMs, signature })
        : randomBytes(24).toString('base64url')
    const token = { text, service, endsAtMs }
    latest.set(service, token)
    accepted.set(text, token)
    for (const oldest of accepted.keys()) if (accepted.size > keptTokens) accepted.delete(oldest)
    return token
  }

  return {
    signIn(request) {
      const read = readRecord(request, signInBody, behaviour.timeZone)
      if ('refusal' in read) return read.refusal
      const { ClientId, SubjectId, ApiKey } = read.value.stored
      const service = serviceOf.get(ClientId)
      if (!service || SubjectId !== credentials.subjectId || ApiKey !== credentials.apiKey)
        return problem(401)
      return signInAnswer(issue(service), behaviour)
    },
    refusal(request) {
      const header = request.headers.authorization
      const [, text = ''] = /^Bearer\s+(\S+)$/i.exec(typeof header === 'string' ? header : '') ?? []
      if (text === '') return refused('Bearer')
      const token = accepted.get(text)
      if (!token) return refused(looksSigned(text) ? why('The signature key was not found') : invalidToken)
      if (token.endsAtMs + (behaviour.tokenClockSkewMs ?? 0) <= Date.now())
        return refused(why(`The token expired at '${americanTime(token.endsAtMs)}'`))
      return token.service === request.service ? null : empty(403)
    },
    revoke: () => accepted.clear(),
  }
}

const invalidToken = 'Bearer error="invalid_token"'
const why = (reason: string) => `${invalidToken}, error_description="${reason}"`
const refused = (challenge: string): Answer => empty(401, { 'www-authenticate': challenge })

/** Whether the text is a JWT at least in its form. */
function looksSigned(text: string): boolean {
  const [header = ''] = text.split('.')
  return Buffer.from(header, 'base64url').toString().startsWith('{"')
}

const americanTime = (timeMs: number) =>
  new Date(timeMs).toISOString().replace(/^(\d+)-(\d+)-(\d+)T([\d:]+).*$/, '$2/$3/$1 $4')

function jwt(token: {
  readonly credentials: Credentials
  readonly service: SignedIn
  readonly endsAtMs: number
  readonly signature: Buffer
}): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const issuedAt = Math.floor(Date.now() / 1000)
  const claims = {
    aud: token.service,
    iss: 'https://auth.stand-in.example',
    exp: Math.floor(token.endsAtMs / 1000),
    iat: issuedAt,
    nbf: issuedAt,
    sub: token.credentials.subjectId,
    client_uid: token.credentials.clientGuid,
    jti: randomBytes(6).toString('hex'),
  }
  const unsigned = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`
  return `${unsigned}.${createHmac('sha256', token.signature).update(unsigned).digest('base64url')}`
}

function signInAnswer(token: Token, behaviour: Behaviour): Answer {
  const shownMs = behaviour.tokenShownLifetimeMs ?? behaviour.tokenLifetimeMs
  const object = {
    [behaviour.tokenField]: token.text,
    ...(!behaviour.tokenExpiryHidden && { expiresIn: Math.round(shownMs / 1000) }),
    tokenType: 'Bearer',
  }
  switch (behaviour.tokenShape) {
    case 'json-string':
      return json(200, token.text)
    case 'plain-text':
      return { ...jsonText(200, token.text), contentType: 'text/plain; charset=utf-8' }
    case 'nested':
      return json(200, { success: true, result: object })
    default:
      return json(200, object)
  }
}
