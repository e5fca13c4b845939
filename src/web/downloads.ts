// Lists to take along: the rows of a stream as CSV, and the record of who did what as NDJSON.

import { Readable } from 'node:stream'
import type { RowCursor } from '../store/book/rows.ts'
import { csvLine } from '../util/csv.ts'
import { type Noting, openDownloadNotes } from './noting.ts'
import { isTooSlow } from './page-routes.ts'
import { mostInCsv, rowsAsked } from './pages/rows.ts'
import type { Console } from './readers.ts'
import { type Reader, readerOf } from './reading-places.ts'
import { summaryColumns } from './row-queries.ts'
import { queryOf, type Routes } from './server.ts'
import type { StatusQueries } from './status-queries.ts'

const pageSize = 500
/** That are in memory at once (P10). */
const mostBytes = 2_000_000
const longestCell = 1_000_000

const config = { place: 'download' } as const

export const downloadRoutes =
  ({ statusQueries, ...noting }: Pick<Console, 'statusQueries'> & Noting): Routes =>
  (server) => {
    const noteDownload = openDownloadNotes(noting)
    server.get('/actions.ndjson', { config }, async (request, reply) => {
      const reader = readerOf(request)
      const queries = statusQueries(reader)
      if (!queries) return reply.code(503).send({ error: 'The worker still waits for its database.' })
      await noteDownload(request, { target: 'who did what', stream: null, told: 'All lines as NDJSON.' })
      return reply
        .header('content-type', 'application/x-ndjson; charset=utf-8')
        .send(Readable.from(whileMayRead(reader, actionLines(queries))))
    })
    server.get<{ Params: { name: string } }>(
      '/streams/:name/rows.csv',
      { config },
      async (request, reply) => {
        const reader = readerOf(request)
        const queries = statusQueries(reader)
        if (!queries) return reply.code(503).send({ error: 'The worker still waits for its database.' })
        const { name } = request.params
        if (!queries.streams.includes(name)) return reply.callNotFound()
        const lines = rowLines(queries, name, queryOf(request))
        // Wait for the first line: a search that fails at once gets an error page, and no file that ends early.
        const first = await lines.next().catch((error) => {
          if (isTooSlow(error)) return null
          throw error
        })
        if (first === null)
          return reply
            .code(503)
            .send({ error: 'This search took longer than 2 s and was stopped. Ask for less.' })
        if (first.done) return reply.code(404).send({ error: `Nothing of ${name} is stored yet.` })
        // What was searched for is not kept: it may be somebody's name.
        const told = `Rows as CSV, ${request.url.includes('?') ? 'those of a search or in an order' : 'all of them'}.`
        await noteDownload(request, { target: name, stream: name, told })
        return reply
          .headers({
            'content-type': 'text/csv; charset=utf-8',
            'content-disposition': `attachment; filename="${name}.csv"`,
          })
          .send(Readable.from(whileMayRead(reader, startingWith(first.value, lines))))
      },
    )
  }

/** The newest first. */
async function* actionLines(queries: StatusQueries): AsyncGenerator<string> {
  for (let before: string | null = null; ; ) {
    const actions = await queries.actions({ stream: null, before, limit: pageSize })
    for (const action of actions) yield `${JSON.stringify(action)}\n`
    const last = actions.at(-1)
    if (!last) return
    before = last.id
  }
}

async function* rowLines(
  queries: StatusQueries,
  stream: string,
  query: URLSearchParams,
): AsyncGenerator<string> {
  const isRaw = query.get('raw') === '1'
  const asked = {
    ...rowsAsked(query, new Date()),
    choose: summaryColumns,
    limit: pageSize,
    mostCharacters: longestCell,
    mostBytes,
  }
  let after: RowCursor | null = null
  for (let rows = 0; rows < mostInCsv; ) {
    const shown = await queries.rows(stream, { ...asked, after })
    if (shown === null) return
    const { columns, keyName, numbers } = shown
    const areNumbers = [keyName, ...columns].map((name) => numbers.includes(name))
    const page = await shown.page
    if (after === null)
      yield csvLine([keyName, ...columns, '_synced_at', '_deleted'], { areNumbers: [], isRaw }, '\r\n')
    const cells = page.rows.map((row) => [
      row.key,
      ...row.values,
      row.changedAt.toISOString(),
      String(row.isDeleted),
    ])
    if (cells.length > 0) yield cells.map((row) => csvLine(row, { areNumbers, isRaw }, '\r\n')).join('')
    rows += cells.length
    if (page.next === null) return
    after = page.next
  }
}

/** A download goes on for minutes; the session may end meanwhile, or the token be revoked. */
async function* whileMayRead(reader: Reader, lines: AsyncGenerator<string>): AsyncGenerator<string> {
  for await (const line of lines) {
    if (!(await reader.mayRead())) throw new Error('who downloads this may not read any more')
    yield line
  }
}

async function* startingWith(first: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield first
  yield* rest
}
