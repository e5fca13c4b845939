// The rows of a stream, the newest change first: searched and paged through as on the page of rows.

import { z } from 'zod'
import { parseJson } from '../json/parse.ts'
import {
  deletedChoices,
  isRowCursor,
  numberTypes,
  type RowCursor,
  type RowTable,
  readRowPage,
  rowTable,
} from '../store/book/rows.ts'
import { pickStream } from '../streams/catalog.ts'
import { NotThere, UsageError } from '../util/errors.ts'
import {
  amount,
  document,
  type Facts,
  heldText,
  list,
  moment,
  momentIn,
  streamName,
  time,
  withRelated,
} from './document.ts'

type Column = RowTable['columns'][number]

const row = z.object({
  key: z.string(),
  changed_at: time.describe('when it changed here'),
  is_deleted: z.boolean(),
  has_misfits: z.boolean().describe('a value did not fit its column'),
  is_late: z.boolean().describe('it became visible only after the mirror had passed its version'),
  values: z.record(z.string(), z.unknown()).describe('by column; numbers with all their digits'),
})

const rowPage = z
  .object({
    key_column: z.string(),
    rows: list(row),
    looked: amount.describe('so many rows were looked at'),
    is_cut: z.boolean().describe('the search took long and was stopped: `next` goes on'),
    next: z.string().nullable().describe('the cursor of the next page; null: that was all'),
  })
  .meta({ id: 'RowPage' })

const text = heldText.max(100)
const column = heldText.min(1).max(63)
/** As downloads have them: longer texts are cut, and a page of large ones ends early (P10). */
const bounds = { mostCharacters: 1_000_000, mostBytes: 2_000_000 }

export const rows = document({
  path: '/streams/{stream}/rows',
  title: 'Rows of a stream, the newest change first; searched',
  isSearch: true,
  asked: z.strictObject({
    stream: streamName,
    q: text.default('').describe('what a text, a number or the key has to hold'),
    field: column.optional().describe('a column, which has to hold `value`'),
    value: text.min(1).optional().describe('`null` finds empty ones'),
    deleted: z.enum(deletedChoices).default('shown'),
    from: moment.optional().describe('changed here since then'),
    to: moment.optional().describe('changed here before then'),
    column: z.array(column).max(100).default([]).describe('only these; may be repeated'),
    limit: z.int().min(1).max(1000).default(50).describe('how many rows'),
    cursor: heldText.max(1100).optional().describe('`next` of the page before'),
  }),
  answer: rowPage,
  async read({ pool, streams }: Pick<Facts, 'pool' | 'streams'>, { q, deleted, limit, ...asked }) {
    const stream = pickStream(asked.stream, withRelated(streams))
    const table = await rowTable(pool, stream)
    if (!table) throw new NotThere(`Nothing of ${stream.name} is stored yet.`)
    const all = [table.tableSchema.key, ...table.columns]
    const named = (name: string): Column => {
      const found = all.find((one) => one.name === name)
      if (found) return found
      throw new NotThere(
        `${stream.name} has no column "${name}". It has ${all.map((one) => one.name).join(', ')}.`,
      )
    }
    const columns = asked.column.length === 0 ? table.columns : asked.column.map(named)
    const within = { from: momentIn(asked.from), to: momentIn(asked.to) }
    const search = { text: q.trim(), deleted, within, field: fieldIn(asked, named) }
    const after = asked.cursor === undefined ? null : cursorIn(asked.cursor)
    const found = await readRowPage(pool, table, { columns, search, after, limit, ...bounds })
    return {
      key_column: table.tableSchema.key.name,
      rows: found.rows.map(({ key, changedAt, isDeleted, hasMisfits, isLate, values }) => ({
        key,
        changed_at: changedAt,
        is_deleted: isDeleted,
        has_misfits: hasMisfits,
        is_late: isLate,
        values: Object.fromEntries(
          columns.map((one, index) => [one.name, jsonValue(one, values[index] ?? null)]),
        ),
      })),
      looked: found.looked,
      is_cut: found.isCut,
      next: found.next && cursorOf(found.next),
    }
  },
  nextOf: ({ next }: z.output<typeof rowPage>) => next,
})

function fieldIn(
  { field, value }: { readonly field?: string | undefined; readonly value?: string | undefined },
  named: (name: string) => Column,
) {
  if (field === undefined && value === undefined) return null
  if (field === undefined || value === undefined)
    throw new UsageError('`field` and `value` belong together: give both, or none.')
  return { column: named(field).name, value }
}

/** As the document of a record has it (P4). */
function jsonValue({ type }: Column, value: string | null): unknown {
  if (value === null) return null
  if (numberTypes.includes(type) && /^-?\d/.test(value)) return JSON.rawJSON(value)
  if (type === 'timestamptz') return value.replace(/^(\S+) (\S+[+-]\d\d)$/, '$1T$2:00')
  if (type === 'boolean') return value === 'true'
  return type === 'jsonb' && value.length < bounds.mostCharacters ? parseJson(Buffer.from(value)) : value
}

const cursorOf = ({ at, key }: RowCursor): string => `${at} ${key}`

function cursorIn(text: string): RowCursor {
  const [, at, key] = /^(\S+ \S+) (.*)$/s.exec(text) ?? []
  if (at !== undefined && key !== undefined && isRowCursor({ at, key })) return { at, key }
  throw new UsageError('`cursor` is none that a page of rows named as `next`.')
}
