// REDIS_URL as people have it: one Redis, the sentinels that know which Redis is the primary, or nodes of a Redis Cluster. One URL says all,
// because then each deployment has one variable to set, and because most programs that take a URL write sentinels in this way: hosts with
// commas between, and the name of the primary as the path. The passwords may stand in variables of their own, and so in files.

import { decodedUri } from './text.ts'

export type RedisHost = { readonly host: string; readonly port: number }
export type RedisUrl = {
  readonly kind: 'single' | 'sentinel' | 'cluster'
  /** Of Sentinel: where the sentinels are. */
  readonly hosts: readonly [RedisHost, ...RedisHost[]]
  /** To the sentinels, too. */
  readonly isTls: boolean
  readonly user: string
  readonly password: string
  readonly db: number
  /** 0: whatever the name of the host leads to. */
  readonly family: number
  /** Empty unless it is one of Sentinel. */
  readonly primary: string
  readonly sentinelUser: string
  readonly sentinelPassword: string
}

const forms = {
  single: 'redis://host:6379',
  sentinel:
    'redis+sentinel://host:26379,other:26379/NAME, with the name that the sentinels have for the primary',
  cluster: 'redis+cluster://host:6379,other:6379',
} as const
const called = { sentinel: 'Redis Sentinel', cluster: 'a Redis Cluster' } as const

/** Throws an Error whose message goes on after `REDIS_URL `. The URL itself stays out of it: it may hold a password (P9). */
export function readRedisUrl(text: string): RedisUrl {
  const [matched, scheme = '', way = '', credentials = '', authority = '', path = '', query = ''] =
    /^(rediss?)(?:[+-](sentinel|cluster))?:\/\/(?:([^/?#]*)@)?([^/?#]*)([^?#]*)(?:\?([^#]*))?$/i.exec(
      text.trim(),
    ) ?? []
  if (matched === undefined) throw new Error(`must be a URL such as ${forms.single}`)
  const kind = kindOf(way)
  const hosts = authority.split(',').map((one) => readHost(one.trim(), kind === 'sentinel' ? 26_379 : 6_379))
  const [first, ...others] = hosts
  if (!first) throw new Error(`must be a URL such as ${forms[kind]}`)
  if (kind === 'single' && others.length > 0)
    throw new Error(
      `names several hosts, but not what they are: write ${forms.sentinel}, or ${forms.cluster}`,
    )
  const options = readOptions(query, kind)
  const [user = '', ...password] = credentials.split(':').map(decoded)
  const names = path.split('/').slice(1).map(decoded)
  const primary = kind === 'sentinel' ? (names.shift() ?? '') : ''
  if (kind === 'sentinel' && primary === '')
    throw new Error(`names no primary: write its name after the hosts, as in ${forms.sentinel}`)
  const db = readDatabase(names[0] || options.get('db') || '0')
  if (names.length > 1) throw new Error(`has a path that is too long: write ${forms[kind]}`)
  if (kind === 'cluster' && db !== 0)
    throw new Error('names a database, but a Redis Cluster has only database 0: leave it out')
  const family = Number(options.get('family') ?? 0)
  if (![0, 4, 6].includes(family)) throw new Error('names a family of addresses that is none: write 4 or 6')
  return {
    kind,
    user,
    db,
    family,
    primary,
    hosts: [first, ...others],
    isTls: scheme.toLowerCase() === 'rediss',
    password: password.join(':'),
    sentinelUser: options.get('sentinelUsername') ?? '',
    sentinelPassword: options.get('sentinelPassword') ?? '',
  }
}

function kindOf(way: string): RedisUrl['kind'] {
  const kind = way.toLowerCase()
  return kind === 'sentinel' || kind === 'cluster' ? kind : 'single'
}

function readHost(text: string, usualPort: number): RedisHost {
  const [, host = '', port = ''] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/.exec(text) ?? []
  if (port !== '' && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535))
    throw new Error('names a port that is none: it must be a number up to 65535')
  return {
    host: decoded(host).replace(/^\[(.*)\]$/, '$1') || 'localhost',
    port: port === '' ? usualPort : Number(port),
  }
}

function decoded(text: string): string {
  const plain = decodedUri(text)
  if (plain === null)
    throw new Error('has a percent sign that stands for no other character: write %25 for it')
  return plain
}

const sentinelOptions = ['sentinelUsername', 'sentinelPassword']

/** Unknown ones would be ignored in silence. */
function readOptions(query: string, kind: RedisUrl['kind']): URLSearchParams {
  const options = new URLSearchParams(query)
  const names = [...options.keys()]
  if (kind !== 'sentinel' && names.some((name) => sentinelOptions.includes(name)))
    throw new Error(
      `names no sentinels, but a user or password of sentinels is set: remove that (sentinelUsername, sentinelPassword, REDIS_SENTINEL_PASSWORD), or write ${forms.sentinel}`,
    )
  if (names.some((name) => !['db', 'family', ...sentinelOptions].includes(name)))
    throw new Error(
      'has options that Tidemark does not know. TLS is what rediss:// means, and its certificate is always verified (EXTRA_CA_FILE adds an authority)',
    )
  return options
}

function readDatabase(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new Error('names a database that is none: write its number as the last')
  return Number(text)
}

/** Where it is, for people. */
export function describeRedis({ kind, hosts, db, primary }: RedisUrl): string {
  const places = hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',')
  const database = db === 0 ? '' : `/${db}`
  return kind === 'sentinel'
    ? `the primary ${primary} of the sentinels ${places}${database}`
    : `${places}${database}`
}

/** The same with its first host only: a URL like all others, in which the password is found. */
export const withOneHost = (text: string): string =>
  text.replace(/^([\w+-]+:\/\/(?:[^/?#]*@)?(?![^/?#]*@)[^/?#,]*),[^/?#]*/, '$1')

/** What is wrong with the one Redis that was found, by its answer to INFO, as it goes on after `REDIS_URL `; null: nothing. */
export function redisInfoProblem({ kind }: Pick<RedisUrl, 'kind'>, info: string): string | null {
  const mode = /^(?:redis|server)_mode:(sentinel|cluster)/m.exec(info)?.[1]
  if (kind !== 'single' || (mode !== 'sentinel' && mode !== 'cluster')) return null
  return `is that of ${called[mode]}: write ${forms[mode]} (rediss+${mode}:// with TLS)`
}
