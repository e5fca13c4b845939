// Signs people in through an identity provider: OpenID Connect, the authorization code flow with PKCE. What ties the answer of the provider
// to the browser that began follows from one random secret in a cookie of that browser, so nothing is kept here in between, and any worker
// can take the answer.

import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import * as client from 'openid-client'
import { type RoleGroups, roleOf } from '../operator/roles.ts'
import { messageOf } from '../util/errors.ts'
import { openAgents, type Proxies } from '../util/proxies.ts'
import type { Person } from './sessions.ts'

export type IdentityProvider = ReturnType<typeof openIdentityProvider>

/** Says in one line what went wrong and what to do. Rejected by `begin` and `finish`. */
export class SignInFailed extends Error {
  override readonly name = 'SignInFailed'
}

export type OidcSettings = {
  readonly issuer: string
  readonly clientId: string
  /** As it is now; null: there is none. */
  readonly clientSecret: () => string | null
  /** The address of the console, to which the provider sends people back. */
  readonly consoleUrl: string
  readonly scope: string
  readonly roleClaim: string
  readonly nameClaim: string
  readonly groups: RoleGroups
  readonly proxies: Proxies
  /** How long the provider may take for each answer. */
  readonly timeoutSeconds?: number
}

export const callbackPath = '/sign-in/oidc/callback'
export const newSignInSecret = (): string => randomBytes(32).toString('base64url')

const usualTimeoutSeconds = 10
/** What is known of the provider is asked for again after this. */
const knownForMs = 600_000
const mostAnswerBytes = 1_000_000
/** How far apart the clocks may be. */
const toleratedSeconds = 60
const longestName = 60

export function openIdentityProvider(settings: OidcSettings, now: () => number = Date.now) {
  const { clientId, consoleUrl, scope } = settings
  const issuer = new URL(settings.issuer)
  const redirectUri = new URL(callbackPath, consoleUrl)
  let known: { readonly atMs: number; readonly config: Promise<client.Configuration> } | null = null

  function configuration(): Promise<client.Configuration> {
    if (known && Math.abs(now() - known.atMs) < knownForMs) return known.config
    const config = discover(settings, issuer)
    known = { atMs: now(), config }
    config.catch(() => {
      if (known?.config === config) known = null
    })
    return config
  }
  const failed = (error: unknown) => new SignInFailed(inWords(error, settings), { cause: error })

  return {
    /** As people know it. */
    host: issuer.host,
    /** Whether people open the console over TLS. */
    isSecure: redirectUri.protocol === 'https:',
    /** Where the browser goes to sign in. */
    async begin(secret: string): Promise<URL> {
      const config = await configuration().catch((error) => Promise.reject(failed(error)))
      return client.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri.href,
        scope,
        response_type: 'code',
        state: derived('state', secret),
        nonce: derived('nonce', secret),
        code_challenge: await client.calculatePKCECodeChallenge(derived('verifier', secret)),
        code_challenge_method: 'S256',
      })
    },
    /** What came of it, by the query with which the browser came back. */
    async finish(query: string, secret: string): Promise<SignedIn> {
      try {
        const config = await configuration()
        const tokens = await client.authorizationCodeGrant(config, new URL(`?${query}`, redirectUri), {
          expectedState: derived('state', secret),
          expectedNonce: derived('nonce', secret),
          pkceCodeVerifier: derived('verifier', secret),
          idTokenExpected: true,
        })
        return personIn(tokens.claims() ?? {}, settings, issuer)
      } catch (error) {
        throw error instanceof SignInFailed ? error : failed(error)
      }
    },
    /** Where somebody signs out at the provider itself. Null: it has no such place, or does not answer. */
    async signOutUrl(): Promise<string | null> {
      const config = await configuration().catch(() => null)
      if (!config?.serverMetadata().end_session_endpoint) return null
      const back = new URL('/sign-in', consoleUrl).href
      return client.buildEndSessionUrl(config, { client_id: clientId, post_logout_redirect_uri: back }).href
    },
  }
}

/** Each from the secret, and none of them tells another. */
const derived = (what: string, secret: string): string =>
  createHash('sha256').update(`${what} ${secret}`).digest('base64url')

function discover(
  { clientId, clientSecret, proxies, timeoutSeconds = usualTimeoutSeconds }: OidcSettings,
  issuer: URL,
): Promise<client.Configuration> {
  // Plain HTTP to public hosts was refused when the settings were read.
  const insecure = issuer.protocol === 'http:' ? [client.allowInsecureRequests] : []
  const authenticate: client.ClientAuth = (server, metadata, body, headers) => {
    const secret = clientSecret()
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const how = methods.includes('client_secret_basic') ? client.ClientSecretBasic : client.ClientSecretPost
    return (secret === null ? client.None() : how(secret))(server, metadata, body, headers)
  }
  return client.discovery(issuer, clientId, { [client.clockTolerance]: toleratedSeconds }, authenticate, {
    execute: [client.enableNonRepudiationChecks, ...insecure],
    [client.customFetch]: fetchThrough(proxies),
    timeout: timeoutSeconds,
  })
}

/** Follows no redirect, and reads no endless answer. */
const fetchThrough =
  (proxies: Proxies): client.CustomFetch =>
  (url, { method, headers, body, signal }) => {
    const target = new URL(url)
    const isSecure = target.protocol === 'https:'
    const agents = openAgents(proxies, { keepAlive: false })
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    // `node:http` says that it was stopped, and not that it took too long.
    const fail = (error: unknown) => reject(signal?.aborted ? signal.reason : error)
    const request = (isSecure ? httpsRequest : httpRequest)(target, {
      method,
      headers,
      agent: isSecure ? agents.of(target).https : agents.of(target).http,
      ...(signal && { signal }),
    })
    request.on('error', fail)
    request.on('close', agents.close)
    request.on('response', (answer) => {
      const chunks: Buffer[] = []
      let bytes = 0
      answer.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > mostAnswerBytes)
          request.destroy(
            new SignInFailed(
              `An answer of ${target.host} is larger than 1 MB. Check OIDC_ISSUER, and what it puts into the ID token.`,
            ),
          )
        chunks.push(chunk)
      })
      answer.on('error', fail)
      answer.on('end', () => {
        const { statusCode = 500, headers: given } = answer
        const kept = { 'content-type': given['content-type'], 'www-authenticate': given['www-authenticate'] }
        const said = Object.entries(kept).flatMap(([name, value]) => (value ? [[name, value]] : []))
        const hasBody = statusCode !== 204 && statusCode !== 304 && statusCode >= 200
        resolve(
          new Response(hasBody ? Buffer.concat(chunks) : null, {
            status: Math.max(200, statusCode),
            headers: Object.fromEntries(said),
          }),
        )
      })
    })
    request.end(body === undefined || body === null ? undefined : String(body))
    return promise
  }

type SignedIn = { readonly person: Person; readonly how: string }

/** Who it is, by what the provider says and vouches for. */
function personIn(
  claims: Readonly<Record<string, unknown>>,
  { roleClaim, nameClaim, groups, clientId }: OidcSettings,
  { host }: URL,
): SignedIn {
  const sub = String(claims.sub)
  const name = [claims[nameClaim], claims.email, sub].find((one) => typeof one === 'string' && one !== '')
  const printed = printable(String(name))
  const given = claimAt(claims, roleClaim)
  // Where people may say any address of themselves, an address that nobody verified could be an admin's.
  if (roleClaim === 'email' && String(claims.email_verified) !== 'true')
    throw new SignInFailed(
      `${host} does not say that it verified the address of ${printed}, so it gives no rights here.`,
    )
  const values = (Array.isArray(given) ? given : [given]).filter((one) => typeof one === 'string')
  if (values.length === 0)
    throw new SignInFailed(
      `${host} knows you as ${printed}, but says nothing about your role: in its ID token for ${clientId} the claim ${roleClaim} ${given === undefined ? 'is missing' : 'is neither a text nor a list of texts'}. Let the provider add it, or set OIDC_ROLE_CLAIM to the claim that has your groups.`,
    )
  const role = roleOf(values, groups)
  if (role === null)
    throw new SignInFailed(
      `${host} knows you as ${printed}, but none of your groups gives a role here. Ask an admin to put you into one that VIEWER_GROUPS, OPERATOR_GROUPS or ADMIN_GROUPS names.`,
    )
  return {
    person: { role, who: `oidc:${printed}` },
    how: `Signed in at ${host}, which knows them as ${printable(sub)}.`,
  }
}

/** A claim by its whole name, which may have dots, or the one inside of others that a path names. */
const claimAt = (claims: Readonly<Record<string, unknown>>, path: string): unknown =>
  Object.hasOwn(claims, path)
    ? claims[path]
    : path
        .split('.')
        .reduce<unknown>(
          (inside, name) =>
            typeof inside === 'object' && inside !== null && Object.hasOwn(inside, name)
              ? (inside as Record<string, unknown>)[name]
              : undefined,
          claims,
        )

/** One line, without what hides or turns around what follows. */
export const printable = (text: string): string =>
  [...text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, ' ').trim()].slice(0, longestName).join('')

// What went wrong, by the errors of the library and of the network.
function inWords(
  error: unknown,
  { issuer, clientId, timeoutSeconds = usualTimeoutSeconds }: OidcSettings,
): string {
  const { host } = new URL(issuer)
  if (error instanceof client.AuthorizationResponseError)
    return `${host} refused the sign-in (${printable(error.error)}). Try again, or ask whoever runs it.`
  if (error instanceof client.ResponseBodyError || error instanceof client.WWWAuthenticateChallengeError) {
    const why = error instanceof client.ResponseBodyError ? printable(error.error) : String(error.status)
    return why === 'invalid_grant'
      ? `${host} does not take this answer of its own any more: it was used already, or is too old. Sign in again.`
      : `${host} refused to tell who signed in (${why}). Check OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.`
  }
  const { code = '', cause } = error as { readonly code?: string; readonly cause?: unknown }
  if (cause instanceof SignInFailed) return cause.message
  const { claim, secondsAhead } = claimIn(cause)
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') {
    const minutes = Math.round(Math.abs(secondsAhead) / 60)
    const clock =
      minutes > 0
        ? ` The clock of this machine is ${minutes} min ${secondsAhead > 0 ? 'ahead of' : 'behind'} that of ${host}: set it.`
        : ` The clocks agree: ask whoever runs ${host} how long its tokens are good.`
    return `The ID token of ${host} ${claim === 'nbf' ? 'is not good yet' : 'has expired'}.${clock}`
  }
  if (claim === 'aud' || claim === 'azp')
    return `The ID token of ${host} is for another program than ${clientId}, so nobody was signed in. Check OIDC_CLIENT_ID and the client at the provider.`
  if (claim === 'nonce')
    return `The ID token of ${host} belongs to another sign-in, so nobody was signed in. Sign in again.`
  if (code === 'OAUTH_TIMEOUT') return `${host} did not answer within ${timeoutSeconds} s. ${otherWays}`
  if (code.startsWith('OAUTH_'))
    return `${host} answered what OpenID Connect does not allow (${code}: ${messageOf(error)}). Check OIDC_ISSUER.`
  const { code: reason = messageOf(cause ?? error) } = (cause ?? {}) as { readonly code?: string }
  return `${host} cannot be reached (${reason}). ${otherWays}`
}

const otherWays = 'Try again; until it answers, sign in with a token.'

/** The claim that was wrong, and how far this machine is ahead of when the token was made, which was a moment ago. */
function claimIn(cause: unknown): { readonly claim: string | null; readonly secondsAhead: number } {
  const { claim = null, claims } = ((cause instanceof Error ? cause.cause : null) ?? {}) as {
    readonly claim?: string
    readonly claims?: { readonly iat?: unknown }
  }
  const madeAt = Number(claims?.iat)
  return { claim, secondsAhead: Number.isFinite(madeAt) ? Date.now() / 1000 - madeAt : 0 }
}
