// What belongs to each source that a worker reads: how it is opened, what goes on beside its runs, and which settings hold for its streams.

import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import type { DynamicValues } from '../config/dynamic-settings.ts'
import { type Config, type Environment, signingSecretOf, webhookSecretOf } from '../config/load.ts'
import { byName } from '../config/parsers.ts'
import { settingRules } from '../config/settings.ts'
import { environmentOfSource } from '../config/sources-file.ts'
import { mirroredStreams, openConfiguredUpstream } from '../configured.ts'
import { openContext, type SyncContext } from '../context.ts'
import type { Fleet } from '../fleet.ts'
import type { Logger } from '../log.ts'
import type { RulesOf } from '../operator/settings.ts'
import { type IndexChoice, makeIndexes, readLoaded } from '../store/book/indexes.ts'
import type { Catalogue, ServiceName } from '../streams/catalog.ts'
import { meaningOf } from '../streams/dictionary.ts'
import { keyIn, sourceIn } from '../streams/names.ts'
import type { UpstreamObserver } from '../upstream/http/transport.ts'
import { openTurns } from '../util/turns.ts'
import type { Hook } from '../web/monitoring.ts'
import { noteWhole, wholeSources } from '../whole-sources.ts'
import { keepDictionary, type Looks, lookAtDictionary, lookRegularly } from './changed-settings.ts'
import { type KindsOf, scheduledKinds } from './kinds.ts'
import { keepSources, type Sources } from './sources.ts'
import { beSubscribed, unsubscribe } from './subscription.ts'
import { ownVersion } from './watch.ts'

type Serving = {
  readonly config: Config
  /** With the secrets that the file of sources names. */
  readonly environment: Environment
  readonly looks: Looks
  readonly log: Logger
  readonly signal: AbortSignal
}

/** What this worker reads, and by which settings. */
export type Served = {
  readonly fleet: Fleet
  readonly sources: ServedSources
  configOf(stream: string): Config
}
type ServedSources = Sources & {
  /** How long histories are kept may be another setting now. */
  lookAtDictionary(source: string): void
  /** Where its webhooks arrive; null: nowhere. */
  hookOf(source: string): Hook | null
}

type Round = Pick<Serving, 'config' | 'log' | 'looks' | 'signal'> & {
  /** It has all that it needs, and nothing was looked at. */
  readonly isWhole?: boolean
}

/** What goes on beside the runs of a source. */
export function keepRound(given: Round, context: SyncContext): void {
  void keepDescriptions(given, context)
  keepDictionary(given.looks, given, context)
  void keepIndexes(given, context)
}

/** Opens and closes sources from now on. Their requests are counted apart. */
export function serveSources(
  first: Serving,
  fleet: Fleet,
  observer: UpstreamObserver,
  onOpened: () => void,
): ServedSources {
  const { config, environment, log, signal } = first
  const { database, budgets, tokens } = fleet.context
  const looksOf = new Map([['', first.looks]])
  const alone = openTurns()
  const seeing = { version: ownVersion(), log }
  const sources = keepSources({
    fleet,
    environment,
    config,
    file: config.sourcesFile,
    onOpened,
    signal,
    log,
    by: `worker ${hostname()}`,
    onGone: (config) => void endSubscription(config, first),
    async lookAt(configs) {
      const whole = await wholeSources(database, configs, seeing)
      const { overrides: stored } = await fleet.context.overrides.read()
      return ({ source }) => ({ isWhole: whole.has(source), stored })
    },
    async open(config, { isWhole, stored }, until, onTables) {
      const context = await openContext({
        config,
        log,
        database,
        budgets,
        tokens,
        observer: observerOf(config.source, observer),
        descriptionAgeMs: 0,
        onDatabase: onTables,
        isWhole,
        stored,
      })
      if (until.aborted) return context
      if (context.descriptions.isWhole()) await noteWhole(database, config, seeing.version)
      const looks = lookRegularly({ log, signal: until })
      looks.add('secrets in files', () => config.secretFiles.look(log))
      keepRound({ config, log, looks, signal: until, isWhole }, context)
      beSubscribed({ config, publicUrl: first.config.publicUrl, alone, log, signal: until }, context)
      looksOf.set(config.source, looks)
      return context
    },
  })
  return {
    ...sources,
    lookAtDictionary(source) {
      const looks = looksOf.get(source)
      if (looks) lookAtDictionary(looks)
    },
    hookOf: openHooks(first.config, sources),
  }
}

/** The same one for a source as long as its settings are the same. Left out: which sources there are is not known yet. */
export function openHooks(
  { webhookSecret: master }: Pick<Config, 'webhookSecret'>,
  sources?: Pick<Sources, 'configOf' | 'isNamed'>,
): ServedSources['hookOf'] {
  const hooks = new WeakMap<Config, Hook>()
  return (source) => {
    const config = sources?.configOf(source) ?? null
    // Who knows the secret that follows from ours is told to come again.
    if (config === null)
      return master !== null && (sources?.isNamed(source) ?? true)
        ? { secret: webhookSecretOf(master, source), signingSecret: null, isLater: true }
        : null
    const { webhookSecret: secret } = config
    if (secret === null) return null
    const known = hooks.get(config) ?? { secret, signingSecret: signingSecretOf(config) }
    hooks.set(config, known)
    return known
  }
}

const longestGoodbyeMs = 30_000

/** Of a source that is gone from the file. Nobody waits for it: its upstream may be gone as well. */
async function endSubscription(
  config: Config,
  { config: { publicUrl }, log, signal }: Pick<Serving, 'config' | 'log' | 'signal'>,
): Promise<void> {
  const { source, webhookSecret: secret } = config
  if (publicUrl === null || secret === null) return
  const upstream = openConfiguredUpstream({ config, log }, 'assignment')
  try {
    const until = AbortSignal.any([signal, AbortSignal.timeout(longestGoodbyeMs)])
    const count = await unsubscribe({ source, upstream, publicUrl, secret, signal: until })
    if (count > 0) log.info({ source, count }, 'Webhooks of a source that is gone from the file are ended.')
  } catch (error) {
    log.warn({ source, err: error }, 'Webhooks of a source that is gone from the file could not be ended.')
  } finally {
    upstream.close()
  }
}

/** Its services are called `acme.assignment`. */
function observerOf(source: string, observer: UpstreamObserver): UpstreamObserver {
  const named = <Told extends { readonly service: ServiceName }>(told: Told): Told => {
    return { ...told, service: keyIn(source, told.service) as ServiceName }
  }
  return {
    requestDone: (request) => observer.requestDone?.(named(request)),
    retryPlanned: (retry) => observer.retryPlanned?.(named(retry)),
    waited: (waited) => observer.waited?.(named(waited)),
    signInDone: (signIn) => observer.signInDone?.(named(signIn)),
  }
}

/** With what each source says of its own streams. */
export function withStreamsOf(config: Config, others: ReadonlySet<Config>): Config {
  if (others.size <= 1) return config
  const now = (): DynamicValues => {
    const all = [...others].map(({ dynamic }) => dynamic.now().ofStreams)
    const { ofStreams, ...values } = config.dynamic.now()
    const families = Object.keys(ofStreams).map((family) => [
      family,
      byName(all.flatMap((one) => Object.entries(one[family as keyof typeof one]))),
    ])
    return { ...values, ofStreams: Object.fromEntries(families) }
  }
  return { ...config, dynamic: { ...config.dynamic, now } }
}

/** By which settings are changed. A source may be one that this worker cannot read at the moment, and its streams are not known then. */
export const rulesOf =
  ({ config, environment }: Pick<Serving, 'config' | 'environment'>, catalogue: Catalogue): RulesOf =>
  (source, said) => {
    const { problemOf } = config.dynamic
    if (source === '') return { problemOf, shown: (overrides) => config.settings(catalogue, overrides) }
    const own = catalogue.filter(({ name }) => sourceIn(name) === source)
    return settingRules(environmentOfSource(environment, source, said), own.length === 0 ? undefined : own)
  }

/** Of each source by its own settings, for as long as it is open. */
export function kindsServed(fleet: Fleet, configOf: Served['configOf']): KindsOf {
  const known = new WeakMap<SyncContext, ReturnType<KindsOf>>()
  return (stream) => {
    const own = fleet.of(sourceIn(stream))
    if (own === null) return {}
    const kinds = known.get(own) ?? scheduledKinds(own, configOf(stream))
    known.set(own, kinds)
    return kinds
  }
}

/** A description is asked for once a day. A service that did not answer is asked again sooner. */
const descriptionCheckMs = 3_600_000
const descriptionAgeMs = 24 * 3_600_000
/** After this there are first rows, which tell which columns refer to which. */
const firstRowsMs = 120_000

/** Sources that are opened together are not looked at together. */
const mostDelayMs = 600_000

/** Goes on by itself until the signal. */
async function keepDescriptions(
  { config, isWhole = false, log, signal }: Round,
  { descriptions }: SyncContext,
): Promise<void> {
  const openedMs = performance.now()
  // Of one that was whole it was not asked when it was opened.
  const ageMs = () => (isWhole ? Math.min(descriptionAgeMs, performance.now() - openedMs) : descriptionAgeMs)
  const look = () =>
    descriptions
      .refresh({ olderThanMs: ageMs(), signal })
      // With a description that is done as well.
      .then(() => (config.contract === null ? descriptions.noteReferences() : undefined))
      .catch((error) => log.debug({ err: error }, 'could not look at what the upstream says about itself'))
  let pauseMs = isWhole ? Math.random() * mostDelayMs : firstRowsMs
  while (await wait(pauseMs, true, { signal, ref: false }).catch(() => false)) {
    void look()
    pauseMs = descriptionCheckMs
  }
}

const indexLookMs = 60_000
const indexAgainMs = 600_000
/** What rows did not confirm as a reference, later ones may. */
const confirmMs = 24 * 3_600_000

/**
 * Makes the indexes that reports ask for, as soon as a first load is over or columns have come. One worker at a time does so. Goes on by itself
 * until the signal.
 */
async function keepIndexes(
  { config, isWhole = false, signal, log }: Round,
  { database: { pool }, catalogue }: Pick<SyncContext, 'database' | 'catalogue'>,
): Promise<void> {
  const mirrored = mirroredStreams(config, catalogue)
  const choose: IndexChoice = (stream, column) => {
    const meaning = meaningOf(config.dictionary.now(), { name: stream }, column)
    return meaning?.index ?? (meaning?.refersTo ? true : null)
  }
  const options = { pool, mirrored, forReports: config.indexes === 'auto', choose, signal, log }
  let [done, doneMs, said] = ['', 0, config.dictionary.now()]
  const look = async (): Promise<number> => {
    const loaded = await readLoaded(pool, mirrored)
    const [nowMs, saying] = [performance.now(), config.dictionary.now()]
    if (loaded === done && saying === said && nowMs - doneMs < confirmMs) return indexLookMs
    if ((await makeIndexes(options)) === null) return indexAgainMs
    ;[done, doneMs, said] = [loaded, nowMs, saying]
    return indexLookMs
  }
  // Those of many sources that are opened together are not looked at together.
  if (isWhole) await wait(Math.random() * indexAgainMs, undefined, { signal, ref: false }).catch(() => null)
  while (!signal.aborted) {
    const nextMs = await look().catch((error) => {
      log.debug({ err: error }, 'could not look which indexes reports need')
      return indexAgainMs
    })
    await wait(nextMs, undefined, { signal, ref: false }).catch(() => null)
  }
}
