// What `tidemark init` asks for, in order, and how each answer is tried out.

import { randomBytes } from 'node:crypto'
import { ConfigError, readVariable } from '../config/environment.ts'
import { type Environment, loadConfig, loadProxies } from '../config/load.ts'
import { refusePlaintext } from '../config/plaintext.ts'
import { catalogueIn } from '../config/stream-variables.ts'
import type { Variable } from '../config/variable.ts'
import { variables } from '../config/variables.ts'
import { streamsIn } from '../configured.ts'
import { sendTest } from '../problems/deliver.ts'
import { expectRole } from '../store/schema/bi-role.ts'
import { openDatabase } from '../store/server/connect.ts'
import type { ServiceName, Stream } from '../streams/catalog.ts'
import { tokenUrl } from '../upstream/auth/token-request.ts'
import { type HttpAnswer, openTransport } from '../upstream/http/transport.ts'
import type { Proxies } from '../util/proxies.ts'
import { systemClock } from '../util/waiting.ts'
import { areFine, type Check, good, wrong } from './check.ts'
import type { Call } from './command.ts'
import { probePostgres, probeService } from './probe-checks.ts'
import { probeHost } from './probe-hosts.ts'

export type Tried = {
  readonly checks: readonly Check[]
  /** A better answer to one of the questions, which is asked again. */
  readonly suggested?: { readonly name: string; readonly value: string } | null
  /** What may be meant so, and may be a mistake: somebody has to say which. */
  readonly doubt?: string
  /** What was said to that. */
  readonly isAgreed?: boolean
}
type Try = (settings: Environment, call: Call) => Promise<Tried>
type Asked = {
  readonly name: string
  readonly text: string
  /** It may be left empty: what holds then. */
  readonly whenEmpty?: string
  /** All checks have to pass before the next question. */
  readonly tries?: Try
  /** The first of the questions whose answers are tried together. */
  readonly triedFrom?: string
  readonly isAsked?: (settings: Environment) => boolean
}
export type Question = Asked & {
  readonly isSecret: boolean
  readonly schema: Variable['schema']
  /** The file that NAME_FILE names: it holds the answer, and nobody is asked. */
  readonly file: string | null
}

/** Wherever it is held. */
const textIn = (settings: Environment, name: string): string => readVariable(settings, name, []) ?? ''

const places = {
  assignment: { name: 'ASSIGNMENT_BASE_URL', member: 'assignmentBaseUrl' },
  identity: { name: 'AUTH_URL', member: 'authUrl' },
  tracking: { name: 'TRACKING_BASE_URL', member: 'trackingBaseUrl' },
} as const

const asked: readonly Asked[] = [
  { name: 'ASSIGNMENT_BASE_URL', text: 'Assignment service URL', tries: tryPlace('assignment') },
  { name: 'AUTH_URL', text: 'Identity provider URL', tries: tryPlace('identity') },
  { name: 'CLIENT_GUID', text: 'Client GUID' },
  { name: 'SUBJECT_ID', text: 'Subject ID' },
  {
    name: 'API_KEY',
    text: 'API key',
    triedFrom: 'CLIENT_GUID',
    tries: asChecks((settings, call) => tryService(settings, call, 'assignment')),
  },
  {
    name: 'TRACKING_BASE_URL',
    text: 'Tracking service URL',
    whenEmpty: 'none',
    tries: asChecks(async (settings, call) => {
      const place = await tryPlace('tracking')(settings, call)
      if (!areFine(place.checks)) return place
      const service = await tryService(settings, call, 'tracking')
      return { ...service, checks: [...place.checks, ...service.checks] }
    }),
  },
  { name: 'SOURCE_TIMEZONE', text: 'Time zone of its times', whenEmpty: 'UTC' },
  {
    name: 'DATABASE_URL',
    text: 'Postgres URL',
    whenEmpty: 'Tidemark starts one',
    tries: asChecks(async (settings, { log }) => ({
      checks: await probePostgres(loadConfig({ ...settings, BI_ROLE: '' }), log),
    })),
  },
  {
    name: 'BI_ROLE',
    text: 'Role of BI tools',
    whenEmpty: 'none',
    // The embedded one has no roles before it was started.
    isAsked: (settings) => ['DATABASE_URL', 'BI_ROLE'].some((name) => textIn(settings, name) !== ''),
    tries: tryRole,
  },
  { name: 'ADMIN_TOKEN', text: 'Token of admins, or new', whenEmpty: 'only tokens of single people' },
  {
    name: 'ALERT_WEBHOOK_URL',
    text: 'Chat webhook for alerts',
    whenEmpty: 'no alerts',
    tries: asChecks(tryAlerts),
  },
]

/** Those that are asked with these answers. */
export const questionsFor = (settings: Environment): readonly Question[] =>
  asked.flatMap((question) => {
    const variable = variables[question.name]
    if (!variable || question.isAsked?.(settings) === false) return []
    const file = settings[`${question.name}_FILE`]?.trim() || null
    return [{ ...question, file, isSecret: variable.secret === true, schema: variable.schema }]
  })

/** Answers of the right form, to find out what is wrong with all other settings. */
export function placeholders(environment: Environment): Environment {
  const needed: Environment = {
    ASSIGNMENT_BASE_URL: 'https://upstream.invalid',
    AUTH_URL: 'https://identity.invalid',
    CLIENT_GUID: '00000000-0000-0000-0000-000000000000',
    SUBJECT_ID: '-',
    API_KEY: '-',
  }
  const typed = questionsFor(environment).filter(({ file }) => file === null)
  return Object.fromEntries(typed.map(({ name }) => [name, needed[name] ?? '']))
}

/** A token, if one is to be made. */
export const tokenMade = (name: string, typed: string): string | null =>
  name === 'ADMIN_TOKEN' && typed.toLowerCase() === 'new' ? randomBytes(24).toString('base64url') : null

const unusable = (problems: readonly string[]): Tried => ({
  checks: problems.map((problem) => wrong('configuration', problem)),
})

/** What is wrong with the settings is about the answer too: all others were right before. */
function asChecks(tries: Try): Try {
  return async (settings, call) => {
    try {
      return await tries(settings, call)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return unusable(error.problems)
    }
  }
}

/** Whether the host can be reached, and whether the service is at this path. */
function tryPlace(service: Service): Try {
  const { name, member } = places[service]
  return asChecks(async (settings, { signal }) => {
    const url = textIn(settings, name).replace(/(?<!\/)\/+$/, '')
    const proxies = loadProxies(settings)
    const refused: string[] = []
    const allowPlaintext = settings.ALLOW_PLAINTEXT?.trim() === 'true'
    const checked = { allowPlaintext, databaseUrl: null, proxies, [member]: url }
    refusePlaintext(checked, (problem) => refused.push(problem))
    if (refused.length > 0) return unusable(refused)
    const host = await probeHost(url, proxies)
    if (!areFine(host)) return { checks: host }
    const { check, better } = await probePath(url, service, proxies, signal)
    return { checks: [...host, check], suggested: better === null ? null : { name, value: better } }
  })
}

/** Signs in, and looks whether each stream can be read, and whether there is anything. */
async function tryService(settings: Environment, call: Call, service: ServiceName): Promise<Tried> {
  const checks = await signIn(settings, call, service)
  const { name } = places[service]
  const hasSignedIn = checks.some((check) => check.name.startsWith('sign-in') && check.isFine)
  if (hasSignedIn && checks.every((check) => !check.name.startsWith('stream') || !check.isFine))
    // The service may ask for a sign-in wherever it is asked, so that a wrong path shows only now.
    for (const value of placesNear(textIn(settings, name), service))
      if (areFine(await signIn({ ...settings, [name]: value }, call, service))) {
        const path = wrong('path', `Its streams can be read below ${value}.`)
        return { checks: [...checks, path], suggested: { name, value } }
      }
  const main = catalogueIn(settings)
    .filter(({ kind }) => service === 'tracking' || kind === 'changes')
    .filter((stream) => checks.some((check) => check.name === `stream ${stream.name}`))
  const hasNone = ({ name: stream }: Stream) =>
    checks.some((check) => check.name === `stream ${stream}` && check.isWarning === true)
  if (!areFine(checks) || main.length === 0 || !main.every(hasNone)) return { checks }
  const why = service === 'assignment' ? 'a wrong client GUID' : 'a user without rights'
  const names = main.map((stream) => stream.name).join(', ')
  return { checks, doubt: `Nothing is in ${names}; ${why} looks the same.` }
}

async function signIn(settings: Environment, call: Call, service: ServiceName): Promise<readonly Check[]> {
  const config = loadConfig({ STREAMS: '', ...settings, DATABASE_URL: '' })
  const checks: Check[] = []
  const { log, signal } = call
  const probed = { config, streams: streamsIn(config), mirror: null, log, signal }
  for await (const check of probeService(probed, service)) {
    const [kind] = check.name.split(' ')
    if (kind === 'sign-in' || kind === 'stream' || kind === 'clock') checks.push(check)
  }
  return checks
}

async function tryRole(settings: Environment, { log }: Call): Promise<Tried> {
  const [url, role] = [textIn(settings, 'DATABASE_URL'), textIn(settings, 'BI_ROLE')]
  const name = 'postgres BI role'
  const notStarted = 'not looked for: the embedded one is not started'
  if (url === '') return { checks: [{ ...good(name, notStarted), isUntold: true }] }
  try {
    await using database = await openDatabase({ url, log })
    await expectRole(database.pool, role)
    return { checks: [good(name, `${role} is there`)] }
  } catch (error) {
    return { checks: [wrong(name, error)] }
  }
}

async function tryAlerts(settings: Environment, { signal }: Call): Promise<Tried> {
  const config = loadConfig({ ...settings, DATABASE_URL: '' })
  const { alertWebhookUrl: url, alertFormat: format, consoleUrl, runbooksUrl, proxies } = config
  if (url === null) return { checks: [] }
  try {
    const says = await sendTest({ url, proxies, format, consoleUrl, runbooksUrl }, new Date(), signal)
    return { checks: [good('alerts', says)] }
  } catch (error) {
    signal.throwIfAborted()
    return { checks: [wrong('alerts', error)] }
  }
}

// ── whether a service answers below a base URL, by asking it there without signing in, and where it does if not there; sends no secret ──

export type Service = 'assignment' | 'tracking' | 'identity'
type PathFound = {
  readonly check: Check
  /** A base URL below which the service answers, where the given one is wrong. */
  readonly better: string | null
}

const longestMs = 10_000
const mostBytes = 1024 * 1024

const placesAsked: Readonly<
  Record<Service, { readonly urlOf: (base: string) => URL; readonly usual: readonly string[] }>
> = {
  assignment: {
    urlOf: (base) => new URL(`${base}/api/Assignment?Page=1&PageSize=1`),
    usual: ['/assignment'],
  },
  tracking: { urlOf: (base) => new URL(`${base}/api/TrackerObject`), usual: ['/tracking'] },
  identity: { urlOf: tokenUrl, usual: ['/auth', '/identity'] },
}

export async function probePath(
  base: string,
  service: Service,
  proxies: Proxies,
  signal: AbortSignal,
): Promise<PathFound> {
  const transport = openTransport({
    proxies,
    requestTimeoutMs: longestMs,
    maxResponseBytes: mostBytes,
    clock: systemClock,
    freeChunks: () => {},
  })
  const { urlOf } = placesAsked[service]
  // A sign-in without anything in it: what is there refuses it.
  const how =
    service === 'identity'
      ? ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' } as const)
      : ({ method: 'GET', headers: {}, body: null } as const)
  const ask = async (url: URL): Promise<HttpAnswer> => await transport.send({ ...how, url }, signal)
  try {
    const url = urlOf(base)
    const name = `path ${url.pathname}`
    const found = foundBy(await ask(url), service)
    if (found.isThere) return { check: good(name, found.says), better: null }
    const isThere = async (place: string) => foundBy(await ask(urlOf(place)), service).isThere
    let better: string | null = null
    for (const place of placesNear(base, service))
      if (better === null && (await isThere(place).catch(() => false))) better = place
    const instead =
      better === null
        ? `The base URL is the part before ${url.pathname.slice(new URL(base).pathname.replace(/\/$/, '').length)}: check it`
        : `The service answers below ${better}`
    return { check: wrong(name, `${found.says}. ${instead}.`), better }
  } catch (error) {
    signal.throwIfAborted()
    return { check: wrong(`path ${new URL(base).pathname}`, error), better: null }
  } finally {
    transport.close()
  }
}

/** What an answer without a sign-in says about a path. */
function foundBy({ status, headers }: HttpAnswer, service: Service): { isThere: boolean; says: string } {
  const kind = headers['content-type']?.split(';')[0]
  const there = (isThere: boolean, says: string) => ({ isThere, says })
  if (status === 401 || status === 403)
    return there(true, `answers ${status}, as a service does that wants a sign-in`)
  if (status === 404 || status === 410) return there(false, `nothing is there (${status})`)
  if (status >= 300 && status < 400)
    return there(
      false,
      `leads to another address (${status}): ${headers.location ?? 'which it does not say'}`,
    )
  if (status >= 500)
    return there(true, `answers ${status}, an error; the sign-in will show whether it is the service`)
  if (kind === 'text/html') return there(false, `is a web page and no service (${status}, ${kind})`)
  if (service === 'identity') return there(status !== 405, `answers ${status} to an empty sign-in`)
  return there(status < 300, `answers ${status}`)
}

/** Base URLs that may be meant: without what follows the base, then each folder above, then the usual names. */
export function placesNear(base: string, service: Service): readonly string[] {
  const { origin, pathname } = new URL(base)
  const own = pathname.replace(/\/(?:api|Token)(?:\/.*)?$/i, '').replace(/(?<!\/)\/+$/, '')
  const parts = own.split('/').filter(Boolean)
  const parents = parts.map((_, index) => `/${parts.slice(0, parts.length - index).join('/')}`)
  const above = [own, ...parents, '']
  const usual = placesAsked[service].usual.flatMap((name) => [...above.map((path) => `${path}${name}`)])
  const given = pathname.replace(/(?<!\/)\/+$/, '')
  return [...new Set([...above, ...usual])].filter((path) => path !== given).map((path) => `${origin}${path}`)
}
