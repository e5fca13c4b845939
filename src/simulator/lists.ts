// Answers that are lists: checks the paging parameters, selects, cuts the page and joins the records' bytes.

import { type Answer, type Body, type Incoming, problem } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import { spanOf } from './paging.ts'
import type { Resource } from './resources.ts'
import type { Row } from './row.ts'
import type { RowBytes } from './row-bytes.ts'
import type { Criteria, Selected } from './selection.ts'
import type { Table } from './table.ts'

export type Lists = {
  /** Filtered, sorted and paged as the query says. */
  answer(table: Table, request: Incoming, since?: bigint): Answer
  /** The whole resource: for the lists that take no parameters. */
  whole(table: Table): Answer
  /** A list for a client that has no data. */
  empty(): Answer
  /** One record. */
  record(status: 200 | 201, table: Table, row: Row): Answer
}

const blockRows = 1_000
const mostRowsInMemory = 20_000
const comma = Buffer.from(',')

export function openLists(parts: {
  readonly behaviour: Behaviour
  readonly rowBytes: RowBytes
  readonly select: (table: Table, criteria: Criteria) => Selected
}): Lists {
  const { behaviour, rowBytes, select } = parts

  function* blocks(resource: Resource, rows: readonly Row[]): Generator<Buffer> {
    for (let start = 0; start < rows.length; start += blockRows) {
      if (start > 0) yield comma
      yield rowBytes.joined(resource, rows.slice(start, start + blockRows))
    }
  }

  function framed(rows: readonly Row[], pieces: () => Iterable<Buffer>): Answer {
    const name = behaviour.listWrapper
    const open = Buffer.from(name === null ? '[' : `{${JSON.stringify(name)}:[`)
    const close = Buffer.from(name === null ? ']' : ']}')
    const whole: Body = {
      *[Symbol.iterator]() {
        yield open
        yield* pieces()
        yield close
      },
    }
    return {
      status: 200,
      body: rows.length <= mostRowsInMemory ? [...whole] : whole,
      contentType: 'application/json; charset=utf-8',
      rows,
      ifEmpty: Buffer.concat([open, close]),
    }
  }

  const listAnswer = ({ resource }: Table, rows: readonly Row[]) => framed(rows, () => blocks(resource, rows))

  return {
    answer(table, request, since) {
      const page = positive(request.query.get('page'))
      const pageSize = positive(request.query.get('pagesize'))
      if (page === undefined) return refusal('Page')
      if (pageSize === undefined) return refusal('PageSize')
      const selected = select(table, {
        since: since ?? null,
        filters: request.query.get('filters') ?? null,
        sorts: request.query.get('sorts') ?? null,
      })
      if ('refused' in selected) return problem(400, selected.refused, { Sorts: [selected.refused] })
      const { from, to } = spanOf(
        { page, pageSize },
        selected.isPaged ? behaviour : { ...behaviour, pagingIgnored: true },
      )
      return listAnswer(table, selected.selection.slice(from, to))
    },
    whole: (table) => listAnswer(table, table.byId.slice(0, Number.POSITIVE_INFINITY)),
    empty: () => framed([], () => []),
    record(status, table, row) {
      const body = [rowBytes.joined(table.resource, [row])]
      return { status, body, contentType: 'application/json; charset=utf-8', rows: [row] }
    },
  }
}

/** Null when it is absent, undefined when it is wrong. */
function positive(text: string | undefined): number | null | undefined {
  if (text === undefined || text === '') return null
  const number = Number(text)
  return /^\d+$/.test(text) && number >= 1 && number <= 2_147_483_647 ? number : undefined
}

const refusal = (name: string) =>
  problem(400, `${name} is out of range.`, {
    [name]: [`The field ${name} must be between 1 and 2147483647.`],
  })
