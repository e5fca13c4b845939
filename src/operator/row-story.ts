// The story of one row, for the page of a record and for `tidemark explain`: what happened to it, whether it may still change, and what
// the upstream says of it now. Facts with their parts; each of the two shows them in its own way.

import { type RowChange, readRowChanges } from '../store/book/changes.ts'
import { readReach } from '../store/book/checkpoints.ts'
import {
  type KeyEvents,
  type KeyNotes,
  type RowStory,
  readKeyEvents,
  readKeyNotes,
  readRow,
  type StoryTable,
} from '../store/book/row-story.ts'
import type { MirroredStream } from '../streams/catalog.ts'
import { settledThrough } from '../streams/settling.ts'
import { formatDuration, plural } from '../util/text.ts'
import type { RelatedSays, UpstreamSays } from './upstream-record.ts'

export type Client = Parameters<typeof readReach>[0]
export type KeyStory = {
  readonly stream: Pick<MirroredStream, 'name' | 'kind'>
  readonly row: RowStory | null
  readonly notes: KeyNotes
  readonly events: KeyEvents
  /** The newest first; none where no past is kept. */
  readonly changes: Awaited<ReturnType<typeof readRowChanges>>
  readonly settledAt: Date | null
}

/** At most so many changes are shown, the newest; `bi.<stream>_history` has all. */
const mostChanges = 20
const nothingNoted: KeyEvents = { differences: [], quarantine: [], related: [] }

/** `table`: null where there is none, or none of its rows can have such a key. */
export async function readKeyStory(
  client: Client,
  stream: MirroredStream,
  table: StoryTable | null,
  key: string,
): Promise<KeyStory> {
  const { name, kind } = stream
  const [row, notes, events, changes, [reach]] = await Promise.all([
    table && readRow(client, table, key),
    readKeyNotes(client, name, key),
    table ? readKeyEvents(client, table, key) : nothingNoted,
    table ? readRowChanges(client, table, key, mostChanges) : [],
    kind === 'related' ? [] : readReach(client, [name]),
  ])
  // The record came back, so the note that it was missing does not hold any more.
  const livesAgain = row !== null && row.deletedAt === null && notes.evidence !== null
  return {
    stream,
    row,
    events,
    changes,
    notes: livesAgain ? { ...notes, missingSince: null, evidence: null } : notes,
    settledAt: reach ? settledThrough(kind, reach) : null,
  }
}

// ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

/** A word of ours, or something that can be shown in another way than words, or leads somewhere. */
export type Part =
  | string
  | { readonly run: string; readonly kind?: string }
  | { readonly columns: string }
  | { readonly change: RowChange['fields'][number] }
  | { readonly entry: string }
  /** Text of others. */
  | { readonly said: string }
export type KeyEvent = {
  readonly at: Date
  readonly tone: '' | 'warn' | 'bad'
  readonly title: string
  readonly parts: readonly Part[]
}

/** The newest first. */
export function eventsOf({ row, notes, events, changes }: Omit<KeyStory, 'stream'>): readonly KeyEvent[] {
  // The row itself tells its last change and its deletion: these are left out of what else was noted.
  const last = changes.find(({ at }) => row !== null && isSameMoment(row.syncedAt, new Date(at))) ?? null
  const others = events.differences.filter(
    ({ cause, foundAt }) => !(cause === 'deleted' && row?.deletedAt && isSameMoment(row.deletedAt, foundAt)),
  )
  return [
    ...(row ? rowEvents(row, last) : []),
    ...changes.filter((one) => one !== last).map(changeEvent),
    ...noteEvents(notes),
    ...foundEvents({ ...events, differences: others }),
  ].toSorted((a, b) => b.at.getTime() - a.at.getTime())
}

const event = (
  at: Date | string,
  tone: KeyEvent['tone'],
  title: string,
  parts: readonly Part[],
): KeyEvent => ({ at: new Date(at), tone, title, parts })

const isSameMoment = (at: Date, other: Date): boolean => Math.abs(at.getTime() - other.getTime()) < 1_000

const isUnchanged = ({ firstSeenAt, syncedAt }: RowStory): boolean =>
  firstSeenAt.getTime() === syncedAt.getTime()

/** `last`: how it changed then, where that is kept. */
function rowEvents(row: RowStory, last: RowChange | null): readonly KeyEvent[] {
  const { firstSeenAt, syncedAt, deletedAt } = row
  const isFirst = isUnchanged(row)
  const isDeletedLast = deletedAt !== null && isSameMoment(deletedAt, syncedAt)
  const by = writtenBy(row)
  const fields = last ? changedFields(last) : []
  const first = event(firstSeenAt, '', 'First came', isFirst ? by : [])
  const changed = event(syncedAt, '', 'Last changed here', fields.length > 0 ? [...by, ': ', ...fields] : by)
  const why = `${deletedBecause(row)}.`
  const living = isFirst || isDeletedLast ? [first] : [first, changed]
  if (deletedAt === null) return living
  // Many are marked in one piece when all of them are proven: a while after the upstream said that this one is gone.
  if (row.deletedReason === 'absent' && !isDeletedLast && deletedAt < syncedAt)
    return [
      first,
      event(deletedAt, 'bad', 'Found gone', [why]),
      event(syncedAt, 'bad', 'Marked deleted', ['Marked ', ...by, '.']),
    ]
  const marked = isDeletedLast ? [`${why} Marked `, ...by, '.'] : [why]
  return [...living, event(deletedAt, 'bad', 'Marked deleted', marked)]
}

function writtenBy({ runs }: RowStory): readonly Part[] {
  if (runs.length === 0) return ['by a run that is no longer recorded, or by hand']
  const named = runs.flatMap(({ id, kind }, index): Part[] => [
    ...(index > 0 ? [', '] : []),
    { run: id, kind },
  ])
  return runs.length === 1 ? ['by ', ...named] : ['by one of ', ...named, ', which wrote at the same time']
}

export const deletedBecause = ({ deletedReason }: Pick<RowStory, 'deletedReason'>): string =>
  deletedReason === 'source'
    ? 'The upstream marks the record as deleted'
    : 'The record no longer exists upstream'

/** As a line of text. */
export function partInWords(part: Part): string {
  if (typeof part === 'string') return part
  if ('run' in part) return `run ${part.run}${part.kind === undefined ? '' : ` (${part.kind})`}`
  if ('columns' in part) return part.columns
  if ('said' in part) return part.said
  if ('entry' in part) return `entry ${part.entry}`
  const shown = (value: string | null) => (value === null ? 'nothing' : value === '' ? '""' : value)
  const { column, before, after } = part.change
  return `${column}: ${shown(before)} → ${shown(after)}`
}

function changeEvent(change: KeyStory['changes'][number]): KeyEvent {
  const { at, isDeleted, isBack, runId } = change
  const [by, fields] = [runId === null ? [] : ['by ', { run: runId }], changedFields(change)]
  const parts = [...by, ...(by.length > 0 && fields.length > 0 ? [': '] : []), ...fields]
  return event(at, isDeleted ? 'bad' : '', isDeleted ? 'Gone' : isBack ? 'Came back' : 'Changed', parts)
}

function changedFields({ fields, fieldCount }: RowChange): readonly Part[] {
  const more = fieldCount - fields.length
  return [
    ...fields.flatMap((change, index): Part[] => [...(index > 0 ? [' · '] : []), { change }]),
    ...(more > 0 ? [` and ${plural(more, 'more column')}`] : []),
  ]
}

const noteEvents = ({ missingSince, evidence, lateArrivals, missedRows }: KeyNotes): readonly KeyEvent[] => [
  ...lateArrivals.map(({ version, lateMs, foundAt, run }) =>
    event(foundAt, 'warn', 'Late commit caught', [
      `Version ${BigInt(version).toLocaleString('en')} became visible ${formatDuration(lateMs)} after the mirror had passed it.`,
      ...(run === null ? [] : [' Found by ', { run }, '.']),
    ]),
  ),
  ...missedRows.map(({ run, foundAt }) =>
    event(foundAt, 'warn', 'Found only by a reconcile', [
      'No other run had brought it. Found by ',
      { run },
      '.',
    ]),
  ),
  ...(missingSince === null
    ? []
    : [event(missingSince, 'warn', 'Missing from the list', evidence === null ? [] : [{ said: evidence }])]),
]

const mostColumns = 8

const foundEvents = ({ differences, quarantine }: KeyEvents): readonly KeyEvent[] => [
  ...differences.map(({ cause, fields, foundAt, runId, cure }) => {
    const more = fields.length > mostColumns ? ` and ${fields.length - mostColumns} more` : ''
    const columns = { columns: fields.slice(0, mostColumns).join(', ') }
    return event(foundAt, 'warn', `Differed: ${cause}`, [
      ...(fields.length > 0 ? [columns, `${more} · `] : []),
      { run: runId },
      ...(cure === null ? [] : [' · ', { said: cure }]),
    ])
  }),
  ...quarantine.map(({ id, reason, firstSeenAt, timesSeen, droppedAt }) =>
    event(firstSeenAt, 'bad', 'Went into quarantine', [
      { said: reason },
      `, seen ${plural(timesSeen, 'time')} · `,
      droppedAt === null ? { entry: id } : 'taken out',
    ]),
  ),
]

// ── how it stands ────────────────────────────────────────────────────────────────────────────────────────────

/** It changed, and nothing says from what. */
export const forgottenInWords = ({ stream, row, changes }: KeyStory): string | null =>
  row === null || changes.length > 0 || isUnchanged(row)
    ? null
    : `What it was before is not kept. HISTORY=${stream.name} keeps it from then on.`

/** Whether the row can still become another. */
export const settledInWords = (row: RowStory, settledAt: Date | null): string =>
  settledAt !== null && settledAt >= row.syncedAt
    ? 'Settled: late commits since then were looked for, in two ways.'
    : 'Not settled yet: Tidemark reads it once more, with the look-back and in the list.'

export type Says = UpstreamSays | RelatedSays | { readonly says: 'never seen' }
export type Answer = {
  readonly tone: 'ok' | 'warn' | 'bad'
  readonly says: string
  /** What becomes of it, or what to do. */
  readonly next: string | null
}

/** What the upstream says now. */
export function answerInWords(
  upstream: Says,
  row: Pick<RowStory, 'deletedAt'> | null,
  stream: string,
): Answer {
  const answer = (tone: Answer['tone'], says: string, next: string | null = null) => ({ tone, says, next })
  const reconcile = `\`tidemark reconcile ${stream}\``
  switch (upstream.says) {
    case 'failed':
      return answer('bad', `the upstream could not be asked: ${upstream.error.message}`)
    case 'gone': {
      const isMarked = row === null || row.deletedAt !== null
      const next = `The row here is not marked as deleted yet: the search for deletions does it, or ${reconcile} now.`
      return answer(isMarked ? 'ok' : 'warn', 'the upstream has no such record', isMarked ? null : next)
    }
    case 'never seen':
      return answer('ok', 'the upstream has no such record, and none was ever seen here')
    case 'shown':
      return answer('ok', `the upstream shows it with assignment ${upstream.assignment}`)
    case 'not shown': {
      const asked = upstream.assignments.map((id) => `assignment ${id}`).join(', ')
      return answer('warn', `the upstream does not show it with ${asked} any more`)
    }
    case 'left out': {
      const says = `it is not known whether the upstream still shows it with assignment ${upstream.assignment}`
      return answer('warn', `${says}: ${upstream.problem}`)
    }
    case 'of no assignment':
      return answer('warn', 'the upstream was not asked: no assignment is known to have it')
    case 'no row':
      return answer(
        'warn',
        `the upstream has it, but it cannot be stored as a row: ${upstream.problem}`,
        `What was read of it is in the quarantine. After it was corrected upstream: \`tidemark quarantine retry ${stream}\`.`,
      )
    case 'unclear':
      return answer('warn', 'the upstream gave no clear answer; try again')
    case 'cannot be asked for one record':
      return answer('warn', `the upstream ${upstream.says}`)
    case 'found': {
      const { difference, record } = upstream
      const fields = plural(Object.keys(record).length, 'field')
      if (difference === null) return answer('ok', `agrees with the upstream (${fields})`)
      const { version, mirrored, columns, kind } = difference
      if (kind === 'missing') return answer('warn', `the upstream has it, version ${version}`)
      const differ = columns.length === 0 ? '' : `; these differ: ${columns.join(', ')}`
      return answer(
        'warn',
        `the upstream has version ${version}, the mirror ${mirrored}${differ}`,
        `The next run brings what is newer. If the row stays as it is: ${reconcile} corrects it and tells the cause.`,
      )
    }
  }
}
