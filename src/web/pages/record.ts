// `/records/:stream/:key`: one row: what it holds, why it is as it is, and, once somebody asked, what the upstream says of it now.

import { ownValue } from '../../json/json.ts'
import type { RowChange } from '../../store/queries/row-changes.ts'
import type { KeyEvents, KeyNotes, RowStory } from '../../store/queries/row-story.ts'
import { plural } from '../../util/text.ts'
import { actionForm } from '../action-forms.ts'
import { clock, copyButton, count, foreign, type Html, html, kindInWords, shortSpan } from '../html.ts'
import type { RecordShown } from '../row-queries.ts'
import { summaryColumns } from '../summary-columns.ts'
import { heading, type Page, type PageContext, type Shown } from './layout.ts'
import { type Compared, recordValues } from './record-values.ts'
import { recordAddress } from './rows.ts'
import { noSuchStream } from './stream-frame.ts'
import { addressOf } from './tables.ts'

export const recordPage: Page = {
  path: '/records/:stream/:key',
  place: '/find',
  title: 'Record',
  body: (context) => recordShown(context, null),
}

export async function recordShown(context: PageContext, compared: Compared): Promise<Shown> {
  const { stream = '', key = '' } = context.params
  const record = await context.statusQueries.record(stream, key)
  if (record === null)
    return noSuchStream((await context.statusQueries.snapshot()).streams.map((one) => one.stream))
  if (record.row === null && compared === null && isUnknown(record))
    return notThere(
      `${stream} has no such row`,
      html`The mirror holds no row with the key ${foreign(key, 100)}, and nothing was noted about it. <a href="${addressOf(`/streams/${stream}/rows`, { q: key })}">Search the rows</a>, or ask the upstream: <code>tidemark explain ${stream} ${foreign(inShell(key), 100)}</code>`,
    )
  return {
    title: `${stream} ${key}`,
    heading: heading({
      title: html`${stream} ${foreign(key, 100)}`,
      crumbs: [
        ['/', 'Streams'],
        [`/streams/${stream}`, stream],
        [`/streams/${stream}/rows`, 'Rows'],
      ],
      lead: leadOf(record),
      bar: html`${compareBar(context, record, stream, key)}${copyButton('Copy link', { address: recordAddress(stream, key) })}`,
    }),
    body: html`${verdict(record, compared, context.now)}
<div class="cols">${story(record, stream, context.now)}${recordValues(record, compared, { address: recordAddress(stream, key), wanted: context.query.get('fields') ?? '' })}</div>
${record.events.related.length > 0 && belongsTo(record.events)}
<section class="card" aria-labelledby="terminal"><h2 id="terminal">The same in the terminal</h2><pre class="term" tabindex="0">tidemark explain ${stream} ${inShell(key)}</pre></section>`,
    status: record.row === null && compared === null ? 404 : 200,
  }
}

/** As one word of a command. */
const inShell = (key: string): string => (/^[\w.:-]+$/.test(key) ? key : `'${key.replaceAll("'", "'\\''")}'`)

const isUnknown = ({ notes, events, changes }: RecordShown): boolean =>
  notes.lateArrivals.length +
    notes.missedRows.length +
    events.differences.length +
    events.quarantine.length +
    changes.length ===
    0 && notes.missingSince === null

const notThere = (title: string, text: Html): Shown => ({
  title,
  heading: heading({ title, crumbs: [['/', 'Streams']] }),
  body: html`<section class="card"><p>${text}</p></section>`,
  status: 404,
})

function compareBar(
  { viewer }: PageContext,
  { canCompare }: RecordShown,
  stream: string,
  key: string,
): Html | null {
  if (!canCompare) return null
  return (
    actionForm(
      viewer,
      `${recordAddress(stream, key)}/compare`,
      html`<button class="go">Compare with upstream now</button>`,
    ) ?? html`<button disabled>Compare with upstream now</button>`
  )
}

function leadOf({ row }: RecordShown): Html | null {
  const fields = row && Object.entries(row.values)
  const names = summaryColumns(fields?.map(([name]) => name) ?? [])
  const texts = names
    .map((name) => row && ownValue(row.values, name))
    .filter((one) => typeof one === 'string' && one !== '')
  return texts.length === 0
    ? null
    : html`${texts.slice(0, 3).map((one, index) => html`${index > 0 && ' · '}${foreign(String(one), 60)}`)}`
}

// ── does it agree ────────────────────────────────────────────────────────────────────────────────────────────

function verdict({ row, settledAt }: RecordShown, compared: Compared, now: Date): Html {
  if (compared !== null) return answer(compared, row, now)
  if (row === null)
    return html`<div class="note warn"><b>The mirror holds no such row.</b> Below is what was recorded about its key.</div>`
  if (row.deletedAt !== null)
    return html`<div class="note warn"><b>Deleted.</b> ${deletedBecause(row)} noticed at ${clock(row.deletedAt, now)} UTC. The row is no longer in <code>bi</code>, and stays in <code>mirror</code>.</div>`
  const isSettled = settledAt !== null && settledAt >= row.syncedAt
  return html`<div class="note"><b>It last changed ${shortSpan(now.getTime() - row.syncedAt.getTime())} ago.</b> ${
    isSettled
      ? 'It is settled: late commits were looked for, and a comparison with the whole list agreed.'
      : 'It is not settled yet: Tidemark reads it once more, with the look-back and in the list.'
  }</div>`
}

const deletedBecause = ({ deletedReason }: Pick<RowStory, 'deletedReason'>): string =>
  deletedReason === 'source'
    ? 'The upstream marks the record as deleted,'
    : 'The record no longer exists upstream,'

function answer({ upstream, at }: NonNullable<Compared>, row: RecordShown['row'], now: Date): Html {
  const when = html`Asked at ${clock(at, now)} UTC, with one request.`
  if (upstream.says === 'failed')
    return html`<div class="note bad" role="status"><b>The upstream could not be asked.</b> ${foreign(upstream.error.message, 400)} ${when}</div>`
  if (upstream.says === 'gone') {
    const isMarked = row === null || row.deletedAt !== null
    return html`<div class="note ${isMarked ? 'ok' : 'warn'}" role="status"><b>The upstream has no such record.</b> ${isMarked ? 'The mirror agrees.' : 'The row here is not marked yet; the search for deletions, or a reconcile, will do it.'} ${when}</div>`
  }
  if (upstream.says !== 'found')
    return html`<div class="note warn" role="status"><b>The upstream ${upstream.says === 'unclear' ? 'gave no clear answer; try again' : upstream.says}.</b> ${when}</div>`
  const { difference } = upstream
  if (difference === null)
    return html`<div class="note ok" role="status"><b>The mirror agrees with the upstream.</b> All ${plural(Object.keys(upstream.record).length, 'field')} are equal. ${when}</div>`
  if (difference.kind === 'missing')
    return html`<div class="note warn" role="status"><b>The upstream has this record, the mirror not yet.</b> ${when}</div>`
  return html`<div class="note warn" role="status"><b>${difference.columns.length === 0 ? 'The row versions differ' : `${plural(difference.columns.length, 'field')} ${difference.columns.length === 1 ? 'differs' : 'differ'}`}.</b> The upstream has version ${difference.version}, the mirror ${difference.mirrored}. The next run brings what is newer; a reconcile tells the cause. ${when}</div>`
}

// ── why it is as it is ───────────────────────────────────────────────────────────────────────────────────────

type Event = {
  readonly at: Date
  readonly tone: '' | 'warn' | 'bad'
  readonly title: string
  readonly text: Html | null
}

const story = (record: RecordShown, stream: string, now: Date): Html =>
  html`<section class="card c5" aria-labelledby="why"><h2 id="why">Why is this row like this?</h2><ol class="story">${eventsOf(
    record,
  )
    .toSorted((a, b) => b.at.getTime() - a.at.getTime())
    .map(
      ({ at, tone, title, text }) =>
        html`<li${tone !== '' && html` class="${tone}"`}><b>${title}</b>${text && html`<span>${text}</span>`}<span class="small quiet">${clock(at, now)}</span></li>`,
    )}</ol>${hasForgotten(record) && html`<p class="small quiet">What it was before is not kept. <code>HISTORY=${stream}</code> keeps it from then on.</p>`}</section>`

/** It changed, and nothing says from what. */
const hasForgotten = ({ row, changes }: RecordShown): boolean =>
  row !== null && changes.length === 0 && row.firstSeenAt.getTime() !== row.syncedAt.getTime()

function eventsOf({ row, notes, events, changes }: RecordShown): readonly Event[] {
  const isNow = (at: Date | null, other: Date) =>
    at !== null && Math.abs(at.getTime() - other.getTime()) < sameMomentMs
  // The row itself tells its last change and its deletion: these are left out below.
  const last = changes.find(({ at }) => row !== null && isNow(row.syncedAt, new Date(at)))
  const told = changes.filter((one) => one !== last).map(changeEvent)
  const differences = events.differences.filter(
    ({ cause, foundAt }) => !(cause === 'deleted' && isNow(row?.deletedAt ?? null, foundAt)),
  )
  const own = row ? rowEvents(row, last ?? null) : []
  return [...own, ...told, ...noteEvents(notes), ...foundEvents({ ...events, differences })]
}

const sameMomentMs = 1_000

/** What a table whose past is kept says of one change. */
function changeEvent(change: RowChange): Event {
  const { at, isDeleted, isBack } = change
  return {
    at: new Date(at),
    tone: isDeleted ? 'bad' : '',
    title: isDeleted ? 'Gone' : isBack ? 'Came back' : 'Changed',
    text: changedFields(change),
  }
}

function changedFields({ fields, fieldCount }: RowChange): Html | null {
  if (fieldCount === 0) return null
  const shown = (value: string | null) => (value === null ? html`null` : foreign(value, 60))
  const more = fieldCount - fields.length
  return html`${fields.map(({ column, before, after }, index) => html`${index > 0 && ' · '}<code>${foreign(column, 60)}</code> <del>${shown(before)}</del> <ins>${shown(after)}</ins>`)}${more > 0 && ` and ${plural(more, 'more column')}`}`
}

const runLink = (id: string, kind?: string): Html =>
  html`<a href="/runs/${id}">${kind === undefined ? '' : `${kindInWords(kind)} `}run ${id}</a>`

/** `last`: how it changed then, where that is kept. */
function rowEvents(row: RowStory, last: RowChange | null): readonly Event[] {
  const runs = row.runs.map(({ id, kind }, index) => html`${index > 0 && ', '}${runLink(id, kind)}`)
  const by =
    runs.length === 0
      ? html`by a run that is no longer recorded`
      : runs.length === 1
        ? html`by ${runs}`
        : html`by one of ${runs}, which wrote at the same time`
  const isFirst = row.firstSeenAt.getTime() === row.syncedAt.getTime()
  const isDeletedLast =
    row.deletedAt !== null && Math.abs(row.deletedAt.getTime() - row.syncedAt.getTime()) < sameMomentMs
  const fields = last && changedFields(last)
  return [
    { at: row.firstSeenAt, tone: '', title: 'First came', text: isFirst ? by : null },
    ...(isFirst || isDeletedLast
      ? []
      : [
          {
            at: row.syncedAt,
            tone: '' as const,
            title: 'Last changed here',
            text: html`${by}${fields && html`: ${fields}`}`,
          },
        ]),
    ...(row.deletedAt === null
      ? []
      : [
          {
            at: row.deletedAt,
            tone: 'bad' as const,
            title: 'Marked deleted',
            text: html`${deletedBecause(row).replace(/,$/, '.')}${isDeletedLast && html` Marked ${by}.`}`,
          },
        ]),
  ]
}

function noteEvents({ missingSince, evidence, lateArrivals, missedRows }: KeyNotes): readonly Event[] {
  return [
    ...lateArrivals.map(({ version, lateMs, foundAt, run }) => ({
      at: new Date(foundAt),
      tone: 'warn' as const,
      title: 'Late commit caught',
      text: html`Version ${count(Number(version))} became visible ${shortSpan(lateMs)} after the mirror had passed it${run !== null && html`. Found by ${runLink(run)}`}.`,
    })),
    ...missedRows.map(({ run, foundAt }) => ({
      at: new Date(foundAt),
      tone: 'warn' as const,
      title: 'Found only by a reconcile',
      text: html`No other run had brought it. Found by ${runLink(run)}.`,
    })),
    ...(missingSince === null
      ? []
      : [
          {
            at: missingSince,
            tone: 'warn' as const,
            title: 'Missing from the list',
            text: evidence === null ? null : foreign(evidence, 300),
          },
        ]),
  ]
}

function foundEvents({ differences, quarantine }: KeyEvents): readonly Event[] {
  return [
    ...differences.map(({ cause, fields, foundAt, runId, cure }) => ({
      at: foundAt,
      tone: 'warn' as const,
      title: `Differed: ${cause}`,
      text: html`${fields.length > 0 && html`<code>${fields.slice(0, 8).join(', ')}</code>${fields.length > 8 && ` and ${fields.length - 8} more`} · `}${runLink(runId)}${cure !== null && html` · ${foreign(cure, 200)}`}`,
    })),
    ...quarantine.map(({ id, reason, firstSeenAt, timesSeen, droppedAt }) => ({
      at: firstSeenAt,
      tone: 'bad' as const,
      title: 'Went into quarantine',
      text: html`${foreign(reason, 300)}, seen ${plural(timesSeen, 'time')}${droppedAt === null ? html` · <a href="/quarantine?after=${String(Number(id) - 1)}">entry ${id}</a>` : ' · taken out'}`,
    })),
  ]
}

const belongsTo = ({ related }: KeyEvents): Html =>
  html`<section class="card" aria-labelledby="related"><h2 id="related">Belongs to it</h2><ul class="key">${related.map(
    ({ stream, key }) =>
      html`<li><a href="${recordAddress(stream, key)}">${stream} ${foreign(key, 60)}</a></li>`,
  )}</ul></section>`
