// What schema `bi` shows of the past of a stream, all from its history table: `<stream>_history` has its lines, `_versions` from when to
// when each of them held, `_changes` one row for each field that changed, and the function `_at` the rows of a moment.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { asOfName, showAsOf, withoutAsOf } from './as-of.ts'
import { showColumns, withoutView } from './change-view.ts'
import { inBi, type Named, qualified } from './places.ts'
import { historyOf, readTableSchema, type TableSchema } from './table-schema.ts'
import { columnsSql, refreshView, unlessOthers, type View, viewColumns } from './views.ts'

const historyViewOf = (stream: Named): View => {
  const table = qualified(historyOf(stream))
  return {
    ...historyOf(stream),
    describe: `every observed change of ${stream.name}`,
    ownColumns: ['_observed_at', '_deleted_at'],
    table,
    query: (columns) => `select ${columnsSql(columns)} from ${table}`,
  }
}

/** A field of the upstream that has the name of a column of such a view is shown with this before its name. */
const besideOwn = 'record_'
const shownAs = (own: readonly string[], column: string): string =>
  own.includes(column) ? `${besideOwn}${column}` : column

// A condition on the key reaches the index, because it says which partitions of the window are wanted.
const ofVersions: ReadonlyMap<string, string> = new Map([
  ['_synced_at', '_observed_at'],
  ['valid_from', '_observed_at'],
  ['valid_to', 'lead(_observed_at) over line'],
  ['is_current', 'lead(_observed_at) over line is null'],
  ['is_deleted', '_deleted_at is not null'],
])
const versionColumns = [...ofVersions.keys()]
const versionMeanings = {
  _synced_at: 'when this state was first seen',
  valid_from: 'when this state was first seen',
  valid_to: 'when the next one was; empty for the last',
  is_current: 'whether it is the last state of the row',
  is_deleted: 'whether the record was deleted then; the row keeps its last values',
}

const versionsViewOf = ({ stream, key }: Pick<TableSchema, 'stream' | 'key'>): View => {
  const table = qualified(historyOf(stream))
  const shown = (column: string): string => {
    const name = pg.escapeIdentifier(column)
    const own = ofVersions.get(column)
    if (own !== undefined) return `${own} as ${name}`
    const field = column.replace(besideOwn, '')
    return versionColumns.includes(field) ? `${pg.escapeIdentifier(field)} as ${name}` : name
  }
  return {
    name: `${stream.name}_versions`,
    describe: `every state of ${stream.name} that was seen, from when to when it held`,
    ownColumns: versionColumns,
    meanings: versionMeanings,
    table,
    query: (columns) =>
      `select ${columns.map(shown).join(', ')} from ${table}
       window line as (partition by ${pg.escapeIdentifier(key.name)} order by _observed_at)`,
  }
}

const changeMeanings = {
  changed_at: 'when the change was seen',
  field: 'the column that changed; _deleted_at if the row was deleted or came back',
  before: 'its value before, as text; empty for no value',
  after: 'its value after, as text; empty for no value',
  modified_by: 'who changed the record, if a field of it says so',
  modified_at: 'when the record was changed, if a field of it says so',
}
const changeColumns = Object.keys(changeMeanings)
const isVersion = /^(?:sys_)?row_version$/
const isWho = /^(?:sys_|last_)*(?:updated|modified|changed)_by(?:_\w+)?$/
const isWhen = /^(?:sys_|last_)*(?:updated|modified|changed)(?:_(?:at|on|date|time)\w*)?$/

/** Who changed a record and when, where a field of it says so: these and the row version change with every change, and are no change. */
function saidOfChanges({ columns, versions, history }: TableSchema) {
  const kept = columns.filter(({ name }) => history?.columns.includes(name))
  const who = kept.find(({ name }) => isWho.test(name))?.name
  const when = kept.find(({ name, type }) => type === 'timestamptz' && isWhen.test(name))?.name
  const numbers = [...versions, ...kept.filter(({ name }) => isVersion.test(name))].map(({ name }) => name)
  return { who, when, none: new Set(['_observed_at', who, when, ...numbers]) }
}

/** `over`: the query of the view for some lines of the table, as SQL yields them. */
export function changesViewOf(tableSchema: TableSchema) {
  const { stream, key: keyOfTable } = tableSchema
  const table = qualified(historyOf(stream))
  const key = pg.escapeIdentifier(keyOfTable.name)
  const keyColumn = shownAs(changeColumns, keyOfTable.name)
  const { who, when, none } = saidOfChanges(tableSchema)
  const said = (column: string | undefined, type: string) =>
    `${column === undefined ? 'null' : `line.${pg.escapeIdentifier(column)}`}::${type}`
  const unseen = [...none].filter((name) => name !== undefined).map((name) => pg.escapeLiteral(name))
  const over = (lines: string) => `
      select line.${key} as ${pg.escapeIdentifier(keyColumn)}, line._observed_at as changed_at,
        changed.field, former.state ->> changed.field as before, changed.value #>> '{}' as after,
        ${said(who, 'text')} as modified_by, ${said(when, 'timestamptz')} as modified_at
      from ${lines} as line
      cross join lateral (
        select to_jsonb(earlier) as state from ${table} as earlier
        where (earlier.${key}, earlier._observed_at) < (line.${key}, line._observed_at)
          and earlier.${key} >= line.${key} and earlier._observed_at < line._observed_at
        order by earlier.${key} desc, earlier._observed_at desc limit 1
      ) as former
      cross join lateral jsonb_each(to_jsonb(line) - array[${unseen.join(', ')}]) as changed (field, value)
      where former.state -> changed.field is distinct from changed.value`
  return {
    name: `${stream.name}_changes`,
    describe: `fields of ${stream.name} that changed, one row for each`,
    ownColumns: changeColumns,
    meanings: changeMeanings,
    keyColumn,
    table,
    over,
    // The line before is looked up, so that a few lines, of some keys or of some days, can be asked for.
    query: () => over(table),
  }
}

/** Shows what is there, also columns that came since. What somebody put in the place of a view or of the function stays. */
export async function showHistory(client: ClientBase, stream: MirroredStream, log: Logger): Promise<void> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema?.history) return
  const { columns } = tableSchema.history
  await showColumns(client, historyViewOf(stream), columns, log)
  const [versions, changes] = [versionsViewOf(tableSchema), changesViewOf(tableSchema)]
  const shown = columns.map((column) => shownAs(versionColumns, column))
  await showColumns(client, versions, shown, log)
  await unlessOthers(client, { log, what: inBi(changes), lack: 'does not show what changed' }, async () => {
    const [keyColumn] = await viewColumns(client, changes)
    if (keyColumn !== changes.keyColumn) await client.query(`drop view if exists ${inBi(changes)} restrict`)
    await refreshView(client, changes, [])
  })
  await showAsOf(client, tableSchema, log)
}

/** Takes all of it away for as long as `change` takes, because Postgres changes no type that a view shows. */
export const withoutHistory = (client: ClientBase, tableSchema: TableSchema, change: () => Promise<void>) =>
  withoutAsOf(
    client,
    tableSchema,
    [historyViewOf(tableSchema.stream), versionsViewOf(tableSchema), changesViewOf(tableSchema)].reduce(
      (inner, view) => () => withoutView(client, view, inner),
      change,
    ),
  )

/** Takes it away for good, with a table that somebody put in place of the history. */
export const hideHistory = ({ name }: Named): string =>
  [
    `drop function if exists ${asOfName({ name })} restrict`,
    ...['history', 'versions', 'changes'].map(
      (what) => `drop view if exists ${inBi({ name: `${name}_${what}` })} restrict`,
    ),
  ].join(';\n')
