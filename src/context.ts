// Opens what every command needs that reads the upstream into Postgres: the migrated database, the store, and one source for each
// stream that is configured.

import { knowAddedStreams } from './added-streams.ts'
import { type BudgetOptions, openSharedBudgets, openTokens } from './budget/open-budgets.ts'
import type { Config, MirrorConfig, UpstreamConfig } from './config/load.ts'
import {
  asChosen,
  configuredCatalogue,
  configuredStreams,
  howToRead,
  mirroredStreams,
  openUpstreams,
  sourcesOf,
  wantedRelated,
} from './configured.ts'
import type { Logger } from './log.ts'
import { type Descriptions, openDescriptions } from './openapi/descriptions.ts'
import { readOverridesAndAsked } from './store/book/overrides.ts'
import { forgetProblem, noteProblem } from './store/book/problems.ts'
import { isRelatedDue } from './store/book/related.ts'
import { SourceDiffers } from './store/book/sources.ts'
import { claimSources, expectBeforeRun } from './store/runs/claim-sources.ts'
import { compareOnce } from './store/runs/comparison.ts'
import { eraseAll, longDeleted, relativesOf } from './store/runs/erase.ts'
import { openStore } from './store/runs/open-store.ts'
import { applyRules, countPrivate, expectRules, waitingChanges } from './store/runs/private-fields.ts'
import { countAgainAfterMs, isLoadToBeCounted, noteLoadCount } from './store/runs/progress.ts'
import { readAgainByKey } from './store/runs/related-work.ts'
import { keepMeanings } from './store/schema/meaning.ts'
import { expectMigrated, migrateDatabase, prepareSource } from './store/schema/migrate.ts'
import { type Database, openDatabase } from './store/server/connect.ts'
import { withConnection } from './store/server/session.ts'
import type { Catalogue, MirroredStream, RelatedStream, Stream } from './streams/catalog.ts'
import { keyIn, sourceIn } from './streams/names.ts'
import type { PrivateFields } from './streams/private-fields.ts'
import type { Records } from './streams/record.ts'
import { type Override, overridesOf } from './streams/settings.ts'
import { readIncremental } from './sync/changes/incremental.ts'
import { type LookbackContext, readLookback } from './sync/changes/lookback.ts'
import { countWhileLoading } from './sync/lists/count-records.ts'
import { withPageEnds } from './sync/lists/page-ends.ts'
import { pollList } from './sync/lists/poll.ts'
import type { ReadingContext, RunOutcome } from './sync/perform-run.ts'
import type { Difference } from './sync/ports/audits.ts'
import type { Source } from './sync/ports/source.ts'
import type { Store } from './sync/ports/store.ts'
import { type RelatedContext, readRelated } from './sync/related/read-related.ts'
import type { SharedTokens } from './upstream/auth/shared-tokens.ts'
import type { Upstream } from './upstream/client.ts'
import { openRelatedSource } from './upstream/extended-read.ts'
import type { Budgets } from './upstream/http/budget.ts'
import { UpstreamError } from './upstream/http/errors.ts'
import type { UpstreamObserver } from './upstream/http/transport.ts'
import { openWaits } from './upstream/waits.ts'
import { growLittle, type Memory } from './util/memory.ts'
import { openRoom } from './util/room.ts'
import { sentence } from './util/text.ts'
import { openPriorityGate } from './util/waiting.ts'

export type Pool = Database['pool']
// One run of any stream, of the kinds that run on a schedule.
export type ScheduledKind = 'incremental' | 'lookback'

/** What every run of a stream needs, whatever its kind. */
type StreamContext<Kind extends Stream> = ReadingContext<Kind> &
  Required<Pick<ReadingContext, 'keyField' | 'versionField' | 'room'>> & {
    readonly lookbackFloorMs: number
    readonly lookupsPerMinute: number
  }

export type ReadOptions = Pick<LookbackContext, 'signal' | 'shouldYield' | 'onWritten' | 'reach'>

type OneReading = Omit<StreamContext<Stream>, 'signal'> & ReadOptions & { readonly kind: ScheduledKind }

function readStream(context: OneReading): Promise<RunOutcome> {
  const { stream } = context
  if (stream.kind === 'list') return pollList({ ...context, stream })
  const changes = { ...context, stream }
  return context.kind === 'lookback' ? readLookback(changes) : readIncremental(changes)
}

export type SyncContext = AsyncDisposable & {
  readonly database: Database
  readonly store: Store
  /** The streams that are configured. */
  readonly streams: readonly Stream[]
  readonly catalogue: Catalogue
  /** The related records that are wanted. */
  readonly related: readonly RelatedStream[]
  readonly assignmentService: Upstream
  readonly budgets: Budgets
  /** Null: each program signs in for itself. */
  readonly tokens: SharedTokens | null
  sourceOf(stream: Stream): Source
  contextOf<Kind extends Stream>(stream: Kind): Omit<StreamContext<Kind>, 'signal'>
  read(stream: Stream, kind: ScheduledKind, options: ReadOptions): Promise<RunOutcome>
  /** Reads an assignment with the related records that are wanted. Here and below: of the source of a stream. */
  extendedLookup(stream: string): NonNullable<Source['lookup']>
  /** The backlog of related records. */
  readRelated(options: ReadOptions, stream?: string): Promise<RunOutcome>
  /** Whether there may be such a backlog. */
  isRelatedDue(stream?: string): Promise<boolean>
  /** How the rows of a stream differ from these records now. */
  compareOnce(stream: Stream, page: Records): Promise<readonly Difference[]>
  readonly descriptions: Descriptions
  readonly overrides: Awaited<ReturnType<typeof openOverrides>>
  /** Shows what the dictionary says by now; what is read by it is read so from now on. */
  takeUpDictionary(): Promise<void>
  readonly privacy: ReturnType<typeof privacyIn>
}

export type ContextOptions = Pick<BudgetOptions, 'budgets' | 'workers'> & {
  readonly config: MirrorConfig &
    UpstreamConfig &
    Pick<Config, 'webhookSecret' | 'webhookSigningSecret' | 'redisUrl' | 'shareTokens'> &
    Partial<Pick<Config, 'keptAlerts'>>
  readonly log: Logger
  readonly observer?: UpstreamObserver
  /** False: the database is taken as it is, and has to have the schema of this program. */
  readonly migrates?: boolean
  /** True: also when the rows came from another source than the settings name. */
  readonly anySource?: boolean
  /** Called once rows can be written, before the upstream is asked. */
  readonly onDatabase?: (database: Database) => void
  /** One that is open already, and stays so. */
  readonly database?: Database
  /** If the upstream's description was looked for longer ago than this, it is looked for again. */
  readonly descriptionAgeMs?: number
  /** Of a worker: how many sessions of Postgres it has beside those of the mirror. */
  readonly sessionsBeside?: number
  /** Those that are open already, and stay so. */
  readonly tokens?: SharedTokens | null
  /** It was seen to have all that it needs: nothing is made, and its upstream is not asked how it describes itself. */
  readonly isWhole?: boolean
  /** What was changed while workers run; left out: it is read. */
  readonly stored?: readonly Override[]
}

export async function openContext(options: ContextOptions): Promise<SyncContext> {
  const { config, log } = options
  // If the rest cannot be opened, the database is closed again: it would keep the program from ending.
  await using opened = new AsyncDisposableStack()
  const database = await openMirrorDatabase(options, opened)
  const overrides = await openOverrides(options, database.pool)
  const { observer, of: waitsFor } = openWaits(options.observer)
  let memory: Memory | null = null
  const there = { ...options, database }
  const [budgets, { tokens }] = [opened.use(openSharedBudgets(there)), opened.use(openTokens(there))]
  const shared = { budgets, tokens, observer, freeChunks: () => memory?.freeChunks() }
  const upstreams = opened.adopt(openUpstreams({ ...options, ...shared }), ({ close }) => close())
  const catalogue = await knowAddedStreams({ ...options, database, upstream: upstreams.assignment })
  const descriptions = await descriptionsFor(options, database, upstreams, catalogue)
  const related = wantedRelated(config, descriptions)
  if (related.length > 0) memory = growLittle()
  const relatedOptions = { groups: related.map(({ name }) => name), refreshMs: config.relatedRefreshMs }
  const store = storeOf(options, {
    database,
    streams: catalogue,
    fieldKindsOf: descriptions.kindsOf,
    waitsFor,
    related: { ...relatedOptions, streams: related },
    privateFields: upstreams.privateFields,
  })
  const takeUpDictionary = () => showMeanings(options, { database, catalogue, descriptions, related })
  if (options.migrates !== false) await takeUpDictionary()
  // Reads of related records wait for incremental runs, which are short. During a long one, some still go through every second.
  const priorityGate = openPriorityGate({ longestMs: 1_000 })
  const relatedSource = openRelatedSource(upstreams.assignment, {
    streams: related,
    requestsPerSecond: () => config.dynamic.now().requestsPerSecond,
    yieldTo: priorityGate.yieldTo,
  })
  const contextOf = contextIn(config, { store, room: openRoom(), sourceOf: upstreams.sourceOf })
  const everything = opened.move()
  return {
    database,
    store,
    descriptions,
    overrides,
    takeUpDictionary,
    privacy: privacyIn(database, upstreams.privateFields, mirroredStreams(config, catalogue)),
    streams: configuredStreams(config, catalogue),
    catalogue,
    budgets,
    tokens,
    contextOf,
    related,
    assignmentService: upstreams.assignment,
    sourceOf: upstreams.sourceOf,
    extendedLookup: () => async (id, signal) => (await relatedSource.lookup?.(id, signal)) ?? 'unclear',
    async read(stream, kind, hooks) {
      const given = { ...contextOf(stream), ...hooks, kind }
      if (kind === 'lookback') return await readStream(given)
      return await priorityGate.first(() => readCounted(database, given, log))
    },
    isRelatedDue: () => isRelatedDue(database.pool, relatedOptions),
    compareOnce(stream, page) {
      const chosen = asChosen(stream, config, descriptions)
      return compareOnce(database.pool, { stream: chosen, timeZone: config.sourceTimezone }, page)
    },
    readRelated: (hooks) =>
      readAndNote(database, { ...hooks, ...memory, store, source: relatedSource, streams: related }, log),
    [Symbol.asyncDispose]: () => everything.disposeAsync(),
  }
}

type ReadingParts = Pick<StreamContext<Stream>, 'store' | 'room'> & Pick<SyncContext, 'sourceOf'>

const contextIn =
  (config: ContextOptions['config'], { sourceOf, ...parts }: ReadingParts): SyncContext['contextOf'] =>
  (stream) => ({
    ...parts,
    stream,
    source: sourceOf(stream),
    ...howToRead(stream, config),
    now: () => new Date(),
  })

type StoreOptions = Parameters<typeof openStore>[0]
type StoreParts = Pick<StoreOptions, 'database' | 'streams' | 'fieldKindsOf' | 'waitsFor' | 'related'> &
  Pick<ReturnType<typeof openUpstreams>, 'privateFields'>

/** Of the source that the settings name, and no other. */
function storeOf(options: ContextOptions, { privateFields, ...parts }: StoreParts) {
  const { config, log } = options
  return openStore({
    ...parts,
    log,
    sourceTimezone: config.sourceTimezone,
    dictionary: config.dictionary.now,
    async beforeRun(client, names) {
      const sources = isOfAnySource(options) ? null : sourcesOf(config)
      await expectBeforeRun(client, names, { sources, privateFields })
    },
  })
}

/** What was changed while workers run. */
async function openOverrides({ config, stored, log }: ContextOptions, pool: Pool) {
  const { source, dynamic, dictionary } = config
  const overrides = {
    /** Of all sources, with what else is asked for. */
    async read() {
      const found = await readOverridesAndAsked(pool)
      config.keptAlerts?.takeUp(found.alerts)
      return found
    },
    /** Says in the log what holds from now on, and returns the sources in which that is something new. */
    takeUp(stored: readonly Override[]): readonly string[] {
      const taken = dynamic.takeUp(overridesOf(stored, source))
      if (taken === null) return []
      const whose = source === '' ? {} : { source }
      const text = 'Settings that were changed while workers run hold from the next run on.'
      log.info({ ...whose, settings: taken.used }, text)
      // One that cannot be used was set by another version.
      for (const problem of taken.problems)
        log.warn(whose, `A setting is not used as it was changed: ${sentence(problem)}`)
      return [source]
    },
  }
  overrides.takeUp(stored ?? (await overrides.read()).overrides)
  // How long histories are kept may be among them.
  const { problem = null } = dictionary.look() ?? {}
  if (problem !== null) log.warn(`What the dictionary said before holds: ${problem}`)
  return overrides
}

/** What the owner wants to have nowhere here (P20). */
function privacyIn({ pool }: Database, privateFields: PrivateFields, mirrored: readonly MirroredStream[]) {
  const { wanted, fingerprint, namesOf } = privateFields
  return {
    wanted,
    fingerprint,
    /** Rejects unless what the dictionary says of the private fields of a stream is in force here. */
    expect: (stream: string) =>
      withConnection(pool, (client) => expectRules(client, [stream], privateFields)),
    /** How the dictionary differs from what is in force, and how much is stored here that would be cleared. */
    async waiting(stream: MirroredStream) {
      const changes = await waitingChanges(pool, stream.name, wanted)
      return { changes, stored: await countPrivate(pool, stream, changes, namesOf(stream.name)) }
    },
    apply: (stream: MirroredStream, reason: string) =>
      applyRules(pool, stream, { wantedOf: wanted, names: namesOf(stream.name), reason }),
    erase: eraseAll.bind(null, pool),
    relativesOf: (key: string, _stream: string) => relativesOf(pool, mirrored, key),
    longDeleted: longDeleted.bind(null, pool),
  }
}

/** What the dictionary says now, in the views and in how related records are read. */
async function showMeanings(
  { config, log }: ContextOptions,
  context: Pick<SyncContext, 'database' | 'catalogue' | 'descriptions' | 'related'>,
): Promise<void> {
  const { catalogue, descriptions, related } = context
  const { pool } = context.database
  const meant = catalogue.map((stream) => asChosen(stream, config, descriptions))
  await keepMeanings(pool, [...meant, ...related], log)
  await readAgainByKey(pool, related)
}

export const relatedNotice = (source: string): string => `related_off:${keyIn(source, 'assignment')}`

async function readAndNote(
  database: Database,
  given: ReadOptions & Pick<RelatedContext, 'store' | 'source' | 'streams' | 'freeMemory'>,
  log: Logger,
): Promise<RunOutcome> {
  const outcome = await readRelated({
    ...given,
    now: () => new Date(),
    onIncomplete: (assignmentId, problem) =>
      log.warn({ assignmentId, problem }, 'an assignment could not be read whole; it will be tried again'),
  })
  await noteWhetherOffered(database, outcome, log)
  return outcome
}

/** Notes the problem at once, and not after some failures: until somebody does something, no related record changes here. */
async function noteWhetherOffered(
  { pool }: Database,
  { stream, status, error, tally }: RunOutcome,
  log: Logger,
): Promise<void> {
  const isOff = error instanceof UpstreamError && error.code === 'UPSTREAM_NOT_OFFERED'
  const notice = relatedNotice(sourceIn(stream))
  // A run that asked for nothing tells nothing of the upstream.
  if (!isOff && (status !== 'done' || tally.requests === 0)) return
  const what =
    'Related records cannot be read: the upstream answers extended reads of assignments with 404, though the assignments are there. The rows that are here are kept as they are.'
  const noting = isOff ? noteProblem(pool, { key: notice, what }) : forgetProblem(pool, notice)
  await noting.catch((cause) =>
    log.debug({ err: cause }, 'could not note whether extended reads are offered'),
  )
}

/** While a first load goes on, the records are counted at the upstream. */
function readCounted({ pool }: Database, context: OneReading, log: Logger): Promise<RunOutcome> {
  const { stream, source, signal } = context
  const count = countWhileLoading({
    source: withPageEnds(source).source,
    signal,
    isDue: () => isLoadToBeCounted(pool, stream.name),
    note: (counted) => noteLoadCount(pool, stream.name, counted),
    everyMs: countAgainAfterMs,
    onError: (error) =>
      log.debug({ err: error, stream: stream.name }, 'the records of a first load could not be counted'),
  })
  const onWritten: OneReading['onWritten'] = (written, progress) => {
    count.pageCame()
    context.onWritten?.(written, progress)
  }
  return readStream({ ...context, onWritten }).finally(count.end)
}

const dayMs = 24 * 3_600_000

/** Reads the descriptions before the first row comes, unless they were looked for within `descriptionAgeMs`. */
async function descriptionsFor(
  { config, log, migrates = true, isWhole = false, descriptionAgeMs = dayMs }: ContextOptions,
  { pool }: Database,
  upstreams: ReturnType<typeof openUpstreams>,
  catalogue: Catalogue,
): Promise<Descriptions> {
  const mirrored = mirroredStreams(config, catalogue)
  const descriptions = await openDescriptions({ pool, config, upstreams, catalogue, mirrored, log })
  if (migrates && !isWhole)
    await descriptions.refresh({ olderThanMs: descriptionAgeMs, signal: new AbortController().signal })
  return descriptions
}

const isOfAnySource = ({ migrates = true, anySource = !migrates }: ContextOptions) => anySource

/** Closed with the rest, unless it was open before. */
async function openMirrorDatabase(options: ContextOptions, opened: AsyncDisposableStack): Promise<Database> {
  const { config, log, migrates = true, isWhole = false } = options
  const database = options.database ?? (await openDatabase({ ...options, url: config.databaseUrl }))
  if (!options.database) opened.adopt(database, ({ close }) => close())
  const { source, biRole, biSchemas, sourceTimezone } = config
  const streams = configuredCatalogue(config)
  const wanted = { database, source, streams, biRole, biSchemas, sourceTimezone, log }
  if (!migrates) await expectMigrated(database)
  // Whoever has it open has migrated it.
  else if (options.database && source !== '') await (isWhole || prepareSource(wanted))
  else await migrateDatabase(wanted)
  if (migrates && !isWhole)
    await claimSources(database.pool, sourcesOf(config)).catch((error) => {
      if (!(error instanceof SourceDiffers) || !isOfAnySource(options)) throw error
    })
  options.onDatabase?.(database)
  return database
}
