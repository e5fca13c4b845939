// What of a stream's symptoms needs a person, and the command for it. Text of the upstream stands in `what` only.

import type { StreamSymptoms } from '../store/queries/symptoms.ts'
import { count, formatDuration, plural } from '../util/text.ts'

// What needs a person, as data: its kinds, and what each tells.
export const problemKinds = [
  'part_down',
  'service_down',
  'token_refused',
  'stopped',
  'hidden',
  'failing',
  'stale',
  'deletions_blocked',
  'quarantine',
  'missed_rows',
  'belief_changed',
  'schema_drift',
] as const
export type ProblemKind = (typeof problemKinds)[number]

/** What happened, rather than what lasts: worth knowing, and over by itself. */
export const isNews = (kind: string): boolean => kind === 'belief_changed' || kind === 'schema_drift'

export type Problem = {
  /** The same as long as it is the same problem. */
  readonly key: string
  readonly kind: ProblemKind
  /** Null when it is not about one stream. */
  readonly stream: string | null
  readonly since: Date | null
  readonly what: string
  readonly whatToDo: string
}

/** What happened once is told for so long, and then forgotten by itself; all else lasts until something was done. */
export const eventsLastMs = 24 * 3_600_000

/** Whether a stream that is complete through a moment should have been read again by now. */
export type IsStale = (stream: string, readThroughAt: Date, now: Date) => boolean

const failuresThatCount = 3

export function failing({ stream, failing: kinds, stoppedReason }: StreamSymptoms): Problem[] {
  if (stoppedReason !== null) return []
  const lasting = kinds.filter(({ failures }) => failures >= failuresThatCount)
  const [worst] = lasting.toSorted((a, b) => b.failures - a.failures)
  if (!worst) return []
  const named = lasting.map(({ kind }) => kind).join(', ')
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

export function stale(
  { stream, readThroughAt, isPaused, hiddenSince, blockedDeletions: shortfall }: StreamSymptoms,
  isStale: IsStale,
  now: Date,
): Problem[] {
  if (readThroughAt === null || isPaused || !isStale(stream, readThroughAt, now)) return []
  // Told as what keeps it from being complete.
  if (hiddenSince !== null || (shortfall?.at && shortfall.at > readThroughAt)) return []
  return [
    {
      key: `stale:${stream}`,
      kind: 'stale',
      stream,
      since: readThroughAt,
      what: `${stream} is complete only through ${readThroughAt.toISOString()}, ${formatDuration(now.getTime() - readThroughAt.getTime())} ago`,
      whatToDo: `\`tidemark status ${stream}\` tells what its last run said; \`tidemark sync ${stream}\` reads it now`,
    },
  ]
}

const restoredReason = /^UPSTREAM_RESTORED: (.*?Nothing was changed\.) (.*)$/s

export function stopped({ stream, stoppedReason, stoppedAt }: StreamSymptoms): Problem[] {
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

const seeWhy = 'see that CLIENT_GUID is right, and what the user may read: `tidemark probe`'

export function hidden({ stream, hiddenSince, readThroughAt }: StreamSymptoms): Problem[] {
  if (hiddenSince === null) return []
  const through = readThroughAt === null ? '' : `; it is complete only through ${readThroughAt.toISOString()}`
  return [
    {
      key: `hidden:${stream}`,
      kind: 'hidden',
      stream,
      since: hiddenSince,
      what: `${stream}: the upstream shows no changes at all any more, although there are rows${through}`,
      whatToDo: `${seeWhy}; once it shows something again, the reading goes on by itself`,
    },
  ]
}

export function deletionsBlocked({ stream, blockedDeletions: shortfall }: StreamSymptoms): Problem[] {
  if (shortfall === null) return []
  const { missing, living, at } = shortfall
  const isKnown = missing !== null && living !== null
  const gone = `when they are gone indeed: \`tidemark reconcile --release ${stream}\``
  const release = missing === living ? `${seeWhy}; only ${gone}` : gone
  return [
    {
      key: `deletions_blocked:${stream}`,
      kind: 'deletions_blocked',
      stream,
      since: at,
      what: `${stream}: the list lacks ${isKnown ? `${count(missing)} of ${count(living)}` : 'an unknown number of'} rows, which is too many to believe; none was marked deleted`,
      whatToDo: isKnown ? release : `\`tidemark reconcile ${stream}\` tells how many; ${release}`,
    },
  ]
}

export function quarantined({ stream, quarantined: records, quarantinedSince }: StreamSymptoms): Problem[] {
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

export function rescued({ stream, missedRows, missedSince }: StreamSymptoms): Problem[] {
  if (missedRows === 0) return []
  return [
    {
      key: `missed_rows:${stream}`,
      kind: 'missed_rows',
      stream,
      since: missedSince,
      what: `${stream}: a reconcile found ${plural(missedRows, 'row')} that nothing else had brought; they are in the mirror now`,
      whatToDo: `when you have seen them: \`tidemark reconcile --acknowledge ${stream}\`; when it happens again, raise LOOKBACK`,
    },
  ]
}

// What the upstream changed: how it behaves, and what its records hold. These are events: nobody has to do anything for them to end.
const longestList = 5

export const flipped = ({ stream, flippedBeliefs }: StreamSymptoms): Problem[] =>
  flippedBeliefs.map(({ name, value, previousValue, evidence, changedAt }) => ({
    key: `belief_changed:${stream}:${name}:${value}`,
    kind: 'belief_changed',
    stream,
    since: changedAt,
    what: `${stream}: the upstream behaves differently: ${name} was ${previousValue} and is ${value} (${evidence})`,
    whatToDo: 'nothing: the reading adapts by itself. `tidemark probe` shows what the upstream is like now',
  }))

/** Fields that came within minutes of each other are told together. */
const driftGapMs = 10 * 60_000

export function drifted({ stream, drift }: StreamSymptoms): Problem[] {
  const groups: (typeof drift)[number][][] = []
  for (const change of drift.toSorted((a, b) => a.at.getTime() - b.at.getTime())) {
    const group = groups.at(-1)
    const last = group?.at(-1)
    if (group && last && change.at.getTime() - last.at.getTime() <= driftGapMs) group.push(change)
    else groups.push([change])
  }
  return groups.flatMap((group): Problem[] => {
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
