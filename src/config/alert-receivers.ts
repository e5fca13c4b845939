// Receivers of alerts: what can be said of one, wherever it is said, and the way to it that follows. Where its secrets are is handed in.

import { z } from 'zod'
import { isPrivateHost } from '../util/private-hosts.ts'
import { type Proxies, proxyOf } from '../util/proxies.ts'
import { decodedUri } from '../util/text.ts'

export const alertFormats = ['slack', 'teams', 'pagerduty', 'json'] as const
export type AlertFormat = (typeof alertFormats)[number]

export type Webhook = {
  readonly url: string
  /** Left out: it is reached directly. */
  readonly proxies?: Proxies
  /** Null or left out: the address tells. */
  readonly format?: AlertFormat | null
  /** Of PagerDuty: the integration key. */
  readonly key?: string
}
export type Mailbox = {
  readonly host: string
  readonly port: number
  /** TLS from the first byte; otherwise by STARTTLS. */
  readonly isTls: boolean
  /** Nobody else can listen on the way, or the owner says so. */
  readonly mayBePlain: boolean
  readonly user: string | null
  readonly password: string | null
  readonly from: string
  readonly to: readonly string[]
}
export type Way = Webhook | { readonly mail: Mailbox }

const address = z.string().regex(/^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}$/, {
  error: 'must be an address of mail such as ada@example.com, without a name beside it',
})
const mailServer = /^(smtps?):\/\/(?:([^\s:/?#]+)@)?(\[[\da-f:.]+\]|[\w.-]+)(?::([1-9]\d{0,4}))?$/i

/** `secret`: what may stand where one belongs. */
export const receiverSchema = (secret: z.ZodString) =>
  z.strictObject(
    {
      webhook: secret.optional(),
      format: z.enum(alertFormats, `must be ${alertFormats.slice(0, -1).join(', ')} or json`).optional(),
      key: secret.optional(),
      smtp: z
        .string()
        .regex(
          mailServer,
          'must be smtp://host or smtps://host, with user@ before and :port after it where needed',
        )
        .optional(),
      password: secret.optional(),
      from: address.optional(),
      to: z
        .preprocess((value) => (typeof value === 'string' ? [value] : value), z.array(address).min(1).max(50))
        .optional(),
    },
    'must be a list of settings',
  )
export type ReceiverSettings = z.output<ReturnType<typeof receiverSchema>>

export type Given = {
  readonly proxies: Proxies
  readonly allowPlaintext: boolean
  /** `field`: the one to mend, where the problem names none; left out: the setting. */
  readonly complain: (setting: string | null, problem: string, field?: string) => void
  /** The secret that is meant by what stands in its place; null when it cannot be had, which was told. Null: no way is looked for. */
  readonly secretOf: ((setting: string, said: string) => string | null) | null
}

/** Undefined when it has mistakes, which were told. */
export function wayOf(settings: ReceiverSettings, given: Given): Way | undefined {
  const { complain, secretOf } = given
  const { webhook, format = null, key, smtp, password, from, to } = settings
  const others = smtp === undefined ? { password, from, to } : { format, key, webhook }
  for (const [setting, value] of Object.entries(others))
    if (value !== undefined && value !== null)
      complain(setting, `is not for a receiver with ${smtp === undefined ? 'a webhook' : 'smtp'}: remove it`)
  if (smtp !== undefined) return mailOf(smtp, settings, given)
  if (format === 'pagerduty' && key === undefined)
    complain(null, 'needs key, the integration key of PagerDuty', 'key')
  if (format !== 'pagerduty' && webhook === undefined)
    complain(null, 'needs webhook, or smtp with from and to', 'webhook')
  if (secretOf === null) return undefined
  const url = webhook === undefined ? pagerDuty : secretOf('webhook', webhook)
  const value = key === undefined ? undefined : secretOf('key', key)
  if (url === null || value === null) return undefined
  const target = URL.canParse(url) ? new URL(url) : null
  if (!target || !/^https?:$/.test(target.protocol) || `${target.username}${target.password}` !== '')
    return void complain(
      'webhook',
      'must hold a URL such as https://hooks.example/…, without user and password',
    )
  const isOpen = target.protocol === 'http:' && !isPrivateHost(target.hostname)
  const proxy = proxyOf(target, given.proxies)
  const isOpenOnTheWay = target.protocol === 'http:' && proxy !== null && !isPrivateHost(proxy.hostname)
  if ((isOpen || isOpenOnTheWay) && !given.allowPlaintext)
    complain('webhook', 'would send alerts without TLS: use https://, or set ALLOW_PLAINTEXT=true')
  return { url, format, proxies: given.proxies, ...(value !== undefined && { key: value }) }
}

const pagerDuty = 'https://events.pagerduty.com/v2/enqueue'

function mailOf(smtp: string, settings: ReceiverSettings, given: Given): Way | undefined {
  const { password, from, to } = settings
  const [, scheme = '', user = null, bracketed = '', port] = mailServer.exec(smtp) ?? []
  const [host, isTls] = [bracketed.replaceAll(/[[\]]/g, ''), scheme.toLowerCase() === 'smtps']
  const { complain, secretOf } = given
  if (from === undefined) complain(null, 'needs from, the address that sends', 'from')
  if (to === undefined) complain(null, 'needs to, the addresses that get the mail', 'to')
  if (user === null && password !== undefined)
    complain(null, 'has a password and no user: write smtp://user@host', 'smtp')
  if (user !== null && password === undefined) complain(null, 'needs password', 'password')
  if (secretOf === null) return undefined
  const name = user && decodedUri(user)
  if (user && name === null)
    return void complain('smtp', 'has a user with a % that begins no sign: write %25')
  const secretText = password === undefined ? null : secretOf('password', password)
  if (from === undefined || to === undefined || (password !== undefined && secretText === null))
    return undefined
  const usual = isTls ? 465 : 587
  const mayBePlain = given.allowPlaintext || isPrivateHost(host)
  return {
    mail: {
      host,
      port: Number(port ?? usual),
      isTls,
      mayBePlain,
      from,
      to,
      password: secretText,
      user: name,
    },
  }
}
