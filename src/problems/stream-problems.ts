// The problems of a stream in words, each with the command that helps. Text of the upstream stands in `what` only.

import type { StreamSymptoms } from '../store/book/symptoms.ts'
import { sourceIn } from '../streams/names.ts'
import { count, formatDuration, plural, sentence, utcMinute } from '../util/text.ts'

/** What each kind means, for the manual, which has a runbook for each: docs/operations/<kind-with-dashes>.md. */
export const problemMeanings = {
  part_down:
    'no work goes through Postgres or the queue, so nothing is read; or the receiver of alerts takes no messages',
  service_down:
    'a service of the upstream does not answer or answers with errors; its streams wait until it works again',
  token_refused: 'the upstream refuses the sign-in, and nothing of that service is read',
  told_to_wait: 'the upstream asks to be left alone for longer than an hour; Tidemark tries once an hour',
  webhooks: 'the worker is not subscribed to the webhooks of the upstream, although PUBLIC_URL is set',
  related_off: 'the upstream has switched off extended reads, so related records cannot be read',
  private_fields:
    'the dictionary leaves out or masks other fields of a stream than are left out or masked here, or MASK_KEY is another one; the stream is not read',
  access_lost:
    'the upstream returns no records any more, although rows are stored here: CLIENT_GUID is wrong, or a permission was taken away',
  inconclusive:
    'the answers of three or more polls in a row lacked records that still exist upstream, so Tidemark does not trust them',
  stuck:
    'three or more runs in a row could not read everything, and the position did not move; or three or more reconciles could not list everything',
  failing: 'three or more runs of one kind failed in a row',
  stale: 'a stream should have been read STALE_AFTER ago by its own schedule, and was not',
  target_missed:
    'one of the three times of a stream is older than its target, which the file that ALERTS names or a setting TARGET_… sets',
  deletions_blocked:
    'so many rows disappeared at once that Tidemark marks none as deleted before an operator has decided',
  deletions_frozen:
    'an operator kept rows that the upstream no longer lists; until somebody looks again, no row is marked as deleted because its record is missing',
  quarantine: 'records of the upstream cannot be stored as rows; they are kept whole in quarantine',
  missed_rows: 'a reconcile found rows that the other runs should have brought; they are stored now',
  belief_changed: 'the upstream behaves differently than before; Tidemark has adapted',
  upstream_restored:
    'the upstream went back to an older state, as after a restored backup; Tidemark reads everything again',
  local_damage:
    'somebody changed, emptied, dropped or replaced a table of the mirror; Tidemark reads it again from the upstream',
  volatile_field:
    'a field of the upstream keeps changing without a new row version; Tidemark no longer compares it',
  schema_drift: 'a field of the upstream is new, outgrew its column, or has values that do not fit',
  contract_differs: 'records do not match the description of the upstream; Tidemark follows the records',
  contract_changed: 'the description of the upstream changed: fields, types, limits or operations',
  contract_unusable:
    'the description of the upstream cannot be used; types come from the data, and rows are read as usual',
  dictionary: 'the file that says what the data means has mistakes; what it said before holds',
  source_stopped:
    'one of several sources is not read: its settings cannot be used, a secret of it cannot be read, or its rows came from another upstream; the others are read',
  sources_file:
    'the file of sources has mistakes, or is older than one that was applied; what held before holds',
} as const satisfies Readonly<Record<string, string>>
export type ProblemKind = keyof typeof problemMeanings
export const problemKinds = Object.keys(problemMeanings) as readonly ProblemKind[]

const news =
  /^(?:belief_changed|upstream_restored|local_damage|volatile_field|schema_drift|contract_differs|contract_changed)$/

/** Kinds that are events: worth knowing, and over by themselves. All others last until something is done. */
export const isNews = (kind: string): boolean => news.test(kind)

export const runbookOf = (kind: string): string => `docs/operations/${kind.replaceAll('_', '-')}.md`

export type Problem = {
  /** The same as long as it is the same problem. */
  readonly key: string
  readonly kind: ProblemKind
  /** Null when it is not about one stream. */
  readonly stream: string | null
  readonly since: Date | null
  /** It lasts longer than what usually gets better by itself. */
  readonly isLong?: boolean
  /** No alert is sent before this time, because people know of it. */
  readonly quietUntil?: Date | null
  /** How many rows or records it is about; an acknowledged one that doubles is told again. */
  readonly size?: number | null
  /** The keys of problems that this one is shown instead of. They may last, so nobody is told that they are over. */
  readonly hides?: readonly string[]
  /** What happened, and what it means for the rows. */
  readonly what: string
  /** What a service that does not work was seen to answer: for people who may see text of the upstream. */
  readonly seen?: string | null
  /** With commands between backticks. */
  readonly whatToDo: string
  /** The page that explains it. */
  readonly runbook: string
}

type Words = Omit<Problem, 'key' | 'kind' | 'stream' | 'runbook'>

/** `subject` distinguishes it from others of its kind. */
export const problemOf = (
  kind: ProblemKind,
  stream: string | null,
  subject: string,
  words: Words,
): Problem => ({
  key: `${kind}:${subject}`,
  kind,
  stream,
  ...words,
  runbook: runbookOf(kind),
})

/** The source that it is of; null: what it is about serves all. */
export function sourceOfProblem({
  kind,
  stream,
  key,
}: Pick<Problem, 'stream' | 'key'> & { readonly kind: string }): string | null {
  if (kind === 'part_down' || kind === 'sources_file') return null
  const subject = key.slice(kind.length + 1)
  return kind === 'source_stopped' || kind === 'dictionary' ? subject : sourceIn(stream ?? subject)
}

const ofStream = (kind: ProblemKind, stream: string, words: Words): Problem =>
  problemOf(kind, stream, stream, words)

const stuckKeys = (stream: string): readonly string[] => [`stuck:${stream}`, `stuck:reconcile:${stream}`]

/** An event is shown for so long, and then forgotten; all else lasts until something was done. */
export const eventsLastMs = 24 * 3_600_000

/** Whether a stream that is read through a moment should have been read again by now. */
export type IsStale = (stream: string, readThroughAt: Date, now: Date) => boolean

const failuresThatCount = 3

export function inconclusive(symptoms: StreamSymptoms): Problem | null {
  const { stream, inconclusiveRuns, inconclusiveSince, hiddenSince } = symptoms
  if (inconclusiveRuns < failuresThatCount || hiddenSince !== null) return null
  return ofStream('inconclusive', stream, {
    since: inconclusiveSince,
    hides: stuckKeys(stream),
    what: `${stream}: ${count(inconclusiveRuns)} polls in a row could not be trusted: their answers lacked records that are stored here. Tidemark changed no row, and the stream does not count as up to date.`,
    whatToDo: `Check CLIENT_GUID and the permissions of the integration user. \`tidemark status ${stream}\` shows which record was missing, \`tidemark probe\` tests the upstream now.`,
  })
}

export function stuck(symptoms: StreamSymptoms): Problem[] {
  const { stream, stuckRuns, stuckSince, stuckNote, partialReconciles, partialSince, partialNote } = symptoms
  const { inconclusiveRuns, hiddenSince, blockedDeletions } = symptoms
  // The problem that causes this is shown instead.
  if (inconclusiveRuns >= failuresThatCount || hiddenSince !== null || blockedDeletions !== null) return []
  const whyOf = (said: string | null) =>
    said === null ? 'They gave no reason.' : `The last one said: ${sentence(said)}`
  const behind = ofStream('stuck', stream, {
    since: stuckSince,
    what: `${stream}: ${count(stuckRuns)} runs in a row could not read everything, and the position did not move. ${whyOf(stuckNote)} What they received is stored, but the stream does not count as up to date.`,
    whatToDo: `\`tidemark probe\` shows how the upstream behaves. \`tidemark reconcile ${stream}\` reads what is missing through the list.`,
  })
  // Changes go on coming, so its key is none that says how current the stream is.
  const uncompared = {
    ...ofStream('stuck', stream, {
      since: partialSince,
      what: `${stream}: the last ${count(partialReconciles)} reconciles could not list everything, so records that are missing here, or vanished there, may go unnoticed. ${whyOf(partialNote)}`,
      whatToDo: `\`tidemark probe\` shows how the upstream lists its records. With a larger PAGE_SIZE it needs fewer pages; with another SCHEDULE_RECONCILE the list is read when less changes.`,
    }),
    key: `stuck:reconcile:${stream}`,
  }
  return [
    ...(stuckRuns < failuresThatCount ? [] : [behind]),
    ...(partialReconciles < failuresThatCount ? [] : [uncompared]),
  ]
}

export function failing({ stream, failing: kinds }: StreamSymptoms): Problem | null {
  const lasting = kinds.filter(({ failures }) => failures >= failuresThatCount)
  const [worst] = lasting.toSorted((a, b) => b.failures - a.failures)
  if (!worst) return null
  const named = lasting.map(({ kind }) => kind).join(', ')
  return ofStream('failing', stream, {
    since: worst.since,
    what: `${stream}: ${worst.failures} runs in a row failed (${named}). The last error: ${sentence(worst.error ?? 'it was not recorded')}`,
    whatToDo: `Do what the error says. \`tidemark status ${stream}\` shows the last run, \`tidemark probe\` looks for causes.`,
  })
}

export function stale(
  { stream, readThroughAt, movedBackAt, isPaused, hiddenSince, blockedDeletions }: StreamSymptoms,
  isStale: IsStale,
  now: Date,
): Problem | null {
  const since = readThroughAt ?? movedBackAt
  if (since === null || isPaused || !isStale(stream, since, now)) return null
  // The problem that causes this is shown instead.
  if (hiddenSince !== null || (blockedDeletions?.at && blockedDeletions.at > since)) return null
  const at = `${since.toISOString()}, ${formatDuration(now.getTime() - since.getTime())} ago`
  return ofStream('stale', stream, {
    since,
    what:
      readThroughAt === null
        ? `The position of ${stream} was moved back at ${at}, and it was not read through since then. What changed upstream may be missing here.`
        : `${stream} is read through ${at}. Later changes are not here yet.`,
    whatToDo: `\`tidemark status ${stream}\` shows the result of its last run. \`tidemark sync ${stream}\` reads it now.`,
  })
}

const checkAccess = 'Check CLIENT_GUID and the permissions of the integration user: `tidemark probe`.'

export function accessLost({ stream, hiddenSince, readThroughAt }: StreamSymptoms): Problem | null {
  if (hiddenSince === null) return null
  const through = readThroughAt === null ? '' : ` It is read through ${readThroughAt.toISOString()}.`
  return ofStream('access_lost', stream, {
    since: hiddenSince,
    hides: [...stuckKeys(stream), `stale:${stream}`, `inconclusive:${stream}`],
    what: `${stream}: the upstream returns no record any more, although rows are stored here. Tidemark has deleted none of them.${through}`,
    whatToDo: `${checkAccess} Tidemark continues by itself when the upstream returns records again.`,
  })
}

export function deletionsBlocked(symptoms: StreamSymptoms): Problem | null {
  const { stream, blockedDeletions, reconcilingSince } = symptoms
  if (blockedDeletions === null || blockedDeletions.rejected) return null
  const { missing, living, at, marked = null, isLeast = false } = blockedDeletions
  const isKnown = missing !== null && living !== null
  const list = `\`tidemark deletions list ${stream}\``
  const approve = `\`tidemark deletions approve ${stream} --rows ${missing}\``
  const whatToDo = reconcilingSince
    ? `A reconcile of ${stream} is running since ${utcMinute(reconcilingSince)}: it marks those that a person approved, and asks anew about others. Wait until it is over.`
    : !isKnown || isLeast
      ? `Count them first: \`tidemark reconcile ${stream}\`. Then see which they are: ${list}.`
      : missing === living
        ? `${checkAccess} Only if all of them are really gone: ${approve}.`
        : `See which they are: ${list}. If they are really gone: ${approve}. If not, check the permissions of the integration user.`
  return ofStream('deletions_blocked', stream, {
    since: at,
    size: missing,
    hides: [...stuckKeys(stream), `stale:${stream}`],
    what: `${isKnown ? `${isLeast ? 'At least ' : ''}${count(missing)} of ${count(living)}` : 'An unknown number of'} rows of ${stream} disappeared from the upstream${marked === null ? ' at once. Tidemark has not deleted them here.' : `, after ${count(marked)} others within a day, which were marked deleted. Tidemark has not deleted these here.`}`,
    whatToDo,
  })
}

/** What an operator decided. It stands until another listing, or somebody who looks again, ends it. */
export function deletionsFrozen(
  { stream, blockedDeletions, deletionsKnownAt }: StreamSymptoms,
  frozenAfterMs: number,
): Problem | null {
  const rejected = blockedDeletions?.rejected
  if (!blockedDeletions || !rejected) return null
  const { at, by, reason } = rejected
  const { missing } = blockedDeletions
  const since = at === null ? '' : ` since ${utcMinute(at)}`
  const kept = missing === null ? 'Rows' : plural(missing, 'row')
  const stay = missing === 1 ? 'stays' : 'stay'
  const known =
    deletionsKnownAt === null
      ? 'There is no time up to which all deletions are known.'
      : `Deletions are known through ${utcMinute(deletionsKnownAt)}.`
  return ofStream('deletions_frozen', stream, {
    since: at,
    hides: [...stuckKeys(stream), `stale:${stream}`],
    quietUntil: at && new Date(at.getTime() + frozenAfterMs),
    what: `Deletions of ${stream} are frozen${since}, by ${by}${reason === null ? '' : `: “${reason}”`}. ${kept} that the list lacks ${stay}. ${known}`,
    whatToDo: `When the cause is mended upstream, look again: \`tidemark deletions undo ${stream}\`. If the rows are really gone, see which they are and approve them: \`tidemark deletions list ${stream}\`.`,
  })
}

export function quarantined(symptoms: StreamSymptoms): Problem | null {
  const { stream, quarantined: records, quarantinedSince, keyAdvice } = symptoms
  if (records === 0) return null
  const are = records === 1 ? 'is' : 'are'
  const advice =
    keyAdvice === null
      ? ''
      : `Some of them have the key of another record. Set \`${keyAdvice}\` and start Tidemark again: the next reading gives the table this key, and its rows stay. `
  return ofStream('quarantine', stream, {
    since: quarantinedSince,
    size: records,
    what: `${stream}: ${plural(records, 'record')} cannot be stored as rows and ${are} kept in quarantine.`,
    whatToDo: `${advice}See why: \`tidemark quarantine list ${stream}\`. After they were corrected upstream: \`tidemark quarantine retry ${stream}\`. Or drop them with a reason.`,
  })
}

export function missedRows({ stream, missedRows: rows, missedSince }: StreamSymptoms): Problem | null {
  if (rows === 0) return null
  return ofStream('missed_rows', stream, {
    since: missedSince,
    size: rows,
    what: `${stream}: a reconcile found ${plural(rows, 'row')} that no other run had brought. They are stored now.`,
    whatToDo: `Confirm that you have seen this: \`tidemark reconcile --acknowledge ${stream}\`. From now on the look-back reaches further back, so that it should not happen again.`,
  })
}
