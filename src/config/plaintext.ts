// Refuses URLs that send secrets over public networks without TLS, unless their owner says that this is meant (P9).

import { readPostgresUrl } from '../util/postgres-url.ts'
import { isPrivateHost } from '../util/private-hosts.ts'
import { noProxies, proxyOf } from '../util/proxies.ts'
import { readRedisUrl } from '../util/redis-url.ts'
import type { Config } from './load.ts'

type Urls = Pick<Config, 'allowPlaintext' | 'databaseUrl'> & Partial<Config>

/** The settings that name what this program asks over HTTP, with what it sends there and gets from there. */
export function addressesOf(config: Partial<Config>) {
  const { contract, authUrl, trackingAuthUrl } = config
  const addresses = [
    ['ASSIGNMENT_BASE_URL', config.assignmentBaseUrl, 'the token and all records'],
    ['AUTH_URL', authUrl, 'API_KEY'],
    ['TRACKING_BASE_URL', config.trackingBaseUrl, 'the token and all records'],
    // Where it is not set it is that of the other service.
    ['TRACKING_AUTH_URL', trackingAuthUrl === authUrl ? null : trackingAuthUrl, 'the key'],
    ['ALERT_WEBHOOK_URL', config.alertWebhookUrl, 'alerts'],
    ['OIDC_ISSUER', config.oidcIssuer, 'who signs in'],
    ['CONTRACT', contract?.kind === 'url' ? contract.at : null, 'its path and query'],
  ] as const
  return addresses.flatMap(([name, url, what]) =>
    url && URL.canParse(url) ? [{ name, url: new URL(url), what }] : [],
  )
}

/** What is not usable has been told already. */
export function refusePlaintext(config: Urls, complain: (problem: string) => void): void {
  if (config.allowPlaintext) return
  const { databaseUrl, redisUrl, publicUrl, tidemarkUrl } = config
  const refuse: Refuse = (name, host, what, instead) =>
    complain(
      `${name} would ${name === 'PUBLIC_URL' ? `let ${what} be sent` : `send ${what}`} to ${host} without TLS: ${instead}, or set ALLOW_PLAINTEXT=true if nobody else can listen on the way`,
    )
  refuseOnTheWay(config, refuse)
  const redis = redisUrl ? readRedisUrl(redisUrl) : null
  for (const { host } of redis?.isTls === false ? redis.hosts : [])
    if (!isPrivateHost(host))
      refuse(
        'REDIS_URL',
        host,
        'its password and the queue',
        `use rediss${redis?.kind === 'single' ? '' : `+${redis?.kind}`}://`,
      )
  for (const [name, url, what] of [
    ['PUBLIC_URL', publicUrl, 'WEBHOOK_SECRET'],
    ['TIDEMARK_URL', tidemarkUrl, 'TIDEMARK_TOKEN'],
  ] as const) {
    const { protocol, hostname } = new URL(url && URL.canParse(url) ? url : 'https://nothing.invalid')
    if (protocol === 'http:' && !isPrivateHost(hostname)) refuse(name, hostname, what, 'use https://')
  }
  for (const url of databaseUrl ? readPostgresUrl(databaseUrl).hosts : []) {
    const { hostname, searchParams } = url
    const mode = searchParams.get('sslmode') ?? (searchParams.get('ssl') === 'false' ? 'disable' : '')
    if (plainModes.includes(mode) && !searchParams.has('host') && !isPrivateHost(hostname))
      refuse('DATABASE_URL', hostname, 'its password and all rows', `leave out sslmode=${mode}`)
  }
}

type Refuse = (name: string, host: string, what: string, instead: string) => void

/** What is sent to a private host in plain text passes a proxy first, and the password of a proxy goes there before any tunnel. */
function refuseOnTheWay({ proxies = noProxies, ...config }: Urls, refuse: Refuse): void {
  const withPassword = new Map<string, { readonly name: string; readonly host: string }>()
  for (const { name, url, what } of addressesOf(config)) {
    const proxy = proxyOf(url, proxies)
    const isOpenProxy = proxy?.protocol === 'http:' && !isPrivateHost(proxy.hostname)
    if (url.protocol === 'http:' && !isPrivateHost(url.hostname))
      refuse(name, url.hostname, what, 'use https://')
    else if (url.protocol === 'http:' && isOpenProxy)
      refuse(name, `the proxy ${proxy.hostname}`, what, `use https://, or name ${url.hostname} in NO_PROXY`)
    if (isOpenProxy && proxy.password !== '')
      withPassword.set(proxy.href, {
        name: url.protocol === 'https:' ? 'HTTPS_PROXY (or ALL_PROXY)' : 'HTTP_PROXY (or ALL_PROXY)',
        host: proxy.hostname,
      })
  }
  for (const { name, host } of withPassword.values())
    refuse(name, host, 'the password of the proxy', 'use an https:// URL of the proxy')
}

/** `allow` and `prefer` fall back to it, as whoever is on the way likes. */
const plainModes = ['disable', 'allow', 'prefer']
