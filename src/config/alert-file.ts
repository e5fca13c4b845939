// The file that ALERTS names: who is told of which problems, when, and how old each stream may become. It is read again when it, or a file
// that holds one of its secrets, has changed; while it has mistakes, what it said last goes on.

import { z } from 'zod'
import { keepSecret } from '../log.ts'
import { environmentSource, keyIn, sourceIn } from '../streams/names.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import type { Proxies } from '../util/proxies.ts'
import { parseDuration } from '../util/text.ts'
import { receiverSchema, type Way, wayOf } from './alert-receivers.ts'
import { type Environment, readSecretFile } from './environment.ts'
import { oneOrMore, quietHours } from './parsers.ts'
import { type KnownSource, readKnownSources } from './sources-yaml.ts'
import { type Time, times } from './stream-variables.ts'
import { FileError, notKnown, parseYamlFile, readYamlFile, stampOf, type YamlFile } from './yaml-file.ts'

export type Rule = {
  /** Names of receivers. */
  readonly to: readonly string[]
  /** Null: all. */
  readonly kinds: readonly string[] | null
  /** Null: all, and what is about no stream. */
  readonly streams: readonly string[] | null
  /** Null or left out: all, and what is about no source. */
  readonly sources?: readonly string[] | null
  /** How long a problem lasts before it is told. */
  readonly afterMs: number
  /** Null: it is told at any hour. */
  readonly quiet: { readonly from: number; readonly to: number; readonly timeZone: string } | null
}
/** In milliseconds, by stream. */
export type Targets = Readonly<Record<string, Readonly<Partial<Record<Time, number>>>>>
export type AlertSettings = ReturnType<typeof parseAlertFile>

export const shortestAfterMs = 60_000
const longestAfterMs = 7 * 24 * 3_600_000

const duration = (leastMs: number, words: string) =>
  z.string(`must be ${words}`).transform((value, context) => {
    const ms = parseDuration(value)
    if (ms !== null && ms >= leastMs && ms <= longestAfterMs) return ms
    context.addIssue(`must be ${words}, not "${value.slice(0, 40)}"`)
    return z.NEVER
  })
const names = oneOrMore(
  z.array(z.string().min(1, 'is empty'), 'must be a name, or a list of names').min(1, 'is empty'),
)
const secret = z.string().regex(/^(?:env:[A-Za-z_]\w*|file:\S.*)$/, {
  error: 'must be env:NAME or file:PATH: a secret does not stand in this file',
})
const receiver = receiverSchema(secret)
export const ruleSchema = z.strictObject(
  {
    to: names,
    kinds: names.optional(),
    streams: names.optional(),
    sources: names.optional(),
    after: duration(shortestAfterMs, 'a time from 1m to 7d').optional(),
    quiet: quietHours,
  },
  'must be a list of settings',
)
/** What tags stand for is said by the file of sources, which a rule of the console has no part in. */
const ruleOfFile = ruleSchema.extend({ tags: names.optional() })
const target = z.strictObject(
  Object.fromEntries(
    times.map((time) => [time, duration(10_000, 'a time from 10s to 7d').optional()]),
  ) as Record<Time, z.ZodOptional<ReturnType<typeof duration>>>,
  'must have times such as { read: 5m }',
)
const fileSettings = z.strictObject(
  {
    receivers: z.record(z.string(), receiver, 'must be a list of receivers').default({}),
    rules: z.array(ruleOfFile, 'must be a list of rules').default([]),
    targets: z.record(z.string(), target, 'must be a list of streams').default({}),
  },
  'must have receivers, rules or targets',
)
type FileSettings = z.output<typeof fileSettings>

const parts = { receivers: receiver, rules: ruleOfFile, targets: target }
const knownAt = ([part, inside]: readonly (string | number)[]): readonly string[] =>
  Object.keys((inside === undefined ? fileSettings : parts[part as keyof typeof parts]).shape)

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
export const isNameOfReceiver = (name: string): boolean =>
  /^[a-z][\w-]{0,39}$/i.test(name) && !reservedNames.includes(name)

export function parseAlertFile(
  file: string,
  bytes: Uint8Array,
  {
    kinds: known,
    streams: knownStreams,
    ...given
  }: Surroundings & { readonly kinds: Kinds; readonly onSecretFile?: (path: string) => void },
) {
  const read = parseYamlFile(file, bytes, { schema: fileSettings, knownAt })
  const { receivers = {}, rules = [], targets = {} } = read.value ?? {}
  const ways = new Map<string, Way>()
  for (const [name, one] of Object.entries(receivers)) {
    const complain = (setting: string | null, problem: string) =>
      read.complain(['receivers', name, ...(setting === null ? [] : [setting])], problem)
    if (!isNameOfReceiver(name))
      complain(null, `must be a name of letters and digits, and none of ${reservedNames.join(', ')}`)
    const { environment, onSecretFile } = given
    const secretOf =
      environment &&
      ((setting: string, place: string) =>
        secretAt(place, environment, (problem) => complain(setting, problem), onSecretFile))
    const way = wayOf(one, { ...given, complain, secretOf })
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
  const meant = rules.map(
    (one, index): Rule => ({
      ...ruleOf(one, known),
      streams: placed[index]?.streams ?? null,
      sources: placed[index]?.sources ?? null,
    }),
  )
  // What is allowed, and hardly meant.
  const remarks = remarksOn(file, read, meant)
  return { receivers: ways, rules: meant, targets: targets as Targets, remarks }
}

export const ruleOf = (
  { to, kinds, streams, sources, after = shortestAfterMs, quiet }: z.output<typeof ruleSchema>,
  known: Kinds,
): Rule => ({
  to,
  streams: streams?.flatMap(placeIn(sources)) ?? null,
  sources: sources ?? null,
  quiet,
  afterMs: after,
  kinds: kinds?.flatMap((word) => known[word] ?? []) ?? null,
})

type Names = readonly string[] | undefined
type Placed = Pick<Rule, 'streams' | 'sources'> & {
  /** What it names, and what there is. */
  readonly words: readonly (readonly [
    setting: string,
    words: readonly string[],
    allowed: readonly string[],
    what: string,
  ])[]
}

/** With sources, a name without one is that of a stream in each of them. */
const placeIn =
  (sources: Names | null) =>
  (name: string): readonly string[] =>
    !sources || sourceIn(name) !== '' ? [name] : sources.map((source) => keyOf(source, name))

const keyOf = (source: string, stream: string): string =>
  keyIn(source === environmentSource ? '' : source, stream)

/** Which streams and sources a rule is about. `known` is null: the file of sources cannot be read, and then rather too much is told. */
function placedIn(
  { streams, sources, tags }: { readonly streams?: Names; readonly sources?: Names; readonly tags?: Names },
  streamsOfFirst: readonly string[],
  known: ReadonlyMap<string, KnownSource> | null,
): Placed {
  if (known === null)
    return {
      streams: sources || tags ? null : (streams ?? null),
      sources: tags ? null : (sources ?? null),
      words: [],
    }
  const streamsOf = (source: string) =>
    source === environmentSource ? streamsOfFirst : (known.get(source)?.streams ?? [])
  const keysOf = (source: string) => streamsOf(source).map((name) => keyOf(source, name))
  const names = [environmentSource, ...known.keys()]
  const tagged = [...known].flatMap(([name, one]) =>
    one.tags.some((tag) => tags?.includes(tag)) ? name : [],
  )
  const meant = sources || tags ? [...new Set([...(sources ?? []), ...tagged])] : null
  const inEach = new Set(meant?.flatMap(streamsOf))
  const allowed = meant === null ? names.flatMap(keysOf) : [...inEach, ...meant.flatMap(keysOf)]
  return {
    streams: streams?.flatMap(placeIn(meant)) ?? null,
    sources: meant,
    words: [
      ['streams', streams ?? [], allowed, 'stream'],
      ['sources', sources ?? [], names, 'source'],
      ['tags', tags ?? [], [...known.values()].flatMap((one) => one.tags), 'tag'],
    ],
  }
}

/** What `env:NAME` or `file:PATH` stands for; null: it cannot be had, which was told. It is cut from all output from now on (P9). */
function secretAt(
  place: string,
  environment: Environment,
  complain: (problem: string) => void,
  onSecretFile: (path: string) => void = () => {},
): string | null {
  const [kind, name] = [place.slice(0, place.indexOf(':')), place.slice(place.indexOf(':') + 1)]
  if (kind === 'file') onSecretFile(name)
  try {
    const value = (kind === 'env' ? environment[name]?.trim() : readSecretFile(name)) || null
    if (value === null) complain(`names ${name}, which is ${kind === 'env' ? 'not set' : 'empty'}`)
    else keepSecret(value)
    return value
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code ?? messageOf(cause)
    complain(`names ${name}, which cannot be read (${why})`)
    return null
  }
}

/** For the terminal. */
export function readSecretPlace(environment: Environment, option: string, place: string): string {
  if (!secret.safeParse(place).success)
    throw new UsageError(`${option} takes env:NAME or file:PATH: a secret does not stand in a command.`)
  const problems: string[] = []
  const value = secretAt(place, environment, (problem) => problems.push(problem))
  if (value === null) throw new UsageError(`${option} ${problems.join(' ')}.`)
  return value
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
    holds(one.kinds, other.kinds) &&
    holds(one.streams, other.streams) &&
    holds(one.sources, other.sources)
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

/** Null: all. */
const holds = (one: Rule['sources'], other: Rule['sources']): boolean =>
  !one || other?.every((word) => one.includes(word)) === true

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
