// Answers that are lists: selects, cuts the page and joins the records' bytes; and what a list answers when something
// is wrong with it.

import { type Answer, type Body, empty, type Incoming, json, jsonText, jsonType, problem } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import { type Dialect, dialectNamed, type PageOf } from './dialects.ts'
import { wholeNumber } from './parameters.ts'
import type { Resource } from './resources.ts'
import type { Row } from './row.ts'
import type { RowBytes } from './row-bytes.ts'
import type { Criteria, Selected } from './selection.ts'
import type { Table } from './table.ts'

type ListOptions = { readonly since?: bigint; readonly defaultPageSize?: number }

export type Lists = {
  /** Filtered, sorted and paged as the query says. */
  answer(table: Table, request: Incoming, options?: ListOptions): Answer
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

type Parts = {
  readonly behaviour: Behaviour
  readonly rowBytes: RowBytes
  readonly select: (table: Table, criteria: Criteria) => Selected
}

export function openLists(parts: Parts): Lists {
  const { behaviour, rowBytes, select } = parts
  const listAnswer = ({ resource }: Table, rows: readonly Row[], asked: PageOf) =>
    framed(behaviour, rows, () => blocks(parts, resource, rows), { ...asked, records: rows.length })

  return {
    answer(table, request, { since, defaultPageSize } = {}) {
      const wrong = wrongAnswer(behaviour)
      if (wrong) return wrong
      const { query } = request
      const [page, pageSize] = [wholeNumber(query, 'page'), wholeNumber(query, 'pagesize')]
      const paging = defaultPageSize === undefined ? behaviour : { ...behaviour, defaultPageSize }
      const span = spanOf({ page, pageSize }, paging)
      const selected = select(table, {
        since: since ?? null,
        filters: query.get('filters') ?? null,
        sorts: query.get('sorts') ?? null,
        limit: span.to,
      })
      if ('refused' in selected)
        return problem(
          selected.refused,
          selected.refused === 400 ? { errors: { Sorts: [selected.why] } } : {},
        )
      if (selected.isPaged && overflows({ page, pageSize }) && behaviour.unknownNames !== 'ignored')
        return problem(500)
      const { selection, isPaged } = selected
      const sized = isPaged ? paging : { ...behaviour, pagingIgnored: true }
      const asked = pageOf(request, { page: page ?? 1, pageSize, total: selection.size }, sized)
      const spanOfPage = (number: number) => spanOf({ page: number, pageSize }, sized)
      const rowsOf = ({ from, to }: Span) => selection.slice(from, to)
      const rows = rowsOf(spanOfPage(asked.page))
      const { pastEnd, isAlsoFirst } = dialectNamed(behaviour.dialect)
      if (rows.length > 0 || (asked.page === 1 && !isAlsoFirst) || pastEnd === 'empty list')
        return listAnswer(table, shownOf(rows, behaviour, since !== undefined), asked)
      if (typeof pastEnd === 'object') return missingPage(pastEnd, asked, behaviour)
      const again = rowsOf(spanOfPage(pastEnd === 'first page' ? 1 : asked.pages))
      return listAnswer(table, shownOf(again, behaviour, since !== undefined), asked)
    },
    whole(table) {
      const rows = table.byId.slice(0, Number.POSITIVE_INFINITY)
      return wrongAnswer(behaviour) ?? listAnswer(table, rows, onlyPage(rows.length))
    },
    empty: () => wrongAnswer(behaviour) ?? framed(behaviour, [], () => []),
    record(status, table, row) {
      const body = [rowBytes.joined(table.resource, [row])]
      return { status, body, contentType: jsonType, rows: [row] }
    },
  }
}

/** The rows that are shown: without those that rights hide after a page was cut, and those that neworchanged leaves out. */
function shownOf(rows: readonly Row[], behaviour: Behaviour, isChanges: boolean): readonly Row[] {
  const { hideAfterPaging, changesOmit } = behaviour
  const isOmitted = ({ id }: Row) =>
    (hideAfterPaging !== null && id % hideAfterPaging === 0) ||
    (isChanges && changesOmit !== null && id % changesOmit === 0)
  return hideAfterPaging === null && changesOmit === null ? rows : rows.filter((row) => !isOmitted(row))
}

/** Wrong answers in place of a list, each with a status of success. */
function wrongAnswer(behaviour: Behaviour): Answer | null {
  switch (behaviour.lists) {
    case 'envelope':
      return jsonText(200, '{"success":false,"data":[]}')
    case 'null':
      return jsonText(200, 'null')
    case 'no-content':
      return empty(204)
    case 'empty':
      return framed(behaviour, [], () => [])
    default:
      return behaviour.rights === 'all' ? null : framed(behaviour, [], () => [])
  }
}

function* blocks({ rowBytes }: Parts, resource: Resource, rows: readonly Row[]): Generator<Buffer> {
  for (let start = 0; start < rows.length; start += blockRows) {
    if (start > 0) yield comma
    yield rowBytes.joined(resource, rows.slice(start, start + blockRows))
  }
}

function framed(
  behaviour: Behaviour,
  rows: readonly Row[],
  pieces: () => Iterable<Buffer>,
  page = onlyPage(rows.length),
): Answer {
  const { headers } = dialectNamed(behaviour.dialect)
  const { open, close } = frameOf(behaviour, page)
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
    contentType: jsonType,
    rows,
    ifEmpty: Buffer.concat([open, close]),
    ...(headers && { headers: headers(page) }),
  }
}

function frameOf({ dialect, listWrapper }: Behaviour, page: PageOf): { open: Buffer; close: Buffer } {
  const { envelope } = dialectNamed(dialect)
  const wrapped =
    envelope?.(['list'], page) ?? (listWrapper === null ? ['list'] : { [listWrapper]: ['list'] })
  const [open = '', close = ''] = JSON.stringify(wrapped).split('"list"')
  return { open: Buffer.from(open), close: Buffer.from(close) }
}

const onlyPage = (total: number): PageOf => ({
  page: 1,
  pageSize: total,
  total,
  pages: 1,
  records: total,
  urlOf: () => '/',
})

function pageOf(
  { baseUrl = '', path, query }: Incoming,
  { page, pageSize, total }: { page: number; pageSize: number | null; total: number },
  behaviour: PagingBehaviour,
): PageOf {
  const { from: stride } = spanOf({ page: 2, pageSize }, behaviour)
  const size = stride > 0 ? stride : Math.max(1, total)
  const others = [...query].filter(([name]) => name !== 'page')
  return {
    page,
    pageSize: size,
    total,
    records: 0,
    pages: Math.max(1, Math.ceil(total / size)),
    urlOf: (number) => `${baseUrl}${path}?${new URLSearchParams([...others, ['page', String(number)]])}`,
  }
}

function missingPage(
  { status, body }: Extract<Dialect['pastEnd'], object>,
  asked: PageOf,
  { dialect }: Behaviour,
): Answer {
  const headers = dialectNamed(dialect).headers?.(asked)
  return { ...(body ? json(status, body(asked)) : empty(status)), ...(headers && { headers }) }
}

// Which part of a list a page is. Pure arithmetic, faithful to the oddities of the real one.
export type PageRequest = { readonly page: number | null; readonly pageSize: number | null }
export type Span = { readonly from: number; readonly to: number }
export type PagingBehaviour = Pick<
  Behaviour,
  'pageCap' | 'pageCapArithmetic' | 'ownPageSize' | 'defaultPageSize' | 'pagingIgnored'
>

const everything: Span = { from: 0, to: Number.POSITIVE_INFINITY }

export function spanOf({ page, pageSize }: PageRequest, behaviour: PagingBehaviour): Span {
  const { ownPageSize } = behaviour
  const requested = ownPageSize ?? pageSize ?? behaviour.defaultPageSize
  if (behaviour.pagingIgnored || requested === null) return everything
  const taken = ownPageSize ?? Math.min(requested, behaviour.pageCap ?? requested)
  const skippedBy = behaviour.pageCapArithmetic === 'sieve' ? requested : taken
  const from = ((page ?? 1) - 1) * skippedBy
  return { from, to: from + taken }
}

/** The service multiplies in 32 bits: beyond them it skips a negative number of rows, which its database refuses. */
const overflows = ({ page, pageSize }: PageRequest): boolean =>
  page !== null && pageSize !== null && Math.imul(page - 1, pageSize) < 0
