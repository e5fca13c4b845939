// `/checkpoints`: positions that were reached, and backfills.

import type { Checkpoint } from '../../store/book/checkpoints.ts'
import { backfillLink, cancelForm, rewindLink } from '../action-forms.ts'
import { age, count, foreign, type Html, html, runState, time } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { BackfillLine } from '../status-queries.ts'
import { rangeIn } from '../time-range.ts'
import type { Page, PageContext } from './layout.ts'
import { byId, type Column, chosen, filterForm, listPart, select, table } from './tables.ts'

const pageSize = 50

export const checkpointsPage: Page = {
  path: '/checkpoints',
  title: 'Checkpoints',
  async body(context) {
    const { statusQueries, query } = context
    const stream = chosen(query, 'stream', statusQueries.streams)
    return await checkpointList(context, stream, '/checkpoints', [
      select('Stream', 'stream', statusQueries.streams, stream),
    ])
  },
}

/** What there is at a path, and what else can be chosen there. */
export async function checkpointList(
  context: PageContext,
  stream: string | null,
  path: string,
  choices: readonly Html[] = [],
): Promise<Html> {
  const { statusQueries, now, query } = context
  const range = rangeIn(query, now, null)
  const { from, to } = range
  const isAll = !query.has('before') && from === null && to === null
  const kept = { stream: choices.length > 0 ? stream : null }
  return html`<p class="lead">
  A checkpoint is a position that was reached: every change up to it had been read by then.
  You can read again from any of them.
</p>
${filterForm(path, choices, { range, kept })}
${isAll && (await backfillList(context, stream))}
${await listPart({
  path,
  query,
  kept: { ...kept, ...range.kept },
  names: { list: 'checkpoints', first: 'Newest', next: 'Older' },
  read: byId(pageSize, (before, limit) => statusQueries.checkpoints({ stream, before, from, to, limit })),
  caption: 'Checkpoints, the newest first',
  columns: checkpointColumns(context),
  empty: isAll
    ? `There is no checkpoint${stream === null ? '' : ` of ${stream}`} yet. The first run makes one.`
    : 'No checkpoint of this time is kept.',
})}`
}

/** The backfills of a stream (null: of all). Nothing if there never was one. */
export async function backfillList(
  { statusQueries, viewer, now }: PageContext,
  stream: string | null,
): Promise<Html | null> {
  const backfills = await statusQueries.backfills(stream)
  if (backfills.length === 0 && stream !== null) return null
  return table({
    caption: 'Backfills, the newest first',
    columns: backfillColumns(now, viewer),
    rows: backfills.slice(0, pageSize),
    empty: 'There was no backfill yet.',
  })
}

const checkpointColumns = ({ statusQueries, viewer, now }: PageContext): readonly Column<Checkpoint>[] => [
  { title: 'Checkpoint', cell: ({ id }) => id, isNumber: true },
  { title: 'Stream', cell: ({ stream }) => stream },
  { title: 'Position', cell: ({ position }) => position, isNumber: true },
  { title: 'Reached', cell: ({ reached_at }) => html`${time(reached_at)} (${age(reached_at, now)})` },
  {
    title: 'Why moved back',
    cell: ({ reason, moved_by }) =>
      reason === null
        ? null
        : html`${foreign(reason, 500)}${moved_by !== null && html` (${foreign(moved_by)})`}`,
  },
  {
    title: 'Act',
    isLeftOut: !viewer.canAct,
    // Checkpoints of a stream outlive its being mirrored.
    cell: (one) => (statusQueries.streams.includes(one.stream) ? fromHere(one) : null),
  },
]

const backfillColumns = (now: Date, viewer: Viewer): readonly Column<BackfillLine>[] => [
  { title: 'Backfill', cell: ({ id }) => id, isNumber: true },
  { title: 'Stream', cell: ({ stream }) => stream },
  { title: 'State', cell: ({ status }) => runState(status) },
  { title: 'From', cell: ({ from }) => String(from), isNumber: true },
  { title: 'To', cell: ({ to }) => String(to), isNumber: true },
  { title: 'Rows read', cell: ({ rowsRead }) => count(rowsRead), isNumber: true },
  { title: 'New', cell: ({ inserted }) => count(inserted), isNumber: true },
  { title: 'Changed', cell: ({ updated }) => count(updated), isNumber: true },
  {
    title: 'Requested',
    cell: ({ requestedAt, requestedBy }) => html`${age(requestedAt, now)} by ${foreign(requestedBy)}`,
  },
  {
    title: 'Note',
    cell: ({ error, note }) =>
      (error === null ? null : html`<span class="bad">${foreign(error, 500)}</span>`) ??
      (note === null ? null : foreign(note, 500)),
  },
  { title: 'Act', isLeftOut: !viewer.canAct, cell: (one) => cancel(one, viewer) },
]

const fromHere = ({ stream, id }: Checkpoint): Html =>
  html`${backfillLink(stream, id)}<br><span class="small">${rewindLink(stream, id)}</span>`

const cancel = ({ id, status }: BackfillLine, viewer: Viewer): Html | null =>
  status === 'waiting' || status === 'running' ? cancelForm(viewer, id) : null
