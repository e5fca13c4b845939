// `/checkpoints`: positions that were reached, and backfills.

import type { Checkpoint } from '../../store/queries/positions.ts'
import { backfillLink, cancelForm } from '../action-forms.ts'
import { age, count, foreign, type Html, html, runState, time } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { BackfillLine } from '../status-queries.ts'
import type { Page, PageContext } from './layout.ts'
import { type Column, chosen, filterForm, select, table } from './tables.ts'

const most = 50

export const checkpointsPage: Page = {
  path: '/checkpoints',
  title: 'Checkpoints',
  async body(context) {
    const { statusQueries, query } = context
    const stream = chosen(query, 'stream', statusQueries.streams)
    return html`${filterForm('/checkpoints', [select('Stream', 'stream', statusQueries.streams, stream)])}
${await checkpointList(context, stream)}`
  },
}

export async function checkpointList(context: PageContext, stream: string | null): Promise<Html> {
  const { statusQueries, viewer, now } = context
  const checkpoints = await statusQueries.checkpoints(stream, most)
  return html`${await backfillList(context, stream)}
${table({
  caption: `Checkpoints, the newest first${checkpoints.length === most ? `: ${most}, and there are more` : ''}`,
  columns: checkpointColumns(now, viewer),
  rows: checkpoints,
  empty: 'There is no checkpoint yet. The first run makes one.',
})}`
}

/** Nothing when there never was one of this stream; null: of all. */
export async function backfillList(
  { statusQueries, viewer, now }: PageContext,
  stream: string | null,
): Promise<Html | null> {
  const backfills = await statusQueries.backfills(stream)
  if (backfills.length === 0 && stream !== null) return null
  return table({
    caption: 'Backfills, the newest first',
    columns: backfillColumns(now, viewer),
    rows: backfills.slice(0, most),
    empty: 'There was no backfill yet.',
  })
}

const checkpointColumns = (now: Date, viewer: Viewer): readonly Column<Checkpoint>[] => [
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
  ...(viewer.canAct ? [{ title: 'Act', cell: fromHere }] : []),
]

const backfillColumns = (now: Date, viewer: Viewer): readonly Column<BackfillLine>[] => [
  { title: 'Backfill', cell: ({ id }) => id, isNumber: true },
  { title: 'Stream', cell: ({ stream }) => stream },
  { title: 'State', cell: state },
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
  ...(viewer.canAct ? [{ title: 'Act', cell: (one: BackfillLine) => cancel(one, viewer) }] : []),
]

const fromHere = ({ stream, id }: Checkpoint): Html => backfillLink(stream, id)

const cancel = ({ id, status }: BackfillLine, viewer: Viewer): Html | null =>
  status === 'waiting' || status === 'running' ? cancelForm(viewer, id) : null

function state({ status, from, to, position }: BackfillLine): Html {
  const span = to - from
  const isUnderWay = (status === 'running' || status === 'waiting') && span > 0n
  const done = isUnderWay ? Number(((position - from) * 100n) / span) : null
  return html`${runState(status)}${done !== null && html` <progress max="100" value="${done}" aria-label="how far it is">${done} %</progress>`}`
}
