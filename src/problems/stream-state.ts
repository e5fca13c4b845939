// In which state a stream is, in a few words: the same on pages, in the terminal and in the history of minutes. Pure.

import type { SourceLine } from '../store/book/source-config.ts'
import type { Unexplained } from '../store/book/symptoms.ts'
import type { NotedState, StreamStanding } from '../store/book/watch.ts'
import type { ServiceName } from '../streams/catalog.ts'
import { besideIn, environmentSource } from '../streams/names.ts'
import { capitalized, count } from '../util/text.ts'
import { byCause } from './one-cause.ts'
import { isNews, type Problem, type ProblemKind, sourceOfProblem } from './stream-problems.ts'

/** Who does something about a problem: a person, Tidemark itself, or nobody, because it only has to be known. */
export type Care = 'needs you' | 'heals' | 'news'
export const careOf = ({ kind, isLong = false }: Pick<Problem, 'kind' | 'isLong'>): Care =>
  kind === 'service_down' && !isLong ? 'heals' : isNews(kind) ? 'news' : 'needs you'

/** `ok`: up to date. `busy`: loading. `warn`: gets better by itself. `bad`: needs a person. */
export type Tone = 'ok' | 'busy' | 'idle' | 'todo' | 'warn' | 'bad'
export type StreamState = {
  readonly tone: Tone
  readonly words: string
  /** What `tidemark.freshness` calls it, for reports. */
  readonly state: NotedState
  /** What is wrong. */
  readonly reason: string | null
}

type Standing = Omit<StreamState, 'reason'>

const paused = { tone: 'idle', words: 'paused', state: 'paused' } as const

/** Which state a problem puts a stream into, the worst first. While deletions wait for a person, changes go on coming. */
const byProblem: readonly (readonly [kind: ProblemKind, Standing])[] = [
  ['access_lost', { tone: 'bad', words: 'access lost', state: 'stopped' }],
  ['deletions_blocked', { tone: 'bad', words: 'deletions blocked', state: 'live' }],
  ['deletions_frozen', { tone: 'bad', words: 'deletions frozen', state: 'live' }],
  ['token_refused', { tone: 'bad', words: 'sign-in refused', state: 'stopped' }],
  ['told_to_wait', { tone: 'bad', words: 'told to wait', state: 'stopped' }],
  ['service_down', { tone: 'warn', words: 'behind, retrying', state: 'behind' }],
  ['failing', { tone: 'bad', words: 'runs fail', state: 'behind' }],
  ['stuck', { tone: 'bad', words: 'makes no progress', state: 'behind' }],
  ['inconclusive', { tone: 'bad', words: 'makes no progress', state: 'behind' }],
  ['stale', { tone: 'warn', words: 'behind', state: 'behind' }],
]

/** The first one of each key, for the states of many streams. */
export type ProblemsByKey = ReadonlyMap<string, Problem>
export const problemsByKey = (problems: readonly Problem[]): ProblemsByKey =>
  new Map(problems.toReversed().map((one) => [one.key, one]))

export function stateOfStream(
  { stream, paused: pause, readThroughAt, running, unexplained = null, ...before }: StreamStanding,
  service: ServiceName,
  problems: ProblemsByKey,
): StreamState {
  if (pause !== null) return { ...paused, reason: null }
  const isLoaded = readThroughAt !== null
  const met = byProblem.flatMap(([kind, standing]) => {
    const ofService = problems.get(`${kind}:${besideIn(stream, service)}`)
    // A service may have the name of a stream, whose problems are not those of its other streams.
    const cause = problems.get(`${kind}:${stream}`) ?? (ofService?.stream === null ? ofService : undefined)
    return cause ? [{ ...standing, reason: cause.what }] : []
  })
  const [worst] = met
  if (worst) {
    // Nobody is told that changes come while something else keeps them away.
    const { state: worse } = met.find((one) => one.state !== 'live') ?? worst
    return { ...worst, state: isLoaded || worse === 'stopped' ? worse : 'loading' }
  }
  const reason = unexplained && unexplainedInWords(unexplained)
  if (isLoaded) return { tone: 'ok', words: 'up to date', state: 'live', reason }
  const isAgain = wasRead(before)
  return isReadWhole({ readThroughAt, running })
    ? { tone: 'busy', words: isAgain ? 'reading again' : 'first load', state: 'loading', reason: null }
    : { tone: 'todo', words: isAgain ? 'to be read again' : 'not read yet', state: 'loading', reason: null }
}

/** Whether it was read before, although all of it may have to be read again: whole, or a part of it before that went back. */
const wasRead = (one: Pick<StreamStanding, 'firstReadThroughAt' | 'isReadAgain'>): boolean =>
  (one.firstReadThroughAt ?? null) !== null || one.isReadAgain === true

/** Whether a run goes on that reads it up to the end for the first time, or for the first time since its position was moved back. */
export const isReadWhole = (one: Pick<StreamStanding, 'readThroughAt' | 'running'>): boolean =>
  one.readThroughAt === null && one.running.some((kind) => kind === 'incremental' || kind === 'list')

type Waiting = Pick<Unexplained, 'differences'> & { readonly since: string | Date }

/** Why deletions are not known through a later time, although nothing is wrong with the stream. */
export function unexplainedInWords({ since, differences }: Waiting): string {
  const [many, are, until] =
    differences === 1
      ? ['One difference', 'is', 'it is']
      : [`${count(differences)} differences`, 'are', 'they are']
  return `${many} between the list of the upstream and the rows here ${are} being looked for since ${new Date(since).toISOString()}. Until ${until} explained, deletions are known only through an earlier time.`
}

const numbers = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']
const inWords = (amount: number): string => numbers[amount] ?? String(amount)
/** How everything stands in one line, for somebody who was woken at night: pages and terminal say the same. */
type Known = Pick<
  StreamStanding,
  'stream' | 'paused' | 'readThroughAt' | 'firstReadThroughAt' | 'isReadAgain'
>
export function verdictInWords(
  problems: readonly Problem[],
  streams: readonly Known[],
  sources: readonly SourceStanding[] = [],
): string {
  const causes = byCause(problems).flatMap(([first]) => first ?? [])
  const [needs, heals, news] = (['needs you', 'heals', 'news'] as const).map(
    (care) => causes.filter((one) => careOf(one) === care).length,
  )
  const parts = [
    needs && `${inWords(needs)} ${needs === 1 ? 'thing needs' : 'things need'} you`,
    heals && `${inWords(heals)} ${heals === 1 ? 'heals by itself' : 'heal by themselves'}`,
    news && `${inWords(news)} ${news === 1 ? 'change' : 'changes'} to know about`,
  ].filter(Boolean)
  if (parts.length > 0) return capitalized(parts.join(', '))
  if (hasNamed(sources)) return sourcesInWords(sources)
  if (streams.length === 0) return 'Nothing is mirrored yet'
  const paused = streams.filter((one) => one.paused !== null)
  if (paused.length === streams.length) return 'Every stream is paused'
  const unread = streams.filter(({ readThroughAt }) => readThroughAt === null)
  const loading = unread.filter((one) => !wasRead(one)).length
  if (loading > 0) return `First load: ${streams.length - loading} of ${streams.length} streams are complete`
  if (unread.length > 0) return readAgainInWords(unread.map(({ stream }) => stream))
  if (paused.length === 0) return 'Everything is up to date'
  return paused.length === 1
    ? `${paused[0]?.stream} is paused, everything else is up to date`
    : `${capitalized(inWords(paused.length))} streams are paused, everything else is up to date`
}

/** Their first load was complete once; then their position was moved back. */
const readAgainInWords = ([first, ...others]: readonly string[]): string =>
  others.length === 0
    ? `${first} is not read through again since its position was moved back`
    : `${capitalized(inWords(others.length + 1))} streams are not read through again since their positions were moved back`

export type SourceStanding = Pick<SourceLine, 'name' | 'state' | 'problems' | 'isGone' | 'streams'>

/** The source that the environment describes has no name of its own. */
export const sourceTitle = (name: string): string => (name === '' ? environmentSource : name)

export const hasNamed = (sources: readonly Pick<SourceStanding, 'name'>[]): boolean =>
  sources.some(({ name }) => name !== '')

/** Whether nothing of it waits for a person or for its upstream. */
export const isWell = ({ state, problems }: Pick<SourceStanding, 'state' | 'problems'>): boolean =>
  state !== 'stopped' && state !== 'behind' && problems === 0

/** With the problems that there are now, those that are not well first: what workers noted may be a minute old. */
export const withProblems = <One extends Pick<SourceStanding, 'name' | 'state'>>(
  sources: readonly One[],
  problems: readonly Problem[],
) => {
  const bySource = Map.groupBy(problems, sourceOfProblem)
  return sources
    .map((one) => ({ ...one, problems: bySource.get(one.name)?.length ?? 0 }))
    .toSorted((one, other) => Number(isWell(one)) - Number(isWell(other)))
}

/** The worst first, where no problem is known. Streams are paused by people, some or all of a source. */
function sourcesInWords(all: readonly SourceStanding[]): string {
  // One that the file named for a moment has nothing that could be up to date.
  const sources = all.filter(({ isGone, streams }) => !isGone || streams > 0)
  const among = (states: readonly SourceStanding['state'][]) =>
    sources.filter(({ state }) => states.includes(state))
  const [bad, loading, paused] = [among(['stopped', 'behind']), among(['loading', 'new']), among(['paused'])]
  const the = (some: readonly SourceStanding[]) =>
    some.length === 1 ? `the source ${sourceTitle(some[0]?.name ?? '')}` : `${inWords(some.length)} sources`
  const standing = (some: readonly SourceStanding[]) => {
    const states = new Set(some.map(({ state }) => (state === 'new' ? 'not read yet' : state)))
    const which =
      some.length === 1 ? `${the(some)} is` : `${inWords(some.length)} of ${sources.length} sources are`
    return capitalized(`${which} ${[...states].join(' or ')}`)
  }
  if (bad.length > 0) return standing(bad)
  // Of a source that is loading, some streams may be read again, and one that is paused may not have been read whole.
  if (loading.length > 0) return standing(loading)
  if (paused.length === 0) return `All ${sources.length} sources are up to date`
  return `Streams of ${the(paused)} are paused, all others are up to date`
}

/** The state as the history of minutes calls it. */
export const minuteStateOf = ({ tone }: Pick<StreamState, 'tone'>) => minuteStates[tone]
const minuteStates = {
  ok: 'up to date',
  busy: 'loading',
  todo: 'loading',
  idle: 'paused',
  warn: 'behind',
  bad: 'needs you',
} as const satisfies Readonly<Record<Tone, string>>
