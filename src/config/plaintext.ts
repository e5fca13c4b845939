// Refuses URLs that send secrets over public networks without TLS, unless their owner says that this is meant (P9).

import { readPostgresUrl } from '../util/postgres-url.ts'
import { isPrivateHost } from '../util/private-hosts.ts'
import type { Config } from './load.ts'

type Urls = Pick<Config, 'allowPlaintext' | 'databaseUrl'> &
  Partial<
    Pick<
      Config,
      'assignmentBaseUrl' | 'authUrl' | 'trackingBaseUrl' | 'trackingAuthUrl' | 'alertWebhookUrl' | 'redisUrl'
    >
  >

/** What is not usable has been told already. */
export function refusePlaintext(config: Urls, complain: (problem: string) => void): void {
  if (config.allowPlaintext) return
  const { databaseUrl } = config
  const refuse = (name: string, host: string, what: string, instead: string) =>
    complain(
      `${name} would send ${what} to ${host} without TLS: ${instead}, or set ALLOW_PLAINTEXT=true if nobody else can listen on the way`,
    )
  for (const [name, url, what, instead] of [
    ['ASSIGNMENT_BASE_URL', config.assignmentBaseUrl, 'the token and all records', 'use https://'],
    ['AUTH_URL', config.authUrl, 'API_KEY', 'use https://'],
    ['TRACKING_BASE_URL', config.trackingBaseUrl, 'the token and all records', 'use https://'],
    ['TRACKING_AUTH_URL', config.trackingAuthUrl, 'the key', 'use https://'],
    ['ALERT_WEBHOOK_URL', config.alertWebhookUrl, 'alerts', 'use https://'],
    ['REDIS_URL', config.redisUrl, 'its password and the queue', 'use rediss://'],
  ] as const) {
    const target = url && URL.canParse(url) ? new URL(url) : null
    // Where it is not set it is that of the other service.
    const isTold = name === 'TRACKING_AUTH_URL' && url === config.authUrl
    if (target && /^(?:http|redis):$/.test(target.protocol) && !isPrivateHost(target.hostname) && !isTold)
      refuse(name, target.hostname, what, instead)
  }
  for (const url of databaseUrl ? readPostgresUrl(databaseUrl).hosts : []) {
    const { hostname, searchParams } = url
    const mode = searchParams.get('sslmode') ?? (searchParams.get('ssl') === 'false' ? 'disable' : '')
    if (plainModes.includes(mode) && !searchParams.has('host') && !isPrivateHost(hostname))
      refuse('DATABASE_URL', hostname, 'its password and all rows', `leave out sslmode=${mode}`)
  }
}

/** `allow` and `prefer` fall back to it, as whoever is on the way likes. */
const plainModes = ['disable', 'allow', 'prefer']
