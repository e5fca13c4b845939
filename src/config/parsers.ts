// How the text of a variable becomes a value, and what is said when it cannot. What has a usual form says by itself how that is written and
// what holds without it, so that the manual names what is read.

import { isIP } from 'node:net'
import { CronExpressionParser } from 'cron-parser'
import { z } from 'zod'
import { type AddedStream, knownStreams, relatedStreams } from '../streams/catalog.ts'
import { cronTimes } from '../util/cron.ts'
import { messageOf } from '../util/errors.ts'
import { readPostgresUrl } from '../util/postgres-url.ts'
import { readRedisUrl } from '../util/redis-url.ts'
import { formatDuration, parseDuration } from '../util/text.ts'

export type Schedule = { readonly everyMs: number } | { readonly cron: string }

export const text = z.string()
/** Null: it is not set. */
export const orNull = <Schema extends z.ZodType>(schema: Schema) =>
  schema.optional().transform((value) => value ?? null)
export const optionalText = orNull(text)

/** `read` returns undefined for what cannot be used; `problem` says what would be right. */
export const readAs = <Said, Value>(
  schema: z.ZodType<Said>,
  problem: string,
  read: (said: Said) => Value | undefined,
) =>
  schema.transform((said, context): Value => {
    const value = read(said)
    if (value !== undefined) return value
    context.addIssue(problem)
    return z.NEVER
  })

/** The parts of a list, which may be empty. */
export const listed = (value: string): readonly string[] =>
  value
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean)

/** In a file: one name, or a list of them. */
export const oneOrMore = <Schema extends z.ZodType>(list: Schema) =>
  z.preprocess(
    (value) => (typeof value === 'string' ? value.split(',').map((name) => name.trim()) : value),
    list,
  )

export const secretText = (least: number) => ({
  form: `${least} characters or more`,
  secret: true as const,
  schema: optionalText.refine(
    (secret) => secret === null || secret.length >= least,
    `must have at least ${least} characters`,
  ),
})

export const password = { form: 'text', secret: true as const, schema: optionalText }

export const yamlFile = { form: 'path of a YAML file', schema: optionalText }

export const url = (protocols: RegExp, example: string) =>
  text.refine((value) => URL.canParse(value) && protocols.test(new URL(value).protocol), {
    error: `must be a URL such as ${example}`,
  })
/** What reads a URL throws an Error with what is wrong with it. */
const readBy = (read: (url: string) => unknown) =>
  text.transform((value, context) => {
    try {
      read(value)
      return value
    } catch (error) {
      context.addIssue(messageOf(error))
      return z.NEVER
    }
  })
export const postgresUrl = readBy(readPostgresUrl)
export const redisUrl = readBy(readRedisUrl)

export const namesNobody = (value: string): boolean =>
  !URL.canParse(value) || `${new URL(value).username}${new URL(value).password}` === ''

export const wantsHttpProxy =
  'must be the URL of an HTTP proxy such as http://proxy.example:3128, with user:password@ before the host if it asks for them; other kinds (SOCKS) are not supported'

/** Programs that know HTTPS_PROXY also take a host and port alone. Of which kind it is matters only where it is used. */
export const proxyUrl = text
  .optional()
  .transform((value) => (value === undefined || value.includes('://') ? value : `http://${value}`))
  .refine((value) => value === undefined || URL.canParse(value), { error: wantsHttpProxy })
  .transform((value) => value ?? null)

export const httpUrl = url(/^https?:$/, 'https://host.example/path').transform((value) =>
  value.replace(/(?<!\/)\/+$/, ''),
)

export const webAddress = { form: 'URL', schema: orNull(httpUrl) }

/** Where requests go: nothing but a path may follow the host, and nobody's name may stand before it. */
export const baseUrl = httpUrl.refine(
  (value) => {
    const { username, password, search, hash } = new URL(value)
    return `${username}${password}${search}${hash}` === ''
  },
  { error: 'must be a URL such as https://host.example/path, without user, password, query and fragment' },
)

/** Of what a timer waits for: one that is set for longer than 24 days goes off at once. */
const longestMs = 24 * 24 * 3_600_000

const isBetween = (value: number | null, least: number, most: number): value is number =>
  value !== null && value >= least && value <= most

export function duration(usual: string, least: string) {
  const leastMs = parseDuration(least) ?? 0
  const problem = `must be a duration such as 30s, 10m or 1h, at least ${leastMs} ms, at most 24 days`
  return {
    fallback: `\`${usual}\``,
    form: `duration, ${least} or more`,
    schema: readAs(text.default(usual), problem, (value) => {
      const parsed = parseDuration(value)
      return isBetween(parsed, leastMs, longestMs) ? parsed : undefined
    }),
  }
}

/** Null when it is off. */
export const durationOrOff = (fallback: string, minimumMs: number) =>
  readAs(
    text.default(fallback),
    `must be off, or a duration of at least ${formatDuration(minimumMs)} such as ${fallback}`,
    (value) => {
      if (value.toLowerCase() === 'off') return null
      const parsed = parseDuration(value)
      return parsed !== null && parsed >= minimumMs ? parsed : undefined
    },
  )

export const schedule = (fallback: string) =>
  readAs(
    text.default(fallback),
    'must be a duration from 1s to 24 days such as 30s, or a cron expression such as "0 3 * * *"',
    (value): Schedule | undefined => {
      const everyMs = parseDuration(value)
      if (everyMs === null) return isCron(value) ? { cron: value } : undefined
      return isBetween(everyMs, 1000, longestMs) ? { everyMs } : undefined
    },
  )

export const wholeNumber = (usual: number, least: number, most: number) => ({
  fallback: `\`${usual}\``,
  form: `${least} to ${most}`,
  schema: text
    .default(String(usual))
    .refine((value) => /^\d+$/.test(value) && isBetween(Number(value), least, most), {
      error: `must be a whole number from ${least} to ${most}`,
    })
    .transform(Number),
})

export const scheduled = (usual: string) => ({
  fallback: `\`${usual}\``,
  form: 'duration such as `30s`, or cron expression such as `0 3 * * *`',
  schema: schedule(usual),
})

export const yesOrNo = {
  fallback: '`false`',
  form: '`true` or `false`',
  schema: text
    .optional()
    .refine((value) => value === undefined || value === 'true' || value === 'false', 'must be true or false')
    .transform((value) => value === 'true'),
}

export const nameList = text
  .default('')
  .transform(listed)
  .refine((names) => names.every((name) => /^[\w.-]+$/.test(name)), {
    error: 'must be a comma-separated list of names without port, such as mirror.example',
  })

const usualNetworks = '127.0.0.1,10.1.0.0/16'

/** Addresses and networks. One of prefix 0 would believe everybody. */
export const networkList = {
  form: `addresses and networks, comma-separated, such as \`${usualNetworks}\``,
  schema: text
    .default('')
    .transform(listed)
    .superRefine((networks, context) => {
      const everybody = networks.find((one) => /^[\da-f:.]+\/0+$/i.test(one))
      if (networks.every(isNetwork)) return
      context.addIssue(
        everybody === undefined
          ? `must be a comma-separated list of addresses and networks, such as ${usualNetworks}`
          : `must not hold ${everybody}, which is everybody: name the addresses or networks of your own proxies, such as ${usualNetworks}`,
      )
    }),
}

function isNetwork(text: string): boolean {
  const [, address = '', prefix] = /^([\da-f:.]+)(?:\/(\d{1,3}))?$/i.exec(text) ?? []
  const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
  return bits > 0 && Number(prefix ?? bits) > 0 && Number(prefix ?? bits) <= bits
}

const relatedNames: readonly string[] = relatedStreams.flatMap((stream) =>
  'bulkField' in stream ? [] : [stream.name],
)

const someOf = (known: readonly string[], usual: string, otherwise = '') =>
  readAs(
    text.default(usual),
    `must be ${otherwise}a comma-separated list out of ${known.join(', ')}`,
    (value): readonly string[] | undefined => {
      if (otherwise !== '' && value === 'true') return known
      if (otherwise !== '' && value === 'false') return []
      const names = listed(value)
      return names.length > 0 && names.every((name) => known.includes(name)) ? names : undefined
    },
  )
export const relatedList = someOf(relatedNames, 'false', 'true, false, or ')
export const biSchemas = someOf(['bi', 'mirror'], 'bi,mirror')

const addedEntry = /^([a-z][a-z0-9_]{0,39})=(\/[A-Za-z0-9._~/-]*[A-Za-z0-9])$/

/** Lists that STREAMS adds as `name=/path`. What is written wrongly is told when the variable is read. */
export const addedIn = (value: string | undefined): readonly AddedStream[] =>
  (value ?? '').split(',').flatMap((part) => {
    const [, name, path] = addedEntry.exec(part.trim()) ?? []
    const isKnown = knownStreams.some((stream) => stream.name === name)
    return name === undefined || path === undefined || isKnown ? [] : [{ name, path }]
  })

/** Null, as without the setting: every stream of the table whose service is configured, and those that are added. */
export const streamList = text.optional().transform((value, context): readonly string[] | null => {
  if (value === undefined) return null
  const names = listed(value)
  const problem = entryProblem(names)
  if (problem === null)
    return names.includes('all') ? null : [...new Set(names.map((part) => part.split('=')[0] ?? part))]
  context.addIssue(
    `must be a comma-separated list out of ${knownStreams.map(({ name }) => name).join(', ')}, all, and lists of the upstream such as customer=/api/Customer (a name of its own in lower case, a path from / on without parameters); ${problem}`,
  )
  return z.NEVER
})

function entryProblem(entries: readonly string[]): string | null {
  const added = entries.flatMap((entry) => addedIn(entry))
  const isKnown = (entry: string) =>
    entry.includes('=')
      ? addedIn(entry).length === 1
      : entry === 'all' || knownStreams.some(({ name }) => name === entry)
  const wrong = entries.find((entry) => !isKnown(entry))
  if (entries.length === 0) return 'without any, leave it out'
  if (wrong !== undefined) return `"${printable(wrong)}" is none of them`
  if (added.some(({ name }) => name === 'dictionary'))
    return 'bi.dictionary is a view of Tidemark: choose another name than dictionary'
  const twice = added.find(({ name }, index) => added.findIndex((one) => one.name === name) < index)
  return twice ? `${twice.name} is named twice` : null
}

const printable = (entry: string): string => entry.replaceAll(/\p{Cc}/gu, ' ').slice(0, 80)

export const shortestHistoryMs = 24 * 3_600_000

/** Has nothing but these: a stream may be called `constructor`. */
export const byName = <Value>(entries: readonly (readonly [string, Value])[]): Record<string, Value> =>
  Object.assign(Object.create(null), Object.fromEntries(entries))

/** For how long the past of rows is kept, by stream; without a time for ever. `all`: of those that are not named. */
export function historiesOf(streams: readonly string[]) {
  const names = [...new Set([...streams, ...relatedStreams.map(({ name }) => name)]), 'all']
  const problem = `must be a comma-separated list out of ${names.join(', ')}, each alone or with a time of a day or more such as assignment=365d`
  return readAs(text.default(''), problem, (value): Readonly<Record<string, number>> | undefined => {
    const entries = listed(value).map((part): [string, number] => {
      const [, name = '', time] = /^(\w+)(?:\s*=\s*(.*))?$/.exec(part) ?? []
      return [name, time === undefined ? Number.POSITIVE_INFINITY : (parseDuration(time) ?? 0)]
    })
    const areKnown = entries.every(([name, keptMs]) => names.includes(name) && keptMs >= shortestHistoryMs)
    return areKnown ? Object.fromEntries(entries) : undefined
  })
}

/** Where an upstream's description of itself is looked for; `usual`: where such services have it. */
export type DescriptionPlace =
  | { readonly kind: 'usual' }
  | { readonly kind: 'url' | 'file'; readonly at: string }

/** Null: no description is looked for. */
export const contractPlace = readAs(
  optionalText,
  'must be off, a file, or a URL such as https://host.example/openapi/v1.json without user and password',
  (value): DescriptionPlace | null | undefined => {
    if (value === null) return { kind: 'usual' }
    if (value.toLowerCase() === 'off') return null
    if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(value)) return { kind: 'file', at: value }
    const isUrl = URL.canParse(value) && /^https?:$/.test(new URL(value).protocol)
    return isUrl && namesNobody(value) ? { kind: 'url', at: value } : undefined
  },
)

const isTimeZone = (zone: string): boolean => {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: zone }))
  } catch {
    return false
  }
}

/**
 * Whether Postgres takes it for the same zone: it turns the sign of an offset round, and takes CET or IST for an abbreviation of its own,
 * without summer time.
 */
export const isZoneOfTimes = (zone: string): boolean =>
  isTimeZone(zone) && !/^[+-]/.test(zone) && (!/^[a-z]{3}$/i.test(zone) || /^(?:utc|gmt)$/i.test(zone))

export const timeZone = text
  .default('UTC')
  .refine(
    isZoneOfTimes,
    'must be UTC or name a place, such as Europe/Oslo; offsets and abbreviations such as +02:00 or CET are not accepted',
  )

const mostKeyFields = 8

/** Null: these make no key. */
export function keyFieldsIn(fields: readonly string[]): string | null {
  const names = new Set(fields.map((field) => field.toLowerCase()))
  const isKey = !names.has('') && names.size === fields.length && fields.length <= mostKeyFields
  return isKey && fields.length > 0 ? fields.join(',') : null
}

/** One field, or several that make the key together, with commas between. */
export const keyChoice = readAs(
  optionalText,
  `must name a field, or up to ${mostKeyFields} different ones with commas between them`,
  (value) =>
    value === null ? null : (keyFieldsIn(value.split(',').map((field) => field.trim())) ?? undefined),
)

/** Names of fields in lower case; `none` is an empty list, and null is what nobody chose. */
export const fieldList = optionalText.transform((value) => {
  if (value === null) return null
  const names = value.split(',').map((name) => name.trim().toLowerCase())
  return names.filter((name) => name !== '' && name !== 'none')
})

/** Zones by stream, then by field in lower case. */
export const fieldTimezonesOf = (streams: readonly string[]) =>
  text.default('').transform((value, context) => {
    const zones = byName<Record<string, string>>([])
    for (const part of listed(value)) {
      const [, stream = '', field = '', zone = ''] = /^([a-z_]+)\.([^=\s]+)=(\S+)$/.exec(part) ?? []
      if (!streams.includes(stream) || !isZoneOfTimes(zone)) {
        context.addIssue(
          `must be a list such as assignment.plannedStart=Europe/Oslo; "${part}" names no stream, or neither UTC nor a place`,
        )
        return z.NEVER
      }
      zones[stream] = { ...zones[stream], [field.toLowerCase()]: zone }
    }
    return zones
  })

export const role = {
  form: 'name of a role',
  schema: optionalText.refine((name) => name === null || (name.length <= 63 && !name.includes('\0')), {
    error: 'must be the name of a role in Postgres',
  }),
}

export const required = (what: string) => text.min(1, `must be set to ${what}`)

function isCron(expression: string): boolean {
  if (!expression.startsWith('@') && expression.split(/\s+/).length < 5) return false
  try {
    return Boolean(CronExpressionParser.parse(expression))
  } catch {
    return false
  }
}

/** When a schedule was last due. */
export function lastSlot(schedule: Schedule, moment: Date): Date {
  if ('everyMs' in schedule) return new Date(moment.getTime() - schedule.everyMs)
  return new Date(cronTimes(schedule.cron, moment.getTime()).lastMs)
}

// Whether a stream should have been read by now: measured by its own schedule, so that a list that is read once an hour, or on
// weekdays only, is not called stale between two readings.
/** A stream is stale if the reading that was due `staleAfterMs` ago is not in the mirror. */
export const isStale = (schedule: Schedule, staleAfterMs: number, readThroughAt: Date, now: Date): boolean =>
  readThroughAt < lastSlot(schedule, new Date(now.getTime() - staleAfterMs))

/** `22:00-06:30 Europe/Oslo`. Null: none. */
export const quietHours = readAs(
  optionalText,
  'must be two times and a time zone, such as 22:00-06:30 Europe/Oslo',
  (value) => {
    if (value === null) return null
    const [, from = '', to = '', timeZone = 'UTC'] =
      /^(\d{1,2}:\d{2})\s*[-–]\s*(\d{1,2}:\d{2})(?:\s+(\S+))?$/.exec(value.trim()) ?? []
    const [begin, end] = [minutesOf(from), minutesOf(to)]
    const isSpan = begin !== null && end !== null && begin !== end
    return isSpan && isTimeZone(timeZone) ? { from: begin, to: end, timeZone } : undefined
  },
)

function minutesOf(clock: string): number | null {
  const [hours = 99, minutes = 99] = clock.split(':').map(Number)
  return hours < 24 && minutes < 60 ? hours * 60 + minutes : null
}
