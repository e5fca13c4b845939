// Finds what needs a person in what Postgres knows and the worker sees. A cause is shown instead of its effects.

import { type DynamicValues, scheduleOf } from '../config/dynamic-settings.ts'
import type { Config } from '../config/load.ts'
import { isStale } from '../config/parsers.ts'
import { readDescriptionChanges, readUnusableDescriptions } from '../openapi/stored.ts'
import { type Notice, readNotices, readProblemsOfNamed } from '../store/book/problems.ts'
import { readSymptoms, type StreamSymptoms } from '../store/book/symptoms.ts'
import type { Stream } from '../streams/catalog.ts'
import { besideIn, sourceIn } from '../streams/names.ts'
import { capitalized, sentence } from '../util/text.ts'
import { type Part, titleOf } from './parts.ts'
import { targetsOf } from './receivers.ts'
import {
  accessLost,
  deletionsBlocked,
  deletionsFrozen,
  eventsLastMs,
  failing,
  type IsStale,
  inconclusive,
  missedRows,
  type Problem,
  type ProblemKind,
  problemOf,
  quarantined,
  sourceOfProblem,
  stale,
  stuck,
} from './stream-problems.ts'
import { targetsMissed } from './targets.ts'
import { type DescriptionSymptoms, descriptionProblems, whatChanged } from './upstream-changes.ts'

/** What a worker sees of the parts that its work depends on. */
export type WorkerView = { readonly parts: readonly Part[] }
export type ProblemRules = {
  /** Each source has services of its own. */
  readonly serviceOf: (stream: string) => string
  readonly isStale: IsStale
  /** DELETIONS_FROZEN_AFTER. */
  readonly frozenAfterMs: (stream: string) => number
  /** Left out: there are no targets. */
  readonly targetOf?: (stream: string) => Parameters<typeof targetsMissed>[1]
}
type Given = {
  readonly symptoms: readonly StreamSymptoms[]
  readonly view: WorkerView
  readonly rules: ProblemRules
  readonly descriptions?: DescriptionSymptoms
  /** Problems that were noted when somebody met them. */
  readonly notices?: readonly Notice[]
  readonly now: Date
}

/** What the last run of a service failed with, and how many failures in a row say that of the whole service. */
type ServiceFault = { readonly codes: readonly (string | null)[]; readonly failuresThatCount: number }
const refusal: ServiceFault = {
  codes: ['UPSTREAM_SIGN_IN', 'UPSTREAM_UNAUTHORIZED', 'UPSTREAM_TOKEN_REPEATED'],
  failuresThatCount: 2,
}
const signInAsksLater = 'UPSTREAM_SIGN_IN_ASKS_LATER'
const longWait: ServiceFault = { codes: ['UPSTREAM_ASKS_LATER', signInAsksLater], failuresThatCount: 1 }

export function findProblems(given: Given): readonly Problem[] {
  const { symptoms, view, rules, descriptions, notices = [], now } = given
  const byService = Map.groupBy(symptoms, ({ stream }) => rules.serviceOf(stream))
  const letInAt = new Map([...byService].map(([service, some]) => [service, lastSuccessOf(some)]))
  const refused = servicesWith(refusal, symptoms, rules, letInAt)
  const toldToWait = servicesWith(longWait, symptoms, rules, letInAt)
  const hasCause = (service: string) => refused.has(service) || toldToWait.has(service)
  const allDown = partsDown(view.parts)
  const down = allDown.filter(isService)
  const namesDown = new Set(down.map(({ name }) => name))
  const isDown = (service: string) => hasCause(service) || namesDown.has(service)
  const ofServices = [
    ...down
      .filter(({ name }) => !hasCause(name))
      .map((service) => serviceDown(service, byService.get(service.name) ?? [], now)),
    ...[...refused].map(tokenRefused),
    ...[...toldToWait].filter(([service]) => !refused.has(service)).map(longWaitAsked),
  ]
  const hiddenBy = ({ key, kind }: Problem) => {
    const streams = byService.get(key.slice(kind.length + 1)) ?? []
    return streams.flatMap(({ stream }) => [`failing:${stream}`, `stale:${stream}`])
  }
  return [
    ...allDown.filter(isNoService).map(partDown),
    ...ofServices.map((one) => ({ ...one, hides: hiddenBy(one) })),
    ...notices.flatMap(noticeProblem),
    ...symptoms.flatMap((one) =>
      [
        isDown(rules.serviceOf(one.stream)) ? null : [failing(one), stale(one, rules.isStale, now)],
        rules.targetOf ? targetsMissed(one, rules.targetOf(one.stream), now) : null,
        accessLost(one),
        inconclusive(one),
        stuck(one),
        deletionsBlocked(one),
        deletionsFrozen(one, rules.frozenAfterMs(one.stream)),
        quarantined(one),
        missedRows(one),
        whatChanged(one),
      ]
        .flat()
        .filter((problem) => problem !== null),
    ),
    ...(descriptions ? descriptionProblems(descriptions) : []),
  ]
}

/** All that is known without Postgres. */
export const problemsOfParts = ({ parts }: WorkerView, now: Date): readonly Problem[] => [
  ...partsDown(parts).filter(isNoService).map(partDown),
  ...partsDown(parts)
    .filter(isService)
    .map((service) => serviceDown(service, [], now)),
]

/** A service of which nothing is known yet is not called down. */
export const partsDown = (parts: readonly Part[]): readonly Part[] =>
  parts.filter((part) => (isService(part) ? part.state === 'down' : !part.isUp && !part.isStarting))

const isService = ({ kind }: Part): boolean => kind === 'service'
const isNoService = (part: Part): boolean => !isService(part)

const partDown = (part: Part): Problem => {
  const title = titleOf(part)
  const effect =
    part.kind === 'receiver'
      ? 'Whoever it tells does not hear of problems until it works.'
      : `No stream is read until ${title} works.`
  return problemOf('part_down', null, part.name, {
    since: part.since,
    what: `${capitalized(title)} does not work: ${part.reason ?? ''} ${effect}`,
    whatToDo: part.whatToDo ?? '',
  })
}

/** Mostly an outage ends by itself. One that lasts longer needs a person who asks the service's owner, and so does one of a service that never worked. */
const outageMs = 60 * 60_000

function serviceDown(part: Part, symptoms: readonly StreamSymptoms[], now: Date): Problem {
  const since = downSince(symptoms)
  const service = part.name
  const hasNeverWorked = symptoms.length > 0 && symptoms.every(({ lastSuccessAt }) => lastSuccessAt === null)
  const isLong = hasNeverWorked || (since !== null && now.getTime() - since.getTime() > outageMs)
  return problemOf('service_down', null, service, {
    since,
    isLong,
    size: isLong ? 2 : 1,
    seen: part.reason,
    what: `The ${service} service of the upstream does not work. Tidemark keeps trying; until it works again, the rows of its streams get older.`,
    whatToDo: hasNeverWorked
      ? 'None of its streams was ever read. See what the service answers, and check its base URL: `tidemark probe`.'
      : isLong
        ? 'See what the service answers, and tell the operator of the upstream: `tidemark probe`.'
        : 'If it takes long, see what the service answers: `tidemark probe`.',
  })
}

/** Since when the service is down, by its streams. A stream that has failed for longer has another trouble. */
function downSince(symptoms: readonly StreamSymptoms[]): Date | null {
  const worked = lastSuccessOf(symptoms)
  const failed = ascending(symptoms.flatMap(({ failing }) => failing.map(({ since }) => since)))
  return failed.find((since) => worked === null || since > worked) ?? worked
}

const ascending = (moments: readonly Date[]): readonly Date[] =>
  moments.toSorted((a, b) => a.getTime() - b.getTime())

const lastSuccessOf = (symptoms: readonly StreamSymptoms[]): Date | null =>
  ascending(symptoms.flatMap(({ lastSuccessAt }) => lastSuccessAt ?? [])).at(-1) ?? null

type LastFailure = Pick<StreamSymptoms['failing'][number], 'since' | 'error' | 'code'>

/** `letInAt`: when a run of each service succeeded last. */
function servicesWith(
  fault: ServiceFault,
  symptoms: readonly StreamSymptoms[],
  { serviceOf }: ProblemRules,
  letInAt: ReadonlyMap<string, Date | null>,
): ReadonlyMap<string, LastFailure> {
  const services = new Map<string, LastFailure>()
  for (const { stream, failing: kinds } of symptoms)
    for (const { failures, code, since, lastAt, error } of kinds) {
      const service = serviceOf(stream)
      if (failures < fault.failuresThatCount || !fault.codes.includes(code)) continue
      // The last run of a kind that comes once a day may have been refused, although it would be let in by now: ask other kinds, too.
      const lastSuccessAt = letInAt.get(service)
      if (lastSuccessAt && lastSuccessAt > lastAt) continue
      const known = services.get(service)
      if (!known || since < known.since) services.set(service, { since, error, code })
    }
  return services
}

const longWaitAsked = ([service, { since, error, code }]: readonly [string, LastFailure]): Problem =>
  problemOf('told_to_wait', null, service, {
    since,
    what: `${code === signInAsksLater ? `The identity provider of the ${service} service` : `The ${service} service`} asks to be left alone for longer than an hour, so none of its streams is read. Tidemark tries once an hour. The last error: ${sentence(error ?? 'it was not recorded')}`,
    whatToDo:
      'Ask the operator of the upstream whether this is meant and how it ends: `tidemark probe` shows the answer now. When it is over, Tidemark goes on by itself at its next try, an hour at most after the last one; a restart does not shorten that where the pause is kept for all workers.',
  })

const tokenRefused = ([service, { since, error }]: readonly [string, LastFailure]): Problem =>
  problemOf('token_refused', null, service, {
    since,
    what: `The sign-in to the ${service} service is refused, so none of its streams is read. The last error: ${sentence(error ?? 'it was not recorded')}`,
    whatToDo:
      sourceIn(service) !== ''
        ? `Check subject_id, api_key and client_guid of this source in the file that SOURCES_FILE names, and the secret itself. Then \`tidemark sources check ${sourceIn(service)}\`.`
        : service === 'tracking'
          ? 'Check TRACKING_SUBJECT_ID and TRACKING_API_KEY (SUBJECT_ID and API_KEY when they are not set). Then `tidemark probe`.'
          : 'Check SUBJECT_ID, API_KEY and CLIENT_GUID. Then `tidemark probe`.',
  })

// Brings together what Postgres knows, what the worker sees and what the configuration calls too long.
type Options = {
  readonly pool: Parameters<typeof readSymptoms>[0]
  readonly streams: readonly Stream[]
  readonly config: Pick<Config, 'dynamic' | 'alertFile'>
  /** Of the source of a stream; left out: they are those of `config`. */
  readonly settingsOf?: (stream: string) => DynamicValues
  readonly view: WorkerView
  readonly now: Date
}

const mostChanges = 1_000

export async function readProblems({ pool, view, now, ...configured }: Options): Promise<readonly Problem[]> {
  const names = configured.streams.map(({ name }) => name)
  return findProblems({
    symptoms: await readSymptoms(pool, names, eventsLastMs),
    descriptions: {
      changes: await readDescriptionChanges(pool, { limit: mostChanges, withinMs: eventsLastMs }),
      unusable: await readUnusableDescriptions(pool),
    },
    view,
    rules: problemRules(configured),
    notices: await readNotices(pool),
    now,
  })
}

/** As the settings of each stream are at the moment. */
export function problemRules(options: Pick<Options, 'streams' | 'config' | 'settingsOf'>): ProblemRules {
  const { streams, config, settingsOf = () => config.dynamic.now() } = options
  const byName = new Map(streams.map((stream) => [stream.name, stream]))
  const targets = targetsOf(config)
  return {
    serviceOf: (name) => besideIn(name, byName.get(name)?.service ?? 'assignment'),
    isStale(name, readThroughAt, at) {
      const stream = byName.get(name)
      const settings = settingsOf(name)
      return (
        stream !== undefined &&
        isStale(scheduleOf(settings, stream), settings.staleAfterMs, readThroughAt, at)
      )
    },
    frozenAfterMs: (name) => settingsOf(name).deletionsFrozenAfterMs,
    targetOf: (name) => ({ kind: byName.get(name)?.kind, targets }),
  }
}

/** Of the sources that have names, as the workers saw them last: for programs that know the settings of one source only. */
export async function readProblemsElsewhere(
  pool: Parameters<typeof readProblemsOfNamed>[0],
  now: Date,
): Promise<readonly Problem[]> {
  return (await readProblemsOfNamed(pool)).map(({ key, kind, stream, what, since }) => {
    const isLong = since !== null && now.getTime() - since.getTime() > outageMs
    const source = sourceOfProblem({ key, kind, stream })
    const whatToDo = `\`tidemark status --source ${source}\` says what to do.`
    const words = { since, what, isLong, whatToDo }
    return problemOf(kind as ProblemKind, stream, key.slice(kind.length + 1), words)
  })
}

const noticed = {
  webhooks:
    'See what the upstream wants: `tidemark webhooks definitions` and `tidemark webhooks list`. Then subscribe by hand, or unset PUBLIC_URL.',
  source_stopped:
    'Mend its settings in the file that SOURCES_FILE names, or its secret: `tidemark sources check` tries each source. It is tried again every half minute.',
  sources_file:
    'Mend the file that SOURCES_FILE names: `tidemark sources apply --dry-run` shows every mistake. It is taken up within seconds.',
  dictionary:
    'Mend the file that DICTIONARY names: `tidemark schema --check` shows every mistake. It is taken up within seconds.',
  related_off:
    'Ask the operator of the upstream to switch extended reads on: `tidemark probe` shows when they answer. Or remove RELATED.',
  private_fields:
    'See what waits, and what would be cleared: `tidemark privacy`. Then `tidemark privacy <stream> --apply --reason TEXT`. Or give this program the dictionary and the MASK_KEY that are in force.',
} as const satisfies Partial<Record<ProblemKind, string>>

function noticeProblem({ key, since, what }: Notice): Problem[] {
  const [kind = '', subject = ''] = key.split(':')
  const known = Object.keys(noticed).find((one): one is keyof typeof noticed => one === kind)
  if (known === undefined) return []
  const stream = known === 'private_fields' ? subject : null
  return [problemOf(known, stream, subject, { since, what, whatToDo: noticed[known] })]
}
