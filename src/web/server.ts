// The HTTP server of the worker: small limits, short timeouts for slow clients, and no word about what was asked in its errors,
// because a path may hold a secret (P9). The routes are in the files beside it.

import type { Server } from 'node:http'
import { BlockList, isIP, type Socket } from 'node:net'
import { hostname } from 'node:os'
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
} from 'fastify'
import type { Logger } from '../log.ts'
import { messageOf } from '../util/errors.ts'
import { limitConnections, openFilesLimit, tooFewFiles } from './connections.ts'

/** Adds routes to the server. */
export type Routes = (server: FastifyInstance) => void

export type HttpServer = {
  readonly url: string
  readonly port: number
  close(): Promise<void>
}

/** The address cannot be listened on, or not with so few open files. */
export class AddressUnusable extends Error {
  override readonly name = 'AddressUnusable'
}

type Options = {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  readonly routes: readonly Routes[]
  /** Addresses and networks of proxies that tell the address of their clients. */
  readonly trustedProxies?: readonly string[]
  /** PUBLIC_URL. */
  readonly publicUrl?: string | null
  /** How long a client may take to send its request. */
  readonly timeoutMs?: number
  /** How many files this process may have open; a connection is one. */
  readonly openFiles?: number
  readonly log: Logger
}

const bodyLimitBytes = 1_048_576
const usualTimeoutMs = 15_000
const keepAliveTimeoutMs = 5_000
const tooLarge = Object.assign(new Error('the body is too large'), { statusCode: 413 })

export async function startHttpServer({
  host,
  port,
  routes,
  trustedProxies = [],
  publicUrl = null,
  timeoutMs = usualTimeoutMs,
  openFiles = openFilesLimit(),
  log,
}: Options): Promise<HttpServer> {
  const tooFew = tooFewFiles(openFiles)
  if (tooFew !== null) throw new AddressUnusable(tooFew)
  const isTrusted = isOneOf(trustedProxies)
  const server = fastify({
    logger: false,
    bodyLimit: bodyLimitBytes,
    requestTimeout: timeoutMs,
    connectionTimeout: 2 * timeoutMs,
    // How often the server looks for clients that send only a byte now and then.
    http: { headersTimeout: timeoutMs, connectionsCheckingInterval: timeoutMs },
    keepAliveTimeout: keepAliveTimeoutMs,
    forceCloseConnections: true,
    // The address of a client is the last one in X-Forwarded-For that is no trusted proxy: what comes before it, the client wrote.
    trustProxy: isTrusted,
    routerOptions: { maxParamLength: 1_000 },
    clientErrorHandler: answerUnreadable,
  })
  secureAnswers(server.server, publicUrl)
  limitConnections(server.server, { openFiles, isTrusted, log })
  server.removeAllContentTypeParsers()
  // Bodies are not needed here. They are read to their end, because otherwise a client may never read the answer.
  server.addContentTypeParser('*', (_request, payload, done) => {
    let bytes = 0
    payload.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bodyLimitBytes) payload.destroy(tooLarge)
    })
    payload.on('end', () => done(null, undefined))
    payload.on('error', (error) => done(error))
  })
  server.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'not found' }))
  server.setErrorHandler<FastifyError>((error, _request, reply) => {
    const status = error.statusCode ?? 500
    // Whoever hangs up before the answer, or in the middle of a body, is no failure of the worker, and must not fill its log.
    if (status >= 500 && !reply.raw.destroyed)
      log.warn({ err: error }, 'answering a request over HTTP failed')
    reply
      .code(status)
      .send({ error: status >= 500 ? 'It failed. The log of the worker says why.' : 'bad request' })
  })
  for (const add of routes) add(server)
  try {
    await server.listen({ host, port })
  } catch (cause) {
    throw new AddressUnusable(problemOf(cause, host, port), { cause })
  }
  const address = server.server.address()
  const chosen = typeof address === 'object' && address ? address.port : port
  return { url: `http://${urlHost(host)}:${chosen}`, port: chosen, close: () => server.close() }
}

/**
 * What every answer says to browsers, whatever it is; routes may say something else. A page of another site can neither frame, embed nor
 * read it, it can load nothing, and nobody keeps a copy.
 */
const usualHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
  // With a stricter policy, browsers would send forms with the origin `null`.
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}
const hstsSeconds = 365 * 24 * 3600

function secureAnswers(server: Server, publicUrl: string | null): void {
  const secureName = publicUrl?.startsWith('https://') ? new URL(publicUrl).hostname : null
  // Before the routes, and beneath them: errors of the framework and answers that a route writes by itself get them as well.
  server.prependListener('request', ({ headers }, response) => {
    for (const [name, value] of Object.entries(usualHeaders)) response.setHeader(name, value)
    if (secureName !== null && nameIn(headers.host ?? '') === secureName)
      response.setHeader('strict-transport-security', `max-age=${hstsSeconds}`)
  })
}

/** A request that is no HTTP, is too large, or came too slowly. */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  const answers: Readonly<Record<string, string>> = {
    HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
    ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  }
  const headers = Object.entries(usualHeaders).map(([name, value]) => `${name}: ${value}\r\n`)
  if (error.code !== 'ECONNRESET' && socket.writable)
    socket.write(
      `HTTP/1.1 ${answers[error.code ?? ''] ?? '400 Bad Request'}\r\n${headers.join('')}content-length: 0\r\nconnection: close\r\n\r\n`,
    )
  socket.destroy()
}

export function isOneOf(networks: readonly string[]): (address: string) => boolean {
  const known = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    known.addSubnet(address, Number(prefix ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return (address) => isIP(address) !== 0 && known.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

function problemOf(cause: unknown, host: string, port: number): string {
  const { code } = cause as NodeJS.ErrnoException
  const where = `${host}:${port}`
  if (code === 'EADDRINUSE')
    return `${where} is taken by another program. Set HTTP_PORT to a free port (0 picks one).`
  if (code === 'EACCES') return `This user may not listen on ${where}. Set HTTP_PORT to 1024 or more.`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return `HTTP_HOST is ${host}, which is not an address of this machine.`
  return `Tidemark cannot listen on ${where} (${code ?? messageOf(cause)}). Check HTTP_HOST and HTTP_PORT.`
}

/** The host as people can open it: no browser can go to 0.0.0.0. */
function urlHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}

// Keeps pages from sites that use DNS rebinding: they bind their name to the address of this worker after their script was loaded, and to
// the browser the site and this worker are one. This holds whatever address the worker listens on: inside a container it listens on all,
// and is still reached through this machine only.
export type OwnNames = {
  /** HTTP_HOST: an address, or a name. */
  readonly listensOn: string
  /** PUBLIC_URL. */
  readonly publicUrl: string | null
  /** HTTP_NAMES. */
  readonly names: readonly string[]
}

const refusal =
  'The worker does not know this name as its own. Add it to HTTP_NAMES, or open the worker by its address or over TLS.'

/**
 * Routes that answer only requests by a name that nobody else could have bound. `browsersOnly`, for routes of programs such as probes and
 * Prometheus, checks only browsers: programs ask by any name or address under which they find the worker, and no site can make them ask.
 */
export const byKnownNames =
  (
    { listensOn, publicUrl, names }: OwnNames,
    routes: readonly Routes[],
    { browsersOnly = false }: { readonly browsersOnly?: boolean } = {},
  ): Routes =>
  (server) => {
    const publicNames = publicUrl === null ? [] : [new URL(publicUrl).hostname]
    const own = new Set([listensOn, hostname(), ...publicNames, ...names].map((name) => name.toLowerCase()))
    const isKnown = (name: string) => isLoopback(name) || isIP(name) !== 0 || own.has(name)
    async function admit(
      { headers, raw }: FastifyRequest,
      reply: FastifyReply,
    ): Promise<FastifyReply | undefined> {
      // A proxy may have looked at the other one.
      if ((raw.headersDistinct.host?.length ?? 0) > 1) return reply.code(400).send({ error: 'bad request' })
      if (headers.host === undefined || isKnown(nameIn(headers.host))) return
      if (browsersOnly && !isBrowser(headers)) return
      // Browsers send these headers only to this machine or over TLS, and no script can set them. So a proxy with TLS sent this, or a program.
      if (headers['sec-fetch-site'] !== undefined || headers['sec-fetch-mode'] !== undefined) return
      return reply.code(421).send({ error: refusal })
    }
    server.register(async (scope) => {
      scope.addHook('onRequest', admit)
      for (const add of routes) add(scope)
    })
  }

/**
 * Without TLS, browsers send no `Sec-Fetch-…`, and no `Origin` when a site asks itself; but they always send a language, which a script can
 * empty and not leave out. `User-Agent` does not tell: many monitors call themselves Mozilla.
 */
const isBrowser = (headers: FastifyRequest['headers']): boolean =>
  ['accept-language', 'origin', 'referer', 'cookie'].some((name) => headers[name] !== undefined)

/** A name or an address that only this machine has. */
export const isLoopback = (host: string): boolean =>
  /^(?:.+\.)?localhost$/i.test(host) || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

/** The host without its port, and an IPv6 address without its brackets. */
const nameIn = (host: string): string =>
  URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname.replace(/^\[|\]$/g, '') : ''

/** The query of an address, without its `?`. There may be another one in it. */
export const queryTextOf = ({ url }: Pick<FastifyRequest, 'url'>): string => url.replace(/^[^?]*\??/, '')
export const queryOf = (request: Pick<FastifyRequest, 'url'>): URLSearchParams =>
  new URLSearchParams(queryTextOf(request))

/** Whether a browser asks, which shows a page; all others get JSON. */
export const wantsHtml = ({ headers }: Pick<FastifyRequest, 'headers'>): boolean =>
  headers.accept?.includes('text/html') === true

// Bodies of HTML forms, small and only where a route wants them: other routes take any body and read none.
export type Fields = Readonly<Record<string, string>>

const mostBytes = 16_384
const formType = 'application/x-www-form-urlencoded'

/** Adds routes whose requests may carry a form. */
export function withForms(server: FastifyInstance, add: (scope: FastifyInstance) => void): void {
  server.register(async (scope) => {
    scope.addContentTypeParser(
      formType,
      { parseAs: 'string', bodyLimit: mostBytes },
      (_request, body, done) => done(null, new URLSearchParams(String(body))),
    )
    add(scope)
  })
}

/** Adds routes that want the bytes of a body, whatever it is said to be. */
export function withBytes(server: FastifyInstance, add: (scope: FastifyInstance) => void): void {
  server.register(async (scope) => {
    scope.removeContentTypeParser('*')
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    add(scope)
  })
}

/** Fields that were left empty are not there. One that comes more than once, as of boxes that are ticked, is a list with commas. Postgres keeps no text with a NUL in it. */
export function fieldsOf({ body }: Pick<FastifyRequest, 'body'>): Fields {
  const fields = new Map<string, string>()
  if (!(body instanceof URLSearchParams)) return {}
  for (const [name, given] of body) {
    const value = given.replaceAll('\0', '').trim()
    const before = fields.get(name)
    if (value !== '') fields.set(name, before === undefined ? value : `${before},${value}`)
  }
  return Object.fromEntries(fields)
}
