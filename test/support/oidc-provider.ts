// An identity provider as the specification of OpenID Connect has it: real HTTP, real signatures, codes that are good once, PKCE. It can be
// told to get things wrong.

import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'

type Claims = Readonly<Record<string, unknown>>
type Wrong = {
  /** Instead of those of the person, or beside them. */
  claims?: Claims
  /** Signs with a key that it does not publish. */
  forges?: boolean
  /** How far its clock is behind. */
  behindMs?: number
  /** The browser is sent back without a sign-in. */
  denies?: string
  /** It takes requests and never answers, or begins to and never ends. */
  hangs?: 'whole' | 'body'
  /** What the head of the token says of its signature, which is then left out. */
  alg?: 'none'
  status?: number
}
export type OidcProvider = {
  readonly url: string
  /** The person who sits before the browser. */
  person: Claims
  wrong: Wrong
  /** Requests for tokens. */
  readonly asked: number
  stop(): Promise<void>
}

export const clientId = 'tidemark-console'
export const clientSecret = 'a-client-secret-of-the-tests'
const keys = { own: newKey(), other: newKey() }

function newKey() {
  const pair = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return {
    ...pair,
    jwk: { ...pair.publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' },
  }
}
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
function signed(claims: Claims, { privateKey }: ReturnType<typeof newKey>): string {
  const text = `${encoded({ alg: 'RS256', kid: 'one', typ: 'JWT' })}.${encoded(claims)}`
  return `${text}.${sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`
}

export async function startOidcProvider(): Promise<OidcProvider> {
  const codes = new Map<string, URLSearchParams>()
  const state = { person: {} as Claims, wrong: {} as Wrong, asked: 0, url: '' }
  const server = createServer((request, response) => {
    if (state.wrong.hangs === 'whole') return
    if (state.wrong.hangs === 'body') {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{"issuer":')
      return
    }
    const now = Date.now() - (state.wrong.behindMs ?? 0)
    response.sendDate = false
    response.setHeader('date', new Date(now).toUTCString())
    void answer(request, response, Math.floor(now / 1000))
  })
  const json = (response: ServerResponse, status: number, body: unknown) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

  async function answer(request: IncomingMessage, response: ServerResponse, now: number): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', state.url)
    if (state.wrong.status) return json(response, state.wrong.status, { error: 'server_error' })
    if (pathname === '/.well-known/openid-configuration')
      return json(response, 200, {
        issuer: state.url,
        authorization_endpoint: `${state.url}/authorize`,
        token_endpoint: `${state.url}/token`,
        end_session_endpoint: `${state.url}/logout`,
        jwks_uri: `${state.url}/keys`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
      })
    if (pathname === '/keys') return json(response, 200, { keys: [keys.own.jwk] })
    if (pathname === '/authorize') {
      const back = new URL(searchParams.get('redirect_uri') ?? '')
      const code = randomBytes(16).toString('base64url')
      codes.set(code, searchParams)
      const denied = state.wrong.denies
      back.search = new URLSearchParams({
        ...(denied === undefined ? { code } : { error: denied }),
        ...{ state: searchParams.get('state') ?? '', iss: state.url },
      }).toString()
      response.writeHead(303, { location: back.href }).end()
      return
    }
    if (pathname !== '/token') return json(response, 404, {})
    state.asked += 1
    let body = ''
    for await (const chunk of request) body += chunk
    const form = new URLSearchParams(body)
    const basic = Buffer.from(
      request.headers.authorization?.replace(/^Basic /, '') ?? '',
      'base64',
    ).toString()
    if (basic.split(':').map(decodeURIComponent).join(':') !== `${clientId}:${clientSecret}`)
      return json(response, 401, { error: 'invalid_client' })
    const asked = codes.get(form.get('code') ?? '')
    codes.delete(form.get('code') ?? '')
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isRight =
      asked?.get('code_challenge') === challenge &&
      asked.get('code_challenge_method') === 'S256' &&
      asked.get('redirect_uri') === form.get('redirect_uri')
    if (!asked || !isRight) return json(response, 400, { error: 'invalid_grant' })
    const claims = {
      ...{ iss: state.url, aud: clientId, sub: 'subject-1', iat: now, exp: now + 300 },
      ...{ nonce: asked.get('nonce'), ...state.person, ...state.wrong.claims },
    }
    const key = state.wrong.forges ? keys.other : keys.own
    const unsigned = `${encoded({ alg: state.wrong.alg, typ: 'JWT' })}.${encoded(claims)}.`
    const token = state.wrong.alg === undefined ? signed(claims, key) : unsigned
    json(response, 200, { access_token: 'x', token_type: 'Bearer', id_token: token })
  }

  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : 0)
    })
  })
  state.url = `http://127.0.0.1:${port}`
  const stop = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  onTestFinished(stop)
  return Object.assign(state, { stop })
}
