// The identity provider: who may sign in, what a token looks like, how long it is good for, and which service takes it.

import { createHmac, randomBytes } from 'node:crypto'
import { type Answer, type Incoming, json, jsonText, problem, type Service } from './answer.ts'
import type { Behaviour } from './behaviour.ts'

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

export function openTokens(credentials: Credentials, behaviour: Behaviour): Tokens {
  const accepted = new Map<string, Token>()
  const latest = new Map<SignedIn, Token>()
  const signature = randomBytes(32)
  const isAccepted = (token: Token) => accepted.has(token.text) && token.endsAtMs > Date.now()

  function issue(service: SignedIn): Token {
    const known = latest.get(service)
    if (known && behaviour.tokenCache === 'stuck') return known
    if (known && behaviour.tokenCache === 'until-expiry' && isAccepted(known)) return known
    const endsAtMs = Date.now() + behaviour.tokenLifetimeMs
    const text =
      behaviour.tokenFormat === 'jwt'
        ? jwt({ subject: credentials.subjectId, service, endsAtMs, signature })
        : randomBytes(24).toString('base64url')
    const token = { text, service, endsAtMs }
    latest.set(service, token)
    accepted.set(text, token)
    for (const oldest of accepted.keys()) if (accepted.size > keptTokens) accepted.delete(oldest)
    return token
  }

  return {
    signIn(request) {
      const body = readBody(request)
      if (body === null) return problem(400, 'The body is not a JSON object.')
      const service = serviceOf.get(body.clientId)
      if (!service) return problem(400, 'clientId is neither 3 nor 13.', { clientId: ['must be 3 or 13'] })
      if (body.subjectId !== credentials.subjectId || body.apiKey !== credentials.apiKey)
        return problem(401, 'The subjectId or the apiKey is wrong.')
      return signInAnswer(issue(service), behaviour)
    },
    refusal(request) {
      const header = request.headers.authorization
      const [, text = ''] = /^Bearer\s+(\S+)$/i.exec(typeof header === 'string' ? header : '') ?? []
      const token = accepted.get(text)
      if (text === '') return refused('The request carries no bearer token')
      if (!token) return refused('The token is not known')
      if (!isAccepted(token)) return refused('The token has expired')
      if (token.service !== (request.service satisfies Service))
        return refused('The token is for another service')
      return null
    },
    revoke: () => accepted.clear(),
  }
}

const refused = (reason: string): Answer => ({
  ...problem(401, reason),
  headers: { 'www-authenticate': `Bearer error="invalid_token", error_description="${reason}"` },
})

function jwt(token: {
  readonly subject: string
  readonly service: SignedIn
  readonly endsAtMs: number
  readonly signature: Buffer
}): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = {
    sub: token.subject,
    aud: token.service,
    iat: Math.floor(Date.now() / 1000),
    exp: Math.floor(token.endsAtMs / 1000),
    jti: randomBytes(6).toString('hex'),
  }
  const unsigned = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`
  return `${unsigned}.${createHmac('sha256', token.signature).update(unsigned).digest('base64url')}`
}

function signInAnswer(token: Token, behaviour: Behaviour): Answer {
  const object = {
    [behaviour.tokenField]: token.text,
    tokenType: 'Bearer',
    ...(behaviour.tokenExpiryShown && { expiresIn: Math.round((token.endsAtMs - Date.now()) / 1000) }),
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

function readBody(request: Incoming): { readonly [field: string]: unknown } | null {
  try {
    const value: unknown = JSON.parse(request.body.toString())
    return typeof value === 'object' && value !== null ? { ...value } : null
  } catch {
    return null
  }
}
