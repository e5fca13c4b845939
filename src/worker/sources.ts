// The sources of a worker beside the one that the environment describes: applies a changed file of sources, opens what is new, closes what
// is gone, and opens anew what changed, while all others are read on. What is wrong with a source stops that source alone (P19).

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { ConfigError } from '../config/environment.ts'
import { type Config, type Environment, loadConfig } from '../config/load.ts'
import { environmentOfSource, readSourcesFile, type SourcesFile } from '../config/sources-file.ts'
import { FileError, stampOf } from '../config/yaml-file.ts'
import type { ContextOptions, SyncContext } from '../context.ts'
import type { Fleet } from '../fleet.ts'
import type { Logger } from '../log.ts'
import { renewUnions, unionsStamp } from '../store/book/fleet-views.ts'
import {
  type AppliedSource,
  applySources,
  isAnew,
  newestGeneration,
  noteStopped,
  OlderSourcesFile,
  readAppliedSources,
  stoppedKey,
} from '../store/book/source-config.ts'
import { endNotices, forgetOfWorker, keepNotices, noteOfWorker } from '../store/book/worker-notices.ts'
import { errorOf, messageOf, SourceGone } from '../util/errors.ts'
import { sentence } from '../util/text.ts'
import { unlessTimedOut, withTimeout } from '../util/waiting.ts'

type Options = {
  readonly fleet: Fleet
  readonly environment: Environment
  /** Of the deployment. */
  readonly config: Pick<Config, 'fleetBiRole' | 'sourceTimezone'>
  /** Null: what others apply is read all the same. */
  readonly file: string | null
  readonly by: string
  /** One was opened, so its streams are due. */
  readonly onOpened: () => void
  /** The file does not name it any more. */
  readonly onGone: (config: Config) => void
  /** Sees of many at once what they have already. */
  readonly lookAt: (configs: readonly Config[]) => Promise<(config: Config) => Seen>
  /** Opens one; goes on with what belongs to it until the signal. `onTables`: only its upstream is waited for from now on. */
  readonly open: (
    config: Config,
    seen: Seen,
    signal: AbortSignal,
    onTables: () => void,
  ) => Promise<SyncContext>
  readonly signal: AbortSignal
  readonly log: Logger
}
type Seen = Required<Pick<ContextOptions, 'isWhole' | 'stored'>>
export type Sources = {
  /** The settings of a source that is open. */
  configOf(source: string): Config | null
  /** Aborted when a source that is open is closed, or opened again with other settings; null: it is not one of these. */
  closingOf(source: string): AbortSignal | null
  /** Whether it is one that is to be read, be it open or not; before the first look any may be. */
  isNamed(source: string): boolean
  /** Those that are to be read and are not open here, yet or any more. */
  absent(): Promise<readonly string[]>
  /** Its rows are of another upstream, or the like: it is read no more, until it is tried again. */
  stop(source: string, error: unknown): void
}

const lookEveryMs = 2_000
const rareLookMs = 30_000
const changingLookMs = 1_000
/** While Postgres does not answer, there are other things to wait for. */
const firstLookMs = 2_000
const tryAgainMs = 30_000
/** Before, a worker that starts may not have noted yet what it cannot read, and it would seem to be over. */
const firstKeepMs = 150_000
const fileKey = 'sources_file'
const notNoted = 'it could not be noted that a source is not read'

/** Null before the first look. */
type Wanted = ReadonlyMap<string, AppliedSource> | null
/** `worker`: the name under which it notes problems. */
type OfWorker = Options & { readonly worker: string }
/** `said`: by which settings; other tags change nothing. */
type Resting = {
  readonly said: string
  readonly why: string
  readonly since: Date
  readonly untilMs: number
}
type Member = { readonly said: string; readonly config: Config; readonly closing: AbortController }

/** Goes on by itself until the signal. */
export function keepSources(given: Options): Sources {
  const options = { ...given, worker: randomUUID() }
  const { fleet, file, signal, log, worker } = options
  const { pool } = fleet.context.database
  const members = openMembers(options)
  const sourcesFile = openFile(options)
  const renewViews = openUnions(options, sourcesFile.held)
  const first = Promise.withResolvers<void>()
  let wanted: Wanted = null
  let generation = 0
  let isOpening = false
  let keepAtMs = performance.now() + firstKeepMs

  async function look(): Promise<void> {
    await sourcesFile.apply()
    const applied = await readAppliedSources(pool)
    const named = new Map(applied.flatMap((one) => (one.goneAt === null ? [[one.name, one]] : [])))
    const before = wanted
    wanted = named
    first.resolve()
    generation = newestGeneration(applied)
    members.stopped.forgetOthers(named)
    await closeGone(options, members, before, named)
    if (performance.now() > keepAtMs) {
      keepAtMs = performance.now() + rareLookMs
      await sourcesFile.noteAgain()
      await keepNotices(pool, worker)
    }
    if (!isOpening) void openAll().catch((error) => log.debug({ err: error }, 'sources could not be opened'))
  }

  async function openAll(): Promise<void> {
    isOpening = true
    try {
      await openEach(members, () => wanted, signal)
      if (wanted?.size && !signal.aborted) await renewViews(generation)
    } finally {
      isOpening = false
    }
  }

  async function lookRegularly(): Promise<void> {
    while (!signal.aborted) {
      await look().catch((error) =>
        log.debug({ err: error }, 'it could not be looked which sources there are'),
      )
      // With one source, there is hardly ever anything to see.
      const everyMs = file === null && !wanted?.size ? rareLookMs : lookEveryMs
      const pauseMs = sourcesFile.isChanging() ? changingLookMs : everyMs
      await wait(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }
  void lookRegularly().finally(() => endNotices(pool, worker).catch(() => {}))

  return {
    configOf: (source) => members.open.get(source)?.config ?? null,
    closingOf: (source) => members.open.get(source)?.closing.signal ?? null,
    isNamed: (source) => wanted?.has(source) ?? true,
    async absent() {
      await withTimeout(firstLookMs, first.promise).catch(unlessTimedOut)
      return [...(wanted?.keys() ?? [])].filter((source) => !members.open.has(source))
    },
    stop(source, error) {
      const member = members.open.get(source)
      if (!member) return
      void members
        .close(source)
        .then(() => members.stopped.note(source, member.said, error))
        .catch((cause) => log.debug({ err: cause, source }, notNoted))
    },
  }
}

async function closeGone(
  { onGone, log }: Options,
  members: ReturnType<typeof openMembers>,
  before: Wanted,
  now: NonNullable<Wanted>,
): Promise<void> {
  for (const source of members.known()) {
    const [was, is] = [before?.get(source), now.get(source)]
    // Of one that was dropped and added again, nothing is left of what was open.
    if (is && !(was && isAnew(was, is))) continue
    const config = members.open.get(source)?.config
    await members.close(source)
    log.info({ source }, 'A source is read no more.')
    if (config && !is) onGone(config)
  }
}

/** So many are looked at together before they are opened. */
const lookedAtOnce = 20

/**
 * One after the other, so that they take no more than one connection from the runs; those of the looked at that have all ask little, and do it
 * together. No upstream is waited for: it may hang. To make the tables of a thousand takes minutes, and other ones are wanted meanwhile.
 */
async function openEach(
  { isToOpen, readyToOpen }: ReturnType<typeof openMembers>,
  wanted: () => Wanted,
  signal: AbortSignal,
): Promise<void> {
  for (let list: Wanted = null; list !== wanted(); ) {
    list = wanted()
    const left = beginningAnywhere([...(list?.values() ?? [])]).filter(isToOpen)
    while (left.length > 0 && list === wanted() && !signal.aborted)
      for (const begin of await readyToOpen(left.splice(0, lookedAtOnce)))
        if (list === wanted() && !signal.aborted) await begin()
  }
}

/** So that workers which start together do not wait for each other at every source: one of them makes its tables, and the others find them. */
function beginningAnywhere<One>(all: readonly One[]): readonly One[] {
  const first = Math.floor(Math.random() * all.length)
  return [...all.slice(first), ...all.slice(0, first)]
}

/** `config`: or why there is none. */
type ToOpen = { readonly config: Config | Error; readonly seen: Seen }
const nothingSeen: Seen = { isWhole: false, stored: [] }

function configOf(environment: Environment, { name, settings }: AppliedSource): ToOpen['config'] {
  try {
    return loadConfig(environmentOfSource(environment, name, settings))
  } catch (error) {
    return errorOf(error)
  }
}

type Opening = ToOpen & { readonly closing: AbortController; readonly onTables: () => void }

/** Those that are open, and those that could not be opened. */
function openMembers(options: OfWorker) {
  const { fleet, signal, log } = options
  const open = new Map<string, Member>()
  const stopped = openStopped(options)
  const opening = new Map<string, Pick<Member, 'said' | 'closing'>>()

  async function close(source: string): Promise<void> {
    for (const members of [open, opening]) {
      members.get(source)?.closing.abort()
      members.delete(source)
    }
    await fleet.remove(source)
  }

  async function openOne({ name, settings }: AppliedSource, one: Opening): Promise<void> {
    const { config, seen, closing, onTables } = one
    const until = AbortSignal.any([signal, closing.signal])
    try {
      if (config instanceof Error) throw config
      const context = await options.open(config, seen, until, onTables)
      if (until.aborted) return await context[Symbol.asyncDispose]()
      open.get(name)?.closing.abort()
      open.set(name, { said: saidIn(settings), config, closing })
      await fleet.add(name, context)
      if (!seen.isWhole) await stopped.forget(name)
      log.info({ source: name, streams: context.streams.length }, 'A source is read from now on.')
      options.onOpened()
    } catch (error) {
      if (until.aborted) return
      closing.abort()
      await close(name)
      if (error instanceof SourceGone) return
      await stopped.note(name, saidIn(settings), error)
    } finally {
      if (opening.get(name)?.closing === closing) opening.delete(name)
    }
  }

  /** Returns once its tables are there; it is read once its upstream has answered, or has not for a while. */
  function beginToOpen(one: AppliedSource, given: ToOpen): Promise<void> {
    opening.get(one.name)?.closing.abort()
    const closing = new AbortController()
    opening.set(one.name, { said: saidIn(one.settings), closing })
    return new Promise((resolve) => {
      openOne(one, { ...given, closing, onTables: resolve })
        .catch((cause) => log.debug({ err: cause, source: one.name }, notNoted))
        .finally(resolve)
    })
  }

  /** What is to be done for each of them, one after the other. */
  async function readyToOpen(some: readonly AppliedSource[]): Promise<readonly (() => Promise<void>)[]> {
    const all = some.map((one) => ({ one, config: configOf(options.environment, one) }))
    const configs = all.flatMap(({ config }) => (config instanceof Error ? [] : [config]))
    const seenOf = await options.lookAt(configs)
    return all.map(({ one, config }) => () => {
      const seen = config instanceof Error ? nothingSeen : seenOf(config)
      return beginToOpen(one, { config, seen })
    })
  }

  return {
    open,
    close,
    stopped,
    readyToOpen,
    known: () => new Set([...open.keys(), ...opening.keys()]),
    isToOpen({ name, settings }: AppliedSource): boolean {
      const said = saidIn(settings)
      return (opening.get(name) ?? open.get(name))?.said !== said && !stopped.isResting(name, said)
    },
  }
}

/** Those that could not be opened, until they are. */
function openStopped({ fleet, worker, log }: OfWorker) {
  const { pool } = fleet.context.database
  /** Not to be tried before. */
  const resting = new Map<string, Resting>()
  return {
    async note(source: string, said: string, error: unknown): Promise<void> {
      const before = resting.get(source)
      const since = before?.since ?? new Date()
      const why = error instanceof ConfigError ? error.problems.join('; ') : messageOf(error)
      resting.set(source, { said, why, since, untilMs: performance.now() + tryAgainMs })
      // It is tried again twice a minute.
      if (why !== before?.why) log.warn({ source, why }, 'A source is not read.')
      await noteStopped(pool, source, { worker, host: hostname(), why: sentence(why), since })
    },
    async forget(source: string): Promise<void> {
      resting.delete(source)
      await forgetOfWorker(pool, { worker, key: stoppedKey(source) })
    },
    /** Of all that are not among these. */
    forgetOthers(named: ReadonlyMap<string, unknown>): void {
      for (const source of resting.keys()) if (!named.has(source)) resting.delete(source)
    },
    isResting(source: string, said: string): boolean {
      const rest = resting.get(source)
      return rest?.said === said && rest.untilMs > performance.now()
    },
  }
}

const saidIn = (settings: AppliedSource['settings']): string =>
  JSON.stringify(Object.entries(settings).toSorted())

const unionsEveryMs = 10_000

/** Keeps the views over several sources as the file says, when something has changed. */
function openUnions(
  { fleet, config, log }: Options,
  held: () => SourcesFile | null,
): (generation: number) => Promise<void> {
  const { pool } = fleet.context.database
  let [done, nextMs, said] = ['', 0, '']
  return async (generation) => {
    const file = held()
    // With an older file it would make them otherwise than others do, again and again.
    if (file === null || file.generation < generation || performance.now() < nextMs) return
    const wanted = file.unions
    nextMs = performance.now() + unionsEveryMs
    const stampNow = async () => `${await unionsStamp(pool)} ${JSON.stringify([...wanted])}`
    if ((await stampNow()) === done) return
    const { remarks, isWhole } = await renewUnions(pool, { ...config, groups: wanted }, log).catch(
      (error) => {
        const why = `The views over several sources could not be renewed: ${sentence(messageOf(error))}`
        return { remarks: [why], isWhole: false }
      },
    )
    // While sources are opened, the number of locks is another one each time.
    const saying = `${remarks}`.replaceAll(/\d[\d,]*/g, '')
    if (saying !== said) for (const one of remarks) log.warn(one)
    ;[said, done] = [saying, isWhole ? await stampNow() : '']
    if (!isWhole) nextMs = performance.now() + tryAgainMs
  }
}

/** Applies the file if it is another one than was applied, and the same as at the last call: one that is being written may lack sources. */
function openFile(options: OfWorker) {
  const { file, environment, fleet, worker, log } = options
  const { pool } = fleet.context.database
  let [seen, held]: [string | null, SourcesFile | null] = [null, null]
  let [last, problem]: [string | null, string | null] = [null, null]
  const noteAgain = async (): Promise<void> => {
    if (problem !== null) await noteOfWorker(pool, { worker, key: fileKey, what: problem })
  }
  const apply = async (): Promise<void> => {
    const stamp = stampOf(file)
    if (file === null) return
    const isWritten = seen === null || stamp === last
    last = stamp
    if (stamp === seen || !isWritten) return
    try {
      const read = readSourcesFile(file, environment)
      const changes = await applySources(pool, read, options)
      held = read
      problem = null
      await forgetOfWorker(pool, { worker, key: fileKey })
      for (const { name, change, what } of changes)
        log.info({ source: name, change, what }, 'The file of sources changed.')
    } catch (error) {
      if (!(error instanceof FileError) && !(error instanceof OlderSourcesFile)) throw error
      const said = error instanceof FileError ? error.message : `${file} ${error.message}`
      const [first = '', ...more] = said.split('\n')
      const others = more.length > 0 ? `; and ${more.length} more` : ''
      problem = `${first}${others}. What held before holds.`
      log.warn(problem)
      await noteAgain()
    }
    // Only now: while Postgres is away, it is tried again.
    seen = stamp
  }
  /** `held`: null: no file could be used yet. */
  return { apply, noteAgain, held: () => held, isChanging: () => last !== seen }
}
