// The configuration: the environment parsed into one frozen object, with all problems at once. The only reader of the environment.

import { hkdfSync, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { parseEnv } from 'node:util'
import type { z } from 'zod'
import { keepSecret } from '../log.ts'
import { type AddedStream, addStreams, relatedStreams, streams } from '../streams/catalog.ts'
import { readPostgresUrl } from '../util/postgres-url.ts'
import { type Proxies, proxyOf } from '../util/proxies.ts'
import { nearest } from '../util/text.ts'
import {
  addedIn,
  byName,
  fieldList,
  keyChoice,
  namesNobody,
  optionalText,
  type Schedule,
  schedule,
  wantsHttpProxy,
} from './parsers.ts'
import { addressesOf, refusePlaintext } from './plaintext.ts'
import { mirrorVariables, upstreamVariables, type Variable, variables, workerVariables } from './variables.ts'

// Finds variables that look like one of a family, such as SCHEDULE_<STREAM>, and are none: otherwise they would be ignored in silence.
type Misspelt = { readonly name: string; readonly meant: string }

function misspelt(
  environment: Readonly<Record<string, string | undefined>>,
  prefix: string,
  known: readonly string[],
): readonly Misspelt[] {
  const words = known.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))
  return Object.keys(environment).flatMap((name) => {
    const [, word = '', file = ''] = /^(.*?)(_FILE)?$/.exec(name.slice(prefix.length)) ?? []
    if (!name.startsWith(prefix) || !environment[name]?.trim() || words.includes(word)) return []
    // KEY_USER is another program's, though "user" is near to "customer": who errs rarely errs at the beginning.
    const meant = nearest(word, words, words.length).find((known) => known.slice(0, 2) === word.slice(0, 2))
    return meant ? [{ name, meant: `${prefix}${meant}${file}` }] : []
  })
}

export type { Schedule } from './parsers.ts'
export type Environment = Readonly<Record<string, string | undefined>>

/** What is wrong with the configuration, one line a variable. Exit 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

type Values<Table extends Record<string, Variable>> = {
  readonly [Name in keyof Table as CamelCase<Name & string>]: z.output<Table[Name]['schema']>
}
type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Lowercase<Head>}${Capitalize<CamelCase<Tail>>}`
  : Lowercase<Name>

export type MirrorConfig = Values<typeof mirrorVariables>
export type UpstreamConfig = Omit<
  Values<typeof upstreamVariables>,
  | 'trackingAuthUrl'
  | 'trackingSubjectId'
  | 'trackingApiKey'
  | 'lookback'
  | 'requestTimeout'
  | 'history'
  | 'trackerHistory'
  | 'relatedRefresh'
  | 'httpsProxy'
  | 'httpProxy'
  | 'allProxy'
  | 'noProxy'
> & {
  readonly proxies: Proxies
  readonly lookbackMs: number
  readonly requestTimeoutMs: number
  /** For how long the past of rows is kept, by the name of the stream. A stream that is left out keeps none. */
  readonly histories: Readonly<Record<string, number>>
  /** Null: related records are read after a change only. */
  readonly relatedRefreshMs: number | null
  readonly trackingAuthUrl: string
  readonly trackingSubjectId: string
  readonly trackingApiKey: string
  /** Field that is the key of a list stream, or several with commas between, where the operator named them. */
  readonly keyFields: Readonly<Record<string, string | null>>
  /** Field that is the row version of a changes stream, where the operator named one. */
  readonly versionFields: Readonly<Record<string, string | null>>
  /** Volatile fields of a changes stream in lower case, where the operator named them. */
  readonly volatileFields: Readonly<Record<string, readonly string[] | null>>
}
export type Config = MirrorConfig &
  UpstreamConfig &
  Omit<Values<typeof workerVariables>, 'staleAfter' | 'deletionsFrozenAfter'> & {
    readonly staleAfterMs: number
    readonly deletionsFrozenAfterMs: number
    readonly schedules: Readonly<Record<string, Schedule>>
  }

// Which of the two a stream is that the settings add is known only later, so it counts as both.
const listStreams = () => streams.filter(({ kind, isAdded }) => kind === 'list' || isAdded)
const changesStreams = () => streams.filter(({ kind, isAdded }) => kind === 'changes' || isAdded)

/** The variables of this process, with those of a `.env` file in the working directory beneath them; null: without it. */
export function readEnvironment(file: string | null = '.env'): Environment {
  return { ...(file === null ? {} : readDotEnv(file)), ...process.env }
}

/** What somebody should know of the `.env` file; null: nothing. Secrets are in it, and others of this machine could read them. */
export function dotEnvWarning(file = '.env'): string | null {
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0
  // Windows has no such modes: it answers with one for everybody.
  if ((mode & 0o077) === 0 || process.platform === 'win32') return null
  return `${file} can be read by other users of this machine (mode ${(mode & 0o777).toString(8).padStart(4, '0')}), and it holds secrets. Run: chmod 600 ${file}`
}

/** Null when none is set, or one that is none: the verbs that need a configuration report it, with all else that is wrong. */
export function loadLogLevel(environment: Environment): string | null {
  const { LOG_LEVEL } = mirrorVariables
  const raw = readVariable(environment, 'LOG_LEVEL', [])
  return raw === undefined ? null : (LOG_LEVEL.schema.safeParse(raw).data ?? null)
}

/** What the demo takes from the configuration. */
export function loadHttpPort(environment: Environment): number {
  const { values, finish } = reader(environment)
  const { HTTP_PORT } = workerVariables
  const { httpPort } = values({ HTTP_PORT })
  finish()
  return httpPort
}

/** What commands need that only read Postgres. */
export function loadMirrorConfig(environment: Environment): MirrorConfig {
  const { values, complain, finish } = reader(environment)
  const config = values(mirrorVariables)
  trustAuthorities(config, complain)
  refusePlaintext(config, complain)
  finish()
  return config
}

/** What is needed besides to find which streams are late. */
export function loadStatusConfig(
  environment: Environment,
): MirrorConfig &
  Pick<
    Config,
    'streams' | 'trackingBaseUrl' | 'lookbackMs' | 'staleAfterMs' | 'deletionsFrozenAfterMs' | 'schedules'
  > {
  const { values, perStreamValues, complain, finish } = reader(environment)
  const { STREAMS, TRACKING_BASE_URL, LOOKBACK } = upstreamVariables
  const { STALE_AFTER, DELETIONS_FROZEN_AFTER } = workerVariables
  const { staleAfter, deletionsFrozenAfter, lookback, ...wanted } = values({
    STREAMS,
    TRACKING_BASE_URL,
    LOOKBACK,
    STALE_AFTER,
    DELETIONS_FROZEN_AFTER,
  })
  const schedules = schedulesFrom(environment, perStreamValues)
  const times = {
    lookbackMs: lookback,
    staleAfterMs: staleAfter,
    deletionsFrozenAfterMs: deletionsFrozenAfter,
  }
  const config = { ...values(mirrorVariables), ...wanted, ...times, schedules }
  trustAuthorities(config, complain)
  refusePlaintext(config, complain)
  finish()
  return config
}

/** What is needed to make tables of what the upstream says about itself, where the upstream itself need not be configured. */
export function loadDescriptionConfig(
  environment: Environment,
): Pick<Config, 'contract' | 'streams' | 'trackingBaseUrl' | 'related' | 'attachmentData' | 'keyFields'> {
  const { values, perStreamValues, finish } = reader(environment)
  const { CONTRACT, STREAMS, TRACKING_BASE_URL, RELATED, ATTACHMENT_DATA } = upstreamVariables
  const config = {
    ...values({ CONTRACT, STREAMS, TRACKING_BASE_URL, RELATED, ATTACHMENT_DATA }),
    keyFields: perStreamValues('KEY', [...listStreams(), ...relatedStreams], () => keyChoice),
  }
  finish()
  return config
}

type ProxySettings = Pick<
  Values<typeof upstreamVariables>,
  'httpsProxy' | 'httpProxy' | 'allProxy' | 'noProxy'
>

/** One of a kind that is not supported matters only to addresses that are asked through it: to all others it is none. */
function proxiesFrom(
  { httpsProxy, httpProxy, allProxy, noProxy }: ProxySettings,
  addresses: ReturnType<typeof addressesOf>,
  complain: (problem: string) => void,
): Proxies {
  const isSupported = ({ protocol }: URL) => /^https?:$/.test(protocol)
  const given = { https: httpsProxy ?? allProxy ?? null, http: httpProxy ?? allProxy ?? null }
  const wayTo = (url: URL) => proxyOf(url, { ...given, exceptions: noProxy })
  const affected = addresses.find(({ url }) => !isSupported(wayTo(url) ?? url))
  if (affected) {
    const isOwn = affected.url.protocol === 'https:' ? httpsProxy && 'HTTPS_PROXY' : httpProxy && 'HTTP_PROXY'
    complain(
      `${isOwn || 'ALL_PROXY'} ${wantsHttpProxy}. Set such a proxy, or name the host of ${affected.name} in NO_PROXY`,
    )
  }
  const orNone = (proxy: string | null) => (proxy !== null && isSupported(new URL(proxy)) ? proxy : null)
  return { https: orNone(given.https), http: orNone(given.http), exceptions: noProxy }
}

/** Before the rest is configured. */
export function loadProxies(environment: Environment): Proxies {
  const { values, complain, finish } = reader(environment)
  const { HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY } = upstreamVariables
  const { ASSIGNMENT_BASE_URL: assignmentBaseUrl = '', AUTH_URL: authUrl = '' } = environment
  const settings = values({ HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY })
  const proxies = proxiesFrom(settings, addressesOf({ assignmentBaseUrl, authUrl }), complain)
  finish()
  return proxies
}

export function loadConfig(environment: Environment): Config {
  const { values, perStreamValues, complain, finish } = reader(environment)
  const { lookback, requestTimeout, history, trackerHistory, relatedRefresh, ...rest } =
    values(upstreamVariables)
  const { httpsProxy, httpProxy, allProxy, noProxy, ...upstream } = rest
  for (const { name, service } of streams)
    if (service === 'tracking' && upstream.streams?.includes(name) && !upstream.trackingBaseUrl)
      complain(`STREAMS names ${name}, which needs TRACKING_BASE_URL`)
  for (const { name, isAdded } of streams)
    if (isAdded && upstream.related?.includes(name))
      complain(`STREAMS adds ${name}, and RELATED copies records of that name: give it another one`)
  if (upstream.attachmentData && !upstream.related.includes('attachment'))
    complain('ATTACHMENT_DATA needs RELATED to be true, or to name attachment')
  const { staleAfter, deletionsFrozenAfter, ...worker } = values(workerVariables)
  if (worker.publicUrl && !worker.webhookSecret)
    complain('PUBLIC_URL is set to receive webhooks: set WEBHOOK_SECRET, too')
  if (worker.webhookRequireSignature && !worker.webhookSigningSecret && !worker.publicUrl)
    complain(
      'WEBHOOK_REQUIRE_SIGNATURE is true, and no secret to sign with was agreed on: set WEBHOOK_SIGNING_SECRET to the one that you gave the upstream, or PUBLIC_URL, with which the worker subscribes itself',
    )
  const trackingAuthUrl = upstream.trackingAuthUrl ?? upstream.authUrl
  const proxies = proxiesFrom(rest, addressesOf({ ...upstream, ...worker, trackingAuthUrl }), complain)
  const config: Config = Object.freeze({
    ...values(mirrorVariables),
    ...upstream,
    proxies,
    lookbackMs: lookback,
    requestTimeoutMs: requestTimeout,
    histories: byName(
      Object.entries({ ...(trackerHistory !== null && { tracker_object: trackerHistory }), ...history }),
    ),
    relatedRefreshMs: relatedRefresh,
    trackingAuthUrl,
    trackingSubjectId: upstream.trackingSubjectId ?? upstream.subjectId,
    trackingApiKey: upstream.trackingApiKey ?? upstream.apiKey,
    ...worker,
    staleAfterMs: staleAfter,
    deletionsFrozenAfterMs: deletionsFrozenAfter,
    schedules: schedulesFrom(environment, perStreamValues),
    keyFields: perStreamValues('KEY', [...listStreams(), ...relatedStreams], () => keyChoice),
    versionFields: perStreamValues('VERSION', changesStreams(), () => optionalText),
    volatileFields: perStreamValues('VOLATILE', changesStreams(), () => fieldList),
  })
  trustAuthorities(config, complain)
  refusePlaintext(config, complain)
  finish()
  return config
}

/** What deliveries of webhooks are signed with: chosen by the operator, or following from WEBHOOK_SECRET. */
export const signingSecretOf = ({
  webhookSecret,
  webhookSigningSecret,
}: Pick<Config, 'webhookSecret' | 'webhookSigningSecret'>): string | null =>
  webhookSigningSecret ??
  (webhookSecret === null
    ? null
    : Buffer.from(hkdfSync('sha256', webhookSecret, '', 'tidemark webhook signatures', 24)).toString(
        'base64url',
      ))

/** The usual schedule of a stream that the settings add follows from what is found out about it later. */
function schedulesFrom(
  environment: Environment,
  perStreamValues: ReturnType<typeof reader>['perStreamValues'],
): Config['schedules'] {
  const read = perStreamValues('SCHEDULE', streams, ({ defaultSchedule }) => schedule(defaultSchedule))
  const schedules = { ...read }
  for (const { name } of streams.filter(({ isAdded }) => isAdded)) {
    if (readVariable(environment, `SCHEDULE_${name.toUpperCase()}`, []) !== undefined) continue
    const usual = () => streams.find((stream) => stream.name === name)?.defaultSchedule ?? '1h'
    Object.defineProperty(schedules, name, {
      enumerable: true,
      get: () => schedule(usual()).parse(undefined),
    })
  }
  return Object.freeze(schedules)
}

/** Makes the streams that the settings add known to the whole program, and returns them. */
export function readAddedStreams(environment: Environment): readonly AddedStream[] {
  const added = addedIn(readVariable(environment, 'STREAMS', []))
  addStreams(added)
  return added
}

function reader(environment: Environment) {
  const problems: string[] = []
  readAddedStreams(environment)
  const read = (name: string, variable: Pick<Variable, 'schema'> & Partial<Variable>): unknown => {
    const problemCount = problems.length
    const raw = readVariable(environment, name, problems)
    const result = variable.schema.safeParse(raw)
    // The place of a proxy is told to whoever cannot reach it.
    const isSecret = variable.secret && !(name.endsWith('_PROXY') && namesNobody(String(result.data)))
    if (isSecret && raw) keepSecret(raw)
    // With one host it is a URL like all others, in which the password is found.
    if (name === 'DATABASE_URL' && result.success && raw) keepSecret(readPostgresUrl(raw).hosts[0].href)
    // What was added to it, such as a scheme, shows the password to what masks URLs.
    if (result.success && isSecret && typeof result.data === 'string') keepSecret(result.data)
    if (result.success) return result.data
    const issue = result.error.issues[0]
    const missing = raw === undefined && issue?.code === 'invalid_type'
    const isTold = problems.length > problemCount
    if (missing && isTold) return undefined
    const file = environment[`${name}_FILE`]?.trim()
    const what = file ? `${name}_FILE names ${file}, which is empty` : (variable.describe ?? 'required')
    problems.push(`${name} ${missing ? `is not set: ${what}` : (issue?.message ?? 'is not usable')}`)
    return undefined
  }
  return {
    values<Table extends Record<string, Variable>>(table: Table): Values<Table> {
      const entries = Object.entries(table).map(([name, variable]) => [camelCase(name), read(name, variable)])
      return Object.freeze(Object.fromEntries(entries)) as Values<Table>
    },
    perStreamValues<Value, Named extends { readonly name: string }>(
      prefix: string,
      named: readonly Named[],
      schemaOf: (stream: Named) => z.ZodType<Value>,
    ) {
      const entries = named.map((stream) => {
        const name = `${prefix}_${stream.name.toUpperCase()}`
        return [stream.name, read(name, { schema: schemaOf(stream) }) as Value] as const
      })
      const known = [...named.map(({ name }) => `${prefix}_${name.toUpperCase()}`), ...Object.keys(variables)]
      for (const { name, meant } of misspelt(environment, `${prefix}_`, known))
        problems.push(`${name} does not name a stream: did you mean ${meant}?`)
      return Object.freeze(byName(entries))
    },
    complain(problem: string) {
      problems.push(problem)
    },
    finish() {
      if (problems.length > 0) throw new ConfigError(problems.map((problem) => `  ${problem}`).join('\n'))
    },
  }
}

/** A variable's text; from the file that NAME_FILE names when NAME itself is not set. Empty means not set. */
function readVariable(environment: Environment, name: string, problems: string[]): string | undefined {
  // As all other programs have it.
  const inLowerCase = name.endsWith('_PROXY') ? environment[name.toLowerCase()]?.trim() : undefined
  const direct = inLowerCase || environment[name]?.trim()
  const file = environment[`${name}_FILE`]?.trim()
  if (direct && file) problems.push(`${name} and ${name}_FILE are both set: remove one of them`)
  if (direct || !file) return direct || undefined
  try {
    return readFileSync(file, 'utf8').trim() || undefined
  } catch (cause) {
    problems.push(
      `${name}_FILE names ${file}, which cannot be read (${(cause as NodeJS.ErrnoException).code})`,
    )
    return undefined
  }
}

/** From now on, by every connection of this program that names no authorities of its own. */
function trustAuthorities({ extraCaFile }: MirrorConfig, complain: (problem: string) => void): void {
  if (!extraCaFile) return
  try {
    const more = readFileSync(extraCaFile, 'utf8').match(
      /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g,
    )
    if (!more) complain(`EXTRA_CA_FILE names ${extraCaFile}, which holds no certificate in PEM`)
    if (!more) return
    for (const one of more) new X509Certificate(one)
    setDefaultCACertificates([...new Set([...getCACertificates('default'), ...more])])
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    complain(`EXTRA_CA_FILE names ${extraCaFile}, which cannot be read (${code ?? message})`)
  }
}

function readDotEnv(file: string): Environment {
  const text = readDotEnvText(file)
  // Windows writes a mark before the first name, or all of it in UTF-16.
  if (text.includes('\0')) throw new ConfigError('  .env is not UTF-8: save it as UTF-8')
  return parseEnv(text.replace(/^\ufeff/, ''))
}

function readDotEnvText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return ''
    throw new ConfigError(`  .env cannot be read (${code}): make it readable or remove it`, { cause })
  }
}

const camelCase = (name: string): string =>
  name.toLowerCase().replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
