// DATABASE_URL as people have it: one host or several, a socket or TCP. Read into one URL a host, each of a form that the driver knows.

import { decodedUri } from './text.ts'

/** What a session has to be like. What libpq also knows and is written nowhere here is no setting of it. */
export const sessionWishes = [
  'any',
  'read-write',
  'read-only',
  'primary',
  'standby',
  'prefer-standby',
] as const
export type SessionWish = (typeof sessionWishes)[number]

export type PostgresUrl = {
  /** In the order in which they are tried; never empty. A socket is the option `host` of its URL. */
  readonly hosts: readonly [URL, ...URL[]]
  /** `target_session_attrs`; null: it is not set. */
  readonly wish: SessionWish | null
}

/** Throws an Error whose message goes on after `DATABASE_URL `. The URL itself stays out of it: it may hold a password (P9). */
export function readPostgresUrl(text: string): PostgresUrl {
  const parts = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#]*)([^?#]*)(?:\?([^#]*))?$/i.exec(text.trim())
  if (!parts) throw new Error(notAUrl)
  const [, scheme = '', user = '', authority = '', path = '', query = ''] = parts
  const options = new URLSearchParams(query)
  const named = options.get('host')?.split(',').map(readHost) ?? authority.split(',').map(readAddress)
  const ports =
    options.get('port')?.split(',') ?? (options.has('host') ? [readAddress(authority).port] : null)
  if (ports && ports.length !== 1 && ports.length !== named.length)
    throw new Error(
      `names ${named.length} hosts and ${ports.length} ports: give one port, or one for each host`,
    )
  const wish = readWish(options.get('target_session_attrs'))
  for (const name of ['host', 'port', 'target_session_attrs']) options.delete(name)
  const hosts = named.map(({ host, port }, place) => {
    const chosen = ports === null ? port : (ports[place] ?? ports[0] ?? '')
    return urlOf(`${scheme}${user}`, { host, port: chosen }, path, options, user !== '' || named.length > 1)
  })
  const [first, ...others] = hosts
  if (!first) throw new Error(notAUrl)
  return { hosts: [first, ...others], wish }
}

const notAUrl = 'must be a URL such as postgres://host:5432/database, with user:password@ before the host'

type Address = { readonly host: string; readonly port: string }

const readHost = (host: string): Address => ({ host: host.trim(), port: '' })

function readAddress(text: string): Address {
  const [, host = '', port = ''] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/.exec(text.trim()) ?? []
  const plain = decodedUri(host)
  if (plain === null) throw new Error(notAUrl)
  return { host: plain.replace(/^\[(.*)\]$/, '$1'), port }
}

function urlOf(
  before: string,
  { host, port }: Address,
  path: string,
  given: URLSearchParams,
  needsHost: boolean,
): URL {
  if (port !== '' && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535))
    throw new Error(`names a port that is none: it must be a number up to 65535`)
  const options = new URLSearchParams(given)
  const isSocket = host.startsWith('/')
  if (isSocket) options.set('host', host)
  if (isSocket && port !== '') options.set('port', port)
  // The driver cannot read a user without a host; a socket wins over it.
  const shown = isSocket || (host === '' && needsHost) ? 'localhost' : host.includes(':') ? `[${host}]` : host
  const query = options.size === 0 ? '' : `?${options}`
  const url = `${before}${shown}${isSocket || port === '' ? '' : `:${port}`}${path}${query}`
  if (!URL.canParse(url)) throw new Error(notAUrl)
  return new URL(url)
}

function readWish(text: string | null): SessionWish | null {
  const wish = sessionWishes.find((known) => known === text)
  if (text === null || wish) return wish ?? null
  throw new Error(`says target_session_attrs=${text}; it must be one of ${sessionWishes.join(', ')}`)
}

/** `host:5432`, or the directory of a socket. */
export function addressIn(url: URL): string {
  const socket = url.searchParams.get('host')
  const port = url.searchParams.get('port') ?? url.port
  return `${socket ?? (decodeURIComponent(url.hostname) || 'localhost')}:${port || '5432'}`
}
