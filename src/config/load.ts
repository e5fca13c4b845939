// The configuration: the environment parsed into one frozen object, with all problems at once. The only reader of the environment.

import { hkdfSync } from 'node:crypto'
import { keepSecret } from '../log.ts'
import type { AddedStream, Catalogue } from '../streams/catalog.ts'
import { noProxies, type Proxies, proxyOf } from '../util/proxies.ts'
import { type AlertFile, openAlertFile } from './alert-file.ts'
import { trustAuthorities } from './authorities.ts'
import { type DictionaryInUse, openDictionary } from './dictionary-in-use.ts'
import { type DynamicSettings, openDynamicSettings, withoutDynamic } from './dynamic-settings.ts'
import { type Environment, readVariable, sourceOfEnvironment, webhookMasterVariable } from './environment.ts'
import { type KeptAlerts, openKeptAlerts } from './kept-alerts.ts'
import { mirrorVariables } from './mirror-variables.ts'
import { ofSource } from './of-source.ts'
import { wantsHttpProxy } from './parsers.ts'
import { peopleVariables } from './people-variables.ts'
import { addressesOf, refusePlaintext } from './plaintext.ts'
import { openReader } from './reader.ts'
import { openSecretFiles, type SecretFiles } from './secret-files.ts'
import { readSettings, type SettingsOf } from './settings.ts'
import { proxyVariables, upstreamVariables } from './upstream-variables.ts'
import type { Values, Variable } from './variable.ts'
import { workerVariables } from './worker-variables.ts'

export type { Environment } from './environment.ts'

export type MirrorConfig = Values<typeof mirrorVariables>
const fixedUpstream = withoutDynamic(upstreamVariables)
const fixedWorker = withoutDynamic(workerVariables)
type UpstreamValues = Values<typeof fixedUpstream>
type ProxySettings = Values<typeof proxyVariables>
type Completed = 'trackingAuthUrl' | 'trackingSubjectId'

/** As the variables say, with what follows from several of them. */
export type UpstreamConfig = Omit<
  UpstreamValues,
  Completed | 'histories' | 'trackerHistoryMs' | keyof ProxySettings
> &
  Readonly<Record<Completed, string>> & {
    /** Whose streams they are, which the rest of this names by their keys; empty: the source that the environment describes. */
    readonly source: string
    readonly proxies: Proxies
    /** Lists of the upstream that STREAMS adds. */
    readonly added: readonly AddedStream[]
    /** What the file and the variables of single streams and fields say. */
    readonly dictionary: DictionaryInUse
    /** Settings that may change while a worker runs. */
    readonly dynamic: DynamicSettings
    /** Secrets that may change while a worker runs. */
    readonly secretFiles: SecretFiles
  }
export type Config = MirrorConfig &
  UpstreamConfig &
  Values<typeof fixedWorker> &
  Values<typeof peopleVariables> & {
    /** What the file says that ALERTS names. */
    readonly alertFile: AlertFile
    /** What was set up in the console. */
    readonly keptAlerts: KeptAlerts
    /** What is set, for people. */
    readonly settings: SettingsOf
  }

/** Null when none is set, or one that is none: the verbs that need a configuration report it, with all else that is wrong. */
export function loadLogLevel(environment: Environment): string | null {
  const { LOG_LEVEL } = mirrorVariables
  const raw = readVariable(environment, 'LOG_LEVEL', [])
  return raw === undefined ? null : (LOG_LEVEL.schema.safeParse(raw).data ?? null)
}

/** What the demo takes from the configuration. */
export function loadHttpPort(environment: Environment): number {
  const { values, finish } = openReader(environment)
  const { HTTP_PORT } = workerVariables
  const { httpPort } = values({ HTTP_PORT })
  finish()
  return httpPort
}

/** What commands need that only read Postgres. */
export function loadMirrorConfig(environment: Environment): MirrorConfig {
  const { values, complain, finish } = openReader(environment)
  const config = values(mirrorVariables)
  trustAuthorities(config.extraCaFile, complain)
  refusePlaintext(config, complain)
  finish()
  return config
}

/** What is needed besides to find which streams are late. */
export function loadStatusConfig(environment: Environment) {
  const reader = openReader(environment)
  const { catalogue, values, complain, finish } = reader
  const { STREAMS, TRACKING_BASE_URL } = upstreamVariables
  // Who is told, and with which secrets, is the business of the workers.
  const around = {
    ...namesIn(catalogue, environment),
    environment: null,
    proxies: noProxies,
    allowPlaintext: true,
  }
  const config = {
    ...values(mirrorVariables),
    ...values({ STREAMS, TRACKING_BASE_URL }),
    dynamic: openDynamicSettings(environment, reader),
    alertFile: openAlertFile(values({ ALERTS: workerVariables.ALERTS }).alerts, around),
  }
  trustAuthorities(config.extraCaFile, complain)
  refusePlaintext(config, complain)
  finish()
  return ofSource(config, sourceOfEnvironment(environment))
}

/** What is needed to make tables of what the upstream says about itself, where the upstream itself need not be configured. */
export function loadDescriptionConfig(environment: Environment) {
  const reader = openReader(environment)
  const { CONTRACT, STREAMS, TRACKING_BASE_URL, RELATED, ATTACHMENT_DATA } = upstreamVariables
  const config = {
    ...reader.values({ CONTRACT, STREAMS, TRACKING_BASE_URL, RELATED, ATTACHMENT_DATA }),
    dictionary: openDictionary(() => environment, reader),
  }
  reader.finish()
  return ofSource(config, sourceOfEnvironment(environment))
}

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
  const { values, complain, finish } = openReader(environment)
  const { ASSIGNMENT_BASE_URL: assignmentBaseUrl = '', AUTH_URL: authUrl = '' } = environment
  const proxies = proxiesFrom(values(proxyVariables), addressesOf({ assignmentBaseUrl, authUrl }), complain)
  finish()
  return proxies
}

/** Whether all is set that an upstream needs. */
export const namesUpstream = (environment: Environment): boolean =>
  Object.entries<Variable>(upstreamVariables).every(
    ([name, { fallback }]) => fallback !== 'required' || readVariable(environment, name, []) !== undefined,
  )

export function loadConfig(environment: Environment): Config {
  const reader = openReader(environment)
  const { added, catalogue, values, complain, finish } = reader
  const { HISTORY, TRACKER_HISTORY, ...others } = fixedUpstream
  const { httpsProxy, httpProxy, allProxy, noProxy, ...upstream } = values(others)
  for (const { name, service } of catalogue)
    if (service === 'tracking' && upstream.streams?.includes(name) && !upstream.trackingBaseUrl)
      complain(`STREAMS names ${name}, which needs TRACKING_BASE_URL`)
  for (const { name } of added)
    if (upstream.related?.includes(name))
      complain(`STREAMS adds ${name}, and RELATED copies records of that name: give it another one`)
  if (upstream.attachmentData && !upstream.related.includes('attachment'))
    complain('ATTACHMENT_DATA needs RELATED to be true, or to name attachment')
  const worker = { ...values(fixedWorker), ...values(peopleVariables) }
  const webhookSecret = worker.webhookSecret ?? derivedWebhookSecret(environment)
  expectWhatGoesWith(worker, complain)
  const trackingAuthUrl = upstream.trackingAuthUrl ?? upstream.authUrl
  const trackingSubjectId = upstream.trackingSubjectId ?? upstream.subjectId
  const asked = addressesOf({ ...upstream, ...worker, trackingAuthUrl, trackingSubjectId })
  const proxies = proxiesFrom({ httpsProxy, httpProxy, allProxy, noProxy }, asked, complain)
  const mirror = values(mirrorVariables)
  const { allowPlaintext } = mirror
  const dynamic = openDynamicSettings(environment, reader)
  const config = {
    ...mirror,
    ...upstream,
    added,
    proxies,
    trackingAuthUrl,
    trackingSubjectId,
    ...worker,
    webhookSecret,
    dynamic,
    dictionary: openDictionary(dynamic.environment, reader),
    alertFile: openAlertFile(worker.alerts, {
      ...namesIn(catalogue, environment),
      environment,
      proxies,
      allowPlaintext,
    }),
    keptAlerts: openKeptAlerts({ secretsKey: worker.alertSecretsKey, proxies, allowPlaintext }),
    settings: readSettings(environment),
    secretFiles: openSecretFiles(environment),
  }
  expectMaskKey(config, complain)
  trustAuthorities(config.extraCaFile, complain)
  refusePlaintext(config, complain)
  finish()
  return Object.freeze(ofSource(config, sourceOfEnvironment(environment)))
}

/** Settings of the worker that mean nothing without others. */
function expectWhatGoesWith(
  worker: Pick<
    Config,
    | 'shareTokens'
    | 'redisUrl'
    | 'publicUrl'
    | 'webhookSecret'
    | 'webhookRequireSignature'
    | 'webhookSigningSecret'
    | 'oidcIssuer'
    | 'oidcClientId'
    | 'consoleUrl'
  >,
  complain: (problem: string) => void,
): void {
  if (worker.shareTokens && worker.redisUrl === null)
    complain(
      'SHARE_TOKENS is true, and tokens are shared in Redis alone: set REDIS_URL, too, or leave it out',
    )
  if (worker.publicUrl && !worker.webhookSecret)
    complain('PUBLIC_URL is set to receive webhooks: set WEBHOOK_SECRET, too')
  if (worker.oidcIssuer && !worker.oidcClientId)
    complain('OIDC_ISSUER is set: set OIDC_CLIENT_ID, too, to what the provider calls this console')
  if (worker.oidcIssuer && !worker.consoleUrl)
    complain(
      'OIDC_ISSUER is set: set CONSOLE_URL, too, to the address under which people open the console, because the provider sends them back there',
    )
  if (worker.webhookRequireSignature && !worker.webhookSigningSecret && !worker.publicUrl)
    complain(
      'WEBHOOK_REQUIRE_SIGNATURE is true, and no secret to sign with was agreed on: set WEBHOOK_SIGNING_SECRET to the one that you gave the upstream, or PUBLIC_URL, with which the worker subscribes itself',
    )
}

/** Told before anything lands (P20). */
function expectMaskKey(
  { dictionary, maskKey }: Pick<Config, 'dictionary' | 'maskKey'>,
  complain: (problem: string) => void,
): void {
  if (maskKey !== null) return
  for (const [stream, { fields }] of dictionary.now())
    for (const { name, mask } of fields.values())
      if (mask?.kind === 'hash')
        complain(
          `MASK_KEY is not set, and DICTIONARY masks ${stream}.${name} by a hash: set it to a secret of 16 characters or more`,
        )
}

const namesIn = (catalogue: Catalogue, environment: Environment) => ({
  streams: catalogue.map(({ name }) => name),
  sourcesFile: readVariable(environment, 'SOURCES_FILE', []) ?? null,
})

/** What deliveries of webhooks are signed with: chosen by the operator, or following from WEBHOOK_SECRET. */
export const signingSecretOf = ({
  webhookSecret,
  webhookSigningSecret,
}: Pick<Config, 'webhookSecret' | 'webhookSigningSecret'>): string | null =>
  webhookSigningSecret ??
  (webhookSecret === null ? null : derived(webhookSecret, 'tidemark webhook signatures'))

/** Of a source whose settings name none: no source can be told from another one's secret. Null: the deployment has none. */
function derivedWebhookSecret(environment: Environment): string | null {
  const [source, master] = [sourceOfEnvironment(environment), environment[webhookMasterVariable]]
  if (source === '' || !master) return null
  return webhookSecretOf(master, source)
}

export const webhookSecretOf = (master: string, source: string): string =>
  derived(master, `tidemark webhooks of the source ${source}`)

/** It is kept out of all that is printed. */
function derived(secret: string, purpose: string): string {
  const made = Buffer.from(hkdfSync('sha256', secret, '', purpose, 24)).toString('base64url')
  keepSecret(made)
  return made
}
