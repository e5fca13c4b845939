// The file that ALERTS names: who is told of which problems, when, and how old each stream may become. It is read again when it, or a file
// that holds one of its secrets, has changed; while it has mistakes, what it said last goes on.

import { z } from 'zod'
import { keepSecret } from '../log.ts'
import { sourceIn } from '../streams/names.ts'
import { messageOf } from '../util/errors.ts'
import { isPrivateHost } from '../util/private-hosts.ts'
import { type Proxies, proxyOf } from '../util/proxies.ts'
import { parseDuration } from '../util/text.ts'
import { placedIn } from './alert-places.ts'
import { type Environment, readSecretFile } from './environment.ts'
import { quietHours } from './parsers.ts'
import { readKnownSources } from './sources-yaml.ts'
import { type Time, times } from './stream-variables.ts'
import { FileError, notKnown, parseYamlFile, readYamlFile, stampOf, type YamlFile } from './yaml-file.ts'

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

export type Rule = {
  /** Names of receivers. */
  readonly to: readonly string[]
  /** Null: all. */
  readonly kinds: readonly string[] | null
  /** Null: all, and what is about no stream. */
  readonly streams: readonly string[] | null
  /** Null: all, and what is about the whole deployment. */
  readonly sources: readonly string[] | null
  /** How long a problem lasts before it is told. */
  readonly afterMs: number
  /** Null: it is told at any hour. */
  readonly quiet: { readonly from: number; readonly to: number; readonly timeZone: string } | null
}
/** In milliseconds, by stream. */
export type Targets = Readonly<Record<string, Readonly<Partial<Record<Time, number>>>>>
export type AlertSettings = {
  readonly receivers: ReadonlyMap<string, Way>
  readonly rules: readonly Rule[]
  readonly targets: Targets
  /** What is allowed, and hardly meant. */
  readonly remarks: readonly string[]
}

export const shortestAfterMs = 60_000
const longestAfterMs = 7 * 24 * 3_600_000

const duration = (leastMs: number, words: string) =>
  z.string(`must be ${words}`).transform((value, context) => {
    const ms = parseDuration(value)
    if (ms !== null && ms >= leastMs && ms <= longestAfterMs) return ms
    context.addIssue(`must be ${words}, not "${value.slice(0, 40)}"`)
    return z.NEVER
  })
/** One, or a list. */
const names = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(',').map((name) => name.trim()) : value),
  z.array(z.string().min(1, 'is empty'), 'must be a name, or a list of names').min(1, 'is empty'),
)
const address = z.string().regex(/^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}$/, {
  error: 'must be an address of mail such as ada@example.com, without a name beside it',
})
const secret = z.string().regex(/^(?:env:[A-Za-z_]\w*|file:\S.*)$/, {
  error: 'must be env:NAME or file:PATH: a secret does not stand in this file',
})
const mailServer = /^(smtps?):\/\/(?:([^\s:/?#]+)@)?(\[[\da-f:.]+\]|[\w.-]+)(?::([1-9]\d{0,4}))?$/i

const receiver = z.strictObject(
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
const rule = z.strictObject(
  {
    to: names,
    kinds: names.optional(),
    streams: names.optional(),
    sources: names.optional(),
    tags: names.optional(),
    after: duration(shortestAfterMs, 'a time from 1m to 7d').optional(),
    quiet: quietHours,
  },
  'must be a list of settings',
)
const target = z.strictObject(
  Object.fromEntries(
    times.map((time) => [time, duration(10_000, 'a time from 10s to 7d').optional()]),
  ) as Record<Time, z.ZodOptional<ReturnType<typeof duration>>>,
  'must have times such as { read: 5m }',
)
const fileSettings = z.strictObject(
  {
    receivers: z.record(z.string(), receiver, 'must be a list of receivers').default({}),
    rules: z.array(rule, 'must be a list of rules').default([]),
    targets: z.record(z.string(), target, 'must be a list of streams').default({}),
  },
  'must have receivers, rules or targets',
)
type FileSettings = z.output<typeof fileSettings>

const knownAt = ([first, second]: readonly (string | number)[]): readonly string[] =>
  Object.keys(
    (second === undefined ? fileSettings : first === 'rules' ? rule : first === 'targets' ? target : receiver)
      .shape,
  )

/** By the word for it: one kind, or a group of them. */
export type Kinds = Readonly<Record<string, readonly string[]>>
type Surroundings = {
  /** Their names; those of the source that the environment describes. */
  readonly streams: readonly string[]
  /** The file of the other sources; null: there is none. */
  readonly sourcesFile: string | null
  /** Null: nobody is told anything here, and no secret is looked for. */
  readonly environment: Environment | null
  readonly proxies: Proxies
  readonly allowPlaintext: boolean
}

/** Receivers have names of their own, which mean nothing else. */
const reservedNames = ['alerts', 'all', 'default']

export function parseAlertFile(
  file: string,
  bytes: Uint8Array,
  {
    kinds: known,
    streams: knownStreams,
    ...given
  }: Surroundings & { readonly kinds: Kinds; readonly onSecretFile?: (path: string) => void },
): AlertSettings {
  const read = parseYamlFile(file, bytes, { schema: fileSettings, knownAt })
  const { receivers = {}, rules = [], targets = {} } = read.value ?? {}
  const ways = new Map<string, Way>()
  for (const [name, one] of Object.entries(receivers)) {
    const complain = (setting: string | null, problem: string) =>
      read.complain(['receivers', name, ...(setting === null ? [] : [setting])], problem)
    if (!/^[a-z][\w-]{0,39}$/i.test(name) || reservedNames.includes(name))
      complain(null, `must be a name of letters and digits, and none of ${reservedNames.join(', ')}`)
    const way = wayOf(one, { ...given, streams: knownStreams, complain })
    if (way) ways.set(name, way)
  }
  const sources = given.sourcesFile === null ? new Map() : readKnownSources(given.sourcesFile)
  const placed = rules.map((one) => placedIn(one, knownStreams, sources))
  for (const [index, { to, kinds = [] }] of rules.entries())
    for (const [setting, words, allowed, what] of [
      ['to', to, ['default', ...Object.keys(receivers)], 'receiver'],
      ['kinds', kinds, Object.keys(known), 'kind of problem'],
      ...(placed[index]?.words ?? []),
    ] as const)
      for (const word of words)
        if (!allowed.includes(word))
          read.complain(['rules', index, setting], `names ${word}, which is ${notKnown(what, word, allowed)}`)
  for (const stream of Object.keys(targets))
    if (sourceIn(stream) !== '')
      read.complain(
        ['targets', stream],
        'is a stream of another source: its targets stand in the file of sources, such as target_read_assignment: 5m',
      )
    else if (!knownStreams.includes(stream))
      read.complain(['targets', stream], `is ${notKnown('stream', stream, knownStreams)}`)
  read.finish()
  const meant = rules.map(({ to, kinds, after = shortestAfterMs, quiet }, index) => ({
    ...{ to, quiet, afterMs: after },
    kinds: kinds?.flatMap((word) => known[word] ?? []) ?? null,
    streams: placed[index]?.streams ?? null,
    sources: placed[index]?.sources ?? null,
  }))
  return { receivers: ways, rules: meant, targets: targets as Targets, remarks: remarksOn(file, read, meant) }
}

type Given = Surroundings & {
  readonly complain: (setting: string | null, problem: string) => void
  readonly onSecretFile?: (path: string) => void
}

/** Undefined when it has mistakes, which were told. */
function wayOf(settings: FileSettings['receivers'][string], given: Given): Way | undefined {
  const { complain } = given
  const { webhook, format = null, key, smtp, password, from, to } = settings
  const others = smtp === undefined ? { password, from, to } : { format, key, webhook }
  for (const [setting, value] of Object.entries(others))
    if (value !== undefined && value !== null)
      complain(setting, `is not for a receiver with ${smtp === undefined ? 'a webhook' : 'smtp'}: remove it`)
  if (smtp !== undefined) return mailOf(smtp, settings, given)
  if (format === 'pagerduty' && key === undefined)
    complain(null, 'needs key, the integration key of PagerDuty')
  if (format !== 'pagerduty' && webhook === undefined)
    complain(null, 'needs webhook, or smtp with from and to')
  if (given.environment === null) return undefined
  const url = webhook === undefined ? pagerDuty : secretOf('webhook', webhook, given)
  const value = key === undefined ? undefined : secretOf('key', key, given)
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

function mailOf(smtp: string, settings: FileSettings['receivers'][string], given: Given): Way | undefined {
  const { password, from, to } = settings
  const [, scheme = '', user = null, bracketed = '', port] = mailServer.exec(smtp) ?? []
  const [host, isTls] = [bracketed.replaceAll(/[[\]]/g, ''), scheme.toLowerCase() === 'smtps']
  const { complain } = given
  if (from === undefined) complain(null, 'needs from, the address that sends')
  if (to === undefined) complain(null, 'needs to, the addresses that get the mail')
  if ((user === null) !== (password === undefined))
    complain(null, user === null ? 'has a password and no user: write smtp://user@host' : 'needs password')
  if (given.environment === null) return undefined
  const secretText = password === undefined ? null : secretOf('password', password, given)
  if (from === undefined || to === undefined || (password !== undefined && secretText === null))
    return undefined
  const usual = isTls ? 465 : 587
  const mayBePlain = given.allowPlaintext || isPrivateHost(host)
  return {
    mail: {
      ...{ host, port: Number(port ?? usual), isTls, mayBePlain, from, to, password: secretText },
      user: user === null ? null : decodeURIComponent(user),
    },
  }
}

/** Null when it cannot be had, which was told. It is cut from all output from now on (P9). */
function secretOf(
  setting: string,
  place: string,
  { environment, complain, onSecretFile }: Given,
): string | null {
  const [kind, name] = [place.slice(0, place.indexOf(':')), place.slice(place.indexOf(':') + 1)]
  if (kind === 'file') onSecretFile?.(name)
  try {
    const value = (kind === 'env' ? environment?.[name]?.trim() : readSecretFile(name)) || null
    if (value === null)
      complain(setting, kind === 'env' ? `names ${name}, which is not set` : `names ${name}, which is empty`)
    else keepSecret(value)
    return value
  } catch (cause) {
    complain(
      setting,
      `names ${name}, which cannot be read (${(cause as NodeJS.ErrnoException).code ?? messageOf(cause)})`,
    )
    return null
  }
}

/** A receiver that nobody tells anything, and rules that add nothing to one before them. */
function remarksOn(
  file: string,
  { lineAt, value }: YamlFile<FileSettings>,
  rules: readonly Rule[],
): readonly string[] {
  const told = new Set(rules.flatMap(({ to }) => to))
  const untold = Object.keys(value?.receivers ?? {}).filter((name) => !told.has(name))
  const covers = (one: Rule, other: Rule) =>
    one.quiet === null &&
    one.afterMs <= other.afterMs &&
    (one.kinds === null || other.kinds?.every((kind) => one.kinds?.includes(kind)) === true) &&
    (one.streams === null || other.streams?.every((stream) => one.streams?.includes(stream)) === true) &&
    (one.sources === null || other.sources?.every((source) => one.sources?.includes(source)) === true)
  return [
    ...untold.map(
      (name) => `${file}:${lineAt(['receivers', name])}: ${name} is told nothing: no rule names it`,
    ),
    ...rules.flatMap((later, index) => {
      const before = rules.findIndex(
        (one, at) =>
          at !== index &&
          covers(one, later) &&
          later.to.every((name) => one.to.includes(name)) &&
          (at < index || !covers(later, one)),
      )
      return before === -1
        ? []
        : [
            `${file}:${lineAt(['rules', index])}: rule ${index + 1} adds nothing: rule ${before + 1} tells the same receivers as much, as soon`,
          ]
    }),
  ]
}

export type AlertFile = {
  /** What it says; a problem as well while it has mistakes, one line each. */
  read(kinds: Kinds): { readonly settings: AlertSettings; readonly problem: string | null }
}

const nothing: AlertSettings = { receivers: new Map(), rules: [], targets: {}, remarks: [] }

export const noAlertFile: AlertFile = { read: () => ({ settings: nothing, problem: null }) }

/** Null: there is no such file. Looks at its time and size each time that it is asked. */
export function openAlertFile(file: string | null, around: Surroundings): AlertFile {
  let [stamps, secretFiles]: [string | null, string[]] = [null, []]
  let last = noAlertFile.read({})
  if (file === null) return noAlertFile
  const stampsOf = () => [file, around.sourcesFile, ...secretFiles].map(stampOf).join()
  return {
    read(kinds) {
      const now = stampsOf()
      if (now === stamps) return last
      secretFiles = []
      const onSecretFile = (path: string) => secretFiles.push(path)
      try {
        const settings = parseAlertFile(file, readYamlFile(file), { ...around, kinds, onSecretFile })
        last = { settings, problem: null }
      } catch (error) {
        if (!(error instanceof FileError)) throw error
        last = { settings: last.settings, problem: error.message }
      }
      stamps = stampsOf()
      return last
    },
  }
}
