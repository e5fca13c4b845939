// What needs a person, as data: found in what the mirror knows and the worker sees, with what to do about it. Pure: time and
// thresholds come in. The commands are named here and nowhere else; text of the upstream stands in `what` only.

import { formatDuration } from './duration.ts'
import type { StreamSymptoms } from './mirror/symptoms.ts'
import type { ServiceName } from './streams.ts'

export const concernKinds = [
  'part_down',
  'service_down',
  'token_refused',
  'stopped',
  'failing',
  'stale',
  'held',
  'quarantine',
  'census_rescue',
  'fact_flipped',
  'schema_drift',
] as const
export type ConcernKind = (typeof concernKinds)[number]

/** What happened, rather than what lasts: worth knowing, and over by itself. */
export const isNews = (kind: string): boolean => kind === 'fact_flipped' || kind === 'schema_drift'

export type Concern = {
  /** The same as long as it is the same concern. */
  readonly key: string
  readonly kind: ConcernKind
  /** Null when it is not about one stream. */
  readonly stream: string | null
  readonly since: Date | null
  readonly what: string
  readonly whatToDo: string
}

/** What happened once is told for so long, and then forgotten by itself; all else lasts until something was done. */
export const eventsLastMs = 24 * 3_600_000

export type WorkerView = {
  readonly partsDown: readonly { readonly name: string; readonly since: Date }[]
  readonly servicesDown: readonly string[]
}
export type ConcernRules = {
  readonly serviceOf: (stream: string) => ServiceName
  /** Whether a stream that is complete through a moment should have been read again by now. */
  readonly isStale: (stream: string, completeAt: Date, now: Date) => boolean
}
type Given = {
  readonly symptoms: readonly StreamSymptoms[]
  readonly view: WorkerView
  readonly rules: ConcernRules
  readonly now: Date
}

const failuresThatCount = 3
const refusalsThatCount = 2
const refusals: readonly (string | null)[] = [
  'UPSTREAM_SIGN_IN',
  'UPSTREAM_UNAUTHORIZED',
  'UPSTREAM_TOKEN_REPEATED',
]
const longestList = 5

export function findConcerns({ symptoms, view, rules, now }: Given): readonly Concern[] {
  const refused = refusedServices(symptoms, rules)
  const isTroubled = (service: string) => refused.has(service) || view.servicesDown.includes(service)
  return [
    ...view.partsDown.map(partDown),
    ...view.servicesDown.filter((service) => !refused.has(service)).map(serviceDown),
    ...[...refused].map(tokenRefused),
    ...symptoms.flatMap((one) => [
      ...stopped(one),
      // A cause is told instead of its effects.
      ...(isTroubled(rules.serviceOf(one.stream)) ? [] : [...failing(one), ...stale(one, rules, now)]),
      ...held(one),
      ...quarantined(one),
      ...rescued(one),
      ...flipped(one),
      ...drifted(one),
    ]),
  ]
}

const partDown = ({ name, since }: WorkerView['partsDown'][number]): Concern => ({
  key: `part_down:${name}`,
  kind: 'part_down',
  stream: null,
  since,
  what: `the ${name} does not answer: runs wait until it does`,
  whatToDo: 'see that it runs and can be reached: `tidemark probe`',
})

const serviceDown = (service: string): Concern => ({
  key: `service_down:${service}`,
  kind: 'service_down',
  stream: null,
  since: null,
  what: `the ${service} service of the upstream does not answer as it should; it is tried again by itself`,
  whatToDo: 'when it lasts, find out what it says: `tidemark probe`',
})

type Refusal = Pick<StreamSymptoms['failing'][number], 'since' | 'error'>

function refusedServices(
  symptoms: readonly StreamSymptoms[],
  { serviceOf }: ConcernRules,
): ReadonlyMap<string, Refusal> {
  const services = new Map<string, Refusal>()
  // A lane that is read once a day may have been refused last, and would be let in by now.
  const wasLetIn = (service: string, after: Date) =>
    symptoms.some(
      (one) => serviceOf(one.stream) === service && one.lastSuccessAt && one.lastSuccessAt > after,
    )
  for (const { stream, failing: lanes } of symptoms)
    for (const { failures, code, since, lastAt, error } of lanes) {
      const service = serviceOf(stream)
      if (failures < refusalsThatCount || !refusals.includes(code) || wasLetIn(service, lastAt)) continue
      const known = services.get(service)
      if (!known || since < known.since) services.set(service, { since, error })
    }
  return services
}

const tokenRefused = ([service, { since, error }]: readonly [string, Refusal]): Concern => ({
  key: `token_refused:${service}`,
  kind: 'token_refused',
  stream: null,
  since,
  what: `the sign-in of the ${service} service is refused, and nothing of it is read: ${error ?? 'no reason was noted'}`,
  whatToDo:
    service === 'tracking'
      ? 'check TRACKING_SUBJECT_ID and TRACKING_API_KEY (SUBJECT_ID and API_KEY when they are not set), then `tidemark probe`'
      : 'check SUBJECT_ID, API_KEY and CLIENT_GUID, then `tidemark probe`',
})

function failing({ stream, failing: lanes, stoppedReason }: StreamSymptoms): Concern[] {
  if (stoppedReason !== null) return []
  const lasting = lanes.filter(({ failures }) => failures >= failuresThatCount)
  const [worst] = lasting.toSorted((a, b) => b.failures - a.failures)
  if (!worst) return []
  const named = lasting.map(({ lane }) => lane).join(', ')
  return [
    {
      key: `failing:${stream}`,
      kind: 'failing',
      stream,
      since: worst.since,
      what: `${stream}: ${worst.failures} runs in a row failed (${named}): ${worst.error ?? 'no reason was noted'}`,
      whatToDo: `do what the error says; \`tidemark status ${stream}\` shows the last run, \`tidemark probe\` looks for causes`,
    },
  ]
}

function stale({ stream, completeAt, isPaused }: StreamSymptoms, rules: ConcernRules, now: Date): Concern[] {
  if (completeAt === null || isPaused || !rules.isStale(stream, completeAt, now)) return []
  return [
    {
      key: `stale:${stream}`,
      kind: 'stale',
      stream,
      since: completeAt,
      what: `${stream} is complete only through ${completeAt.toISOString()}, ${formatDuration(now.getTime() - completeAt.getTime())} ago`,
      whatToDo: `\`tidemark status ${stream}\` tells what its last run said; \`tidemark sync ${stream}\` reads it now`,
    },
  ]
}

const restoredReason = /^UPSTREAM_REWOUND: (.*?Nothing was changed\.) (.*)$/s

function stopped({ stream, stoppedReason, stoppedAt }: StreamSymptoms): Concern[] {
  if (stoppedReason === null) return []
  const [, what = stoppedReason, whatToDo] = restoredReason.exec(stoppedReason) ?? []
  return [
    {
      key: `stopped:${stream}`,
      kind: 'stopped',
      stream,
      since: stoppedAt,
      what: `${stream} is stopped: ${what}`,
      whatToDo:
        whatToDo ??
        `when the reason is gone: \`tidemark rewind ${stream} --to-version N --reason TEXT\` starts it again`,
    },
  ]
}

function held({ stream, held: shortfall }: StreamSymptoms): Concern[] {
  if (shortfall === null) return []
  const { missing, living, at } = shortfall
  return [
    {
      key: `held:${stream}`,
      kind: 'held',
      stream,
      since: at,
      what: `${stream}: the list lacks ${count(missing)} of ${count(living)} rows, which is too many to believe; none was marked deleted`,
      whatToDo: `when they are gone indeed: \`tidemark census --release ${stream}\``,
    },
  ]
}

function quarantined({ stream, quarantined: records, quarantinedSince }: StreamSymptoms): Concern[] {
  if (records === 0) return []
  return [
    {
      key: `quarantine:${stream}`,
      kind: 'quarantine',
      stream,
      since: quarantinedSince,
      what: `${stream}: ${plural(records, 'record')} cannot be rows and ${records === 1 ? 'is' : 'are'} in quarantine`,
      whatToDo: `\`tidemark quarantine list ${stream}\` tells why; then \`tidemark quarantine retry ${stream}\`, or drop them with a reason`,
    },
  ]
}

function rescued({ stream, censusRescues, rescuedSince }: StreamSymptoms): Concern[] {
  if (censusRescues === 0) return []
  return [
    {
      key: `census_rescue:${stream}`,
      kind: 'census_rescue',
      stream,
      since: rescuedSince,
      what: `${stream}: a census found ${plural(censusRescues, 'row')} that nothing else had brought; they are in the mirror now`,
      whatToDo: `when you have seen them: \`tidemark census --acknowledge ${stream}\`; when it happens again, raise LOOKBACK`,
    },
  ]
}

const flipped = ({ stream, flippedFacts }: StreamSymptoms): Concern[] =>
  flippedFacts.map(({ name, value, previousValue, evidence, changedAt }) => ({
    key: `fact_flipped:${stream}:${name}:${value}`,
    kind: 'fact_flipped',
    stream,
    since: changedAt,
    what: `${stream}: the upstream behaves differently: ${name} was ${previousValue} and is ${value} (${evidence})`,
    whatToDo: 'nothing: the reading adapts by itself. `tidemark probe` shows what the upstream is like now',
  }))

/** Fields that came within minutes of each other are told together. */
const driftGapMs = 10 * 60_000

function drifted({ stream, drift }: StreamSymptoms): Concern[] {
  const groups: (typeof drift)[number][][] = []
  for (const change of drift.toSorted((a, b) => a.at.getTime() - b.at.getTime())) {
    const group = groups.at(-1)
    const last = group?.at(-1)
    if (group && last && change.at.getTime() - last.at.getTime() <= driftGapMs) group.push(change)
    else groups.push([change])
  }
  return groups.flatMap((group): Concern[] => {
    const [first] = group
    if (!first) return []
    const named = group.slice(0, longestList).map(({ field, change }) => `${field} (${change})`)
    const more = group.length > longestList ? ` and ${count(group.length - longestList)} more` : ''
    return [
      {
        key: `schema_drift:${stream}:${first.at.toISOString()}`,
        kind: 'schema_drift',
        stream,
        since: first.at,
        what: `${stream}: ${plural(group.length, 'field')} changed: ${named.join(', ')}${more}`,
        whatToDo: `see whether reports need them: \`tidemark schema ${stream}\``,
      },
    ]
  })
}

const count = (number: number): string => number.toLocaleString('en')
const plural = (number: number, noun: string): string => `${count(number)} ${noun}${number === 1 ? '' : 's'}`
