// Changes what a view shows, with the views over several sources that show it in turn.

import type { ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { unlessRefused } from '../server/session.ts'
import { inBi } from './places.ts'
import { leaveUnions, showUnion } from './union-views.ts'
import { isBuiltUpon, refreshView, remadeView, unlessOthers, type View, viewColumns } from './views.ts'

/** Shows these columns besides those it shows already. A view that somebody put in place of ours must not stop the mirror. */
export async function showColumns(client: ClientBase, view: View, columns: readonly string[], log: Logger) {
  await unlessOthers(client, { log, what: inBi(view), lack: 'does not show new columns' }, async () => {
    const isBare = (await viewColumns(client, view)).length === 1 + view.ownColumns.length
    // A view that shows nothing but the key yet gets the fields first, and Tidemark's own columns behind them.
    const beginAnew = () => withoutView(client, view, async () => {}, columns)
    const mayBegin = isBare && columns.length > 0
    if (mayBegin && !(await unlessRefused(client, 'reordering', beginAnew, isBuiltUpon))) return
    await refreshView(client, view, columns)
  })
}

/**
 * Takes the view away for as long as `change` takes, because Postgres changes no type that a view shows. Views over several sources leave
 * it out meanwhile. `added`: new columns, which Tidemark's own are to stand behind.
 */
export async function withoutView(
  client: ClientBase,
  view: View,
  change: () => Promise<void>,
  added: readonly string[] = [],
): Promise<void> {
  const shown = await viewColumns(client, view)
  // Of somebody else: if it shows what changes, Postgres refuses the change.
  if (!view.ownColumns.every((column) => shown.includes(column))) return await change()
  const columns =
    added.length > 0 ? [...shown.filter((name) => !view.ownColumns.includes(name)), ...added] : shown
  const unions = await leaveUnions(client, (key) => key === view.name)
  await remadeView(client, view, change, columns)
  for (const { name, keys } of unions) await showUnion(client, name, keys)
}
