// What the dictionary says of a stream, kept where reports see it: labels, units and meanings in `tidemark.field`, the texts of codes in
// `tidemark.label`, a column of texts beside each column of codes in the view, and comments. Changing a text changes no view.

import type { ClientBase, Pool } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import {
  type FieldMeaning,
  foldField,
  nothingSaid,
  type StreamMeaning,
  wordsOf,
} from '../../streams/dictionary.ts'
import { tableName } from '../../streams/names.ts'
import { messageOf } from '../../util/errors.ts'
import { holdableJson } from '../../util/text.ts'
import { changeTable, type Queryable, withConnection } from '../server/session.ts'
import type { fieldTable, labelTable } from '../tables/findings.ts'
import { showColumns } from './change-view.ts'
import { columnName } from './column-names.ts'
import { describeTable } from './comments.ts'
import { showHistory } from './history-views.ts'
import { viewOf } from './views.ts'

/** What is told of a field. */
type Told = Pick<
  typeof fieldTable.$inferSelect,
  'folded' | 'label' | 'unit' | 'meaning' | 'meantReference' | 'labelColumn'
>
type Field = Told &
  Pick<typeof fieldTable.$inferSelect, 'stream' | 'sourceName' | 'columnName' | 'columnType'>
type Text = Omit<typeof labelTable.$inferSelect, 'stream'>

/** In a transaction. What is kept already is not written again. */
export async function keepMeaning(client: ClientBase, stream: MirroredStream, log: Logger): Promise<void> {
  const { meaning = nothingSaid } = stream
  const { changed, texts } = compare(stream, await readFields(client, [stream]))
  const told = changed.map(({ now }) => now)
  await writeFields(client, stream.name, told)
  const isOtherText = await writeTexts(client, stream.name, texts)
  if (changed.some(({ now, before }) => now.labelColumn !== before.labelColumn)) {
    await showColumns(client, viewOf(stream), [], log)
    await showHistory(client, stream, log)
  }
  if (changed.length > 0 || isOtherText || wordsOf(meaning) !== null)
    await describeTable(client, stream, wordsOf(meaning))
}

/** Of all these streams. One whose view somebody reads for long, or has built upon, does not keep the others from it. */
export async function keepMeanings(pool: Pool, streams: readonly MirroredStream[], log: Logger) {
  for (const stream of await withConnection(pool, (client) => notKept(client, streams)))
    try {
      await withConnection(pool, (client) =>
        changeTable(client, tableName(stream.name), 'describe', () => keepMeaning(client, stream, log)),
      )
    } catch (error) {
      log.warn({ stream: stream.name, why: messageOf(error) }, 'What the dictionary says could not be shown.')
    }
}

/** Those of which something else is told than what is kept, asked of all at once: mostly there are none. */
async function notKept(client: Queryable, streams: readonly MirroredStream[]) {
  const fields = Map.groupBy(await readFields(client, streams), ({ stream }) => stream)
  const { rows: labels } = await client.query<Text & { stream: string }>(
    'select stream, field, code, text from tidemark.label where stream = any ($1)',
    [streams.map(({ name }) => name)],
  )
  const kept = Map.groupBy(labels, ({ stream }) => stream)
  return streams.filter((stream) => {
    const { changed, texts } = compare(stream, fields.get(stream.name) ?? [])
    return (
      changed.length > 0 ||
      inOneOrder(texts) !== inOneOrder(kept.get(stream.name) ?? []) ||
      wordsOf(stream.meaning ?? nothingSaid) !== null
    )
  })
}

const inOneOrder = (texts: readonly Text[]): string =>
  JSON.stringify(texts.map(({ field, code, text }) => JSON.stringify([field, code, text])).toSorted())

async function readFields(client: Queryable, streams: readonly MirroredStream[]): Promise<readonly Field[]> {
  const { rows } = await client.query<Field>(
    `select stream, folded, source_name as "sourceName", column_name as "columnName", column_type as "columnType",
       label, unit, meaning, meant_reference as "meantReference", label_column as "labelColumn"
     from tidemark.field where stream = any ($1) order by first_seen_at, folded`,
    [streams.map(({ name }) => name)],
  )
  return rows
}

/** What of it is to be another, and all its texts. */
function compare({ fieldKinds = {}, meaning = nothingSaid }: MirroredStream, fields: readonly Field[]) {
  const taken = new Set(fields.flatMap(({ columnName }) => columnName ?? []))
  const described = new Map(Object.entries(fieldKinds).map(([name, { texts }]) => [foldField(name), texts]))
  const wanted = fields.map((before) => {
    const said = saidOf(before, meaning)
    const texts = said?.values ?? new Map(Object.entries(described.get(foldField(before.sourceName)) ?? {}))
    const now = {
      ...before,
      label: said?.label ?? null,
      unit: said?.unit ?? null,
      meaning: said?.description ?? null,
      meantReference: said?.refersTo ?? null,
      labelColumn: texts.size > 0 ? labelColumn(before, taken) : before.labelColumn,
    }
    if (now.labelColumn !== null) taken.add(now.labelColumn)
    return { before, now, texts }
  })
  return {
    changed: wanted.filter(({ now, before }) => JSON.stringify(now) !== JSON.stringify(before)),
    texts: wanted.flatMap(({ now, texts }) =>
      [...texts].map(([code, text]): Text => ({ field: now.folded, code, text })),
    ),
  }
}

/** By the name of the field, or by that of the column. */
const saidOf = ({ sourceName, columnName }: Field, { fields }: StreamMeaning): FieldMeaning | undefined =>
  fields.get(foldField(sourceName)) ?? fields.get(foldField(columnName ?? ''))

/** A column keeps its texts once it has them, because views lose no column: those that nobody names any more are empty. */
function labelColumn(
  { columnName: column, columnType: type, labelColumn: known }: Field,
  taken: ReadonlySet<string>,
): string | null {
  if (column === null || type === 'jsonb') return null
  const names = [known, column.replace(/(?<=.)_id$/, ''), `${column}_label`, `${column}_label_2`]
  const free = names.flatMap((name) => (name === null ? [] : columnName(name)))
  return free.find((name) => name !== column && !taken.has(name)) ?? null
}

async function writeFields(client: Queryable, stream: string, fields: readonly Told[]): Promise<void> {
  if (fields.length === 0) return
  await client.query(
    `update tidemark.field as known
     set label = said.label, unit = said.unit, meaning = said.meaning, meant_reference = said."meantReference",
         label_column = said."labelColumn"
     from jsonb_to_recordset($2) as said (folded text, label text, unit text, meaning text, "meantReference" text, "labelColumn" text)
     where known.stream = $1 and known.folded = said.folded`,
    [stream, holdableJson(fields)],
  )
}

/** Returns whether there are other texts now. */
async function writeTexts(client: Queryable, stream: string, texts: readonly Text[]): Promise<boolean> {
  const { rowCount } = await client.query(
    `with wanted as (select field, code, text from jsonb_to_recordset($2) as wanted (field text, code text, text text)),
     gone as (
       delete from tidemark.label as known where stream = $1
         and not exists (select from wanted where (wanted.field, wanted.code) = (known.field, known.code))
       returning code
     ), written as (
       insert into tidemark.label as known (stream, field, code, text) select $1, field, code, text from wanted
       on conflict (stream, field, code) do update set text = excluded.text where known.text <> excluded.text
       returning code
     )
     select from gone union all select from written`,
    [stream, holdableJson(texts)],
  )
  return (rowCount ?? 0) > 0
}
