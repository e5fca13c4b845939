// A stream of the upstream as the rules of reading see it: pages of changes, pages of a list, one record by its key.
// What an answer means for the mirror is not decided here.

import { ofAnswers } from '../json/bounds.ts'
import { type Json, type JsonObject, repeatedFields } from '../json/json.ts'
import type { Stream } from '../streams/catalog.ts'
import { isObject, readRecords } from '../streams/record.ts'
import { type Answer, ListRefused, type ListRequest, type Lookup, type Source } from '../sync/ports/source.ts'
import { isRecordPage, parsedRecords, type RecordPage } from '../wire/record-page.ts'
import type { Upstream, UpstreamAnswer } from './client.ts'
import { isListLeftOut, toldTotal, wrappedList } from './envelopes.ts'
import { UpstreamError } from './http/errors.ts'
import { type AnyRequest, ParameterError, pathParameterNames } from './operations/request.ts'
import { type Operation, operationNamed } from './operations/table.ts'

/** As much as a record of a list may have. */
const mostRecordBytes = ofAnswers.recordBytes

/** `sortField` is what `Sorts` names; null: nobody knows yet which field that is, and nothing can be sorted. */
export function openSource(
  upstream: Upstream,
  stream: Stream,
  sortField: string | null = null,
  pageLength = openPageLength(),
): Source {
  const list = operationNamed(stream.list)
  const lookup = stream.lookup === null ? null : operationNamed(stream.lookup)
  /** Asks for a page. Its size is limited where an upstream that does not know a name would answer with everything. */
  const askPage = async (
    operation: Operation,
    request: AnyRequest,
    signal: AbortSignal,
    { pageSize, lowPriority }: { readonly pageSize: number; readonly lowPriority?: boolean | undefined },
  ) => {
    const isNaming = request.query?.Sorts !== undefined || request.query?.Filters !== undefined
    const mostBytes = isNaming ? pageLength.mostBytes(pageSize) : undefined
    const asked = await upstream.callForRecords(operation, request, signal, { mostBytes, lowPriority })
    const answer = listOf(operation, asked)
    pageLength.note(answer)
    return answer
  }

  return {
    sortedBy: (field) => openSource(upstream, stream, field, pageLength),
    async changes({ since, page, pageSize, sorts, below = null, lowPriority }, signal) {
      if (stream.kind !== 'changes')
        throw new Error(`the stream ${stream.name} cannot be read by row version`)
      const changes = operationNamed(stream.changes)
      const sorted = sorts !== null &&
        sortField !== null && { Sorts: sorts === 'ascending' ? sortField : `-${sortField}` }
      const filtered = below !== null && sortField !== null && { Filters: `${sortField}<${below}` }
      const query = { Page: page, PageSize: pageSize, ...sorted, ...filtered }
      try {
        return await askPage(changes, { path: { rowVersion: since }, query }, signal, {
          pageSize,
          lowPriority,
        })
      } catch (error) {
        if (sorts === null || !refusesParameters(error)) throw error
        const { status, problem } = error
        return status === null ? { refused: 200, why: problem } : { refused: status }
      }
    },
    async list({ page, pageSize, byKey }, signal) {
      const query = { ...pageQuery(list, page, pageSize), ...(byKey && keyQuery(byKey)) }
      try {
        return await askPage(list, { query }, signal, { pageSize })
      } catch (error) {
        throw byKey && refusesParameters(error)
          ? new ListRefused(error.message, error.noPage)
          : stream.isAdded
            ? asAdded(stream, list, error)
            : error
      }
    },
    listHasPages: pageSizeName(list) !== null,
    lookup: lookup === null ? filteredLookup(upstream, stream, list) : lookedUp(lookup),
  }

  function lookedUp(lookup: Operation): NonNullable<Source['lookup']> {
    return async (key, signal) => {
      const [parameter = ''] = pathParameterNames(lookup.path)
      try {
        const request = { path: { [parameter]: key } }
        const { body } = await upstream.call(lookup, request, signal, { largestBytes: mostRecordBytes })
        return foundRecord(body, key, stream)
      } catch (error) {
        return lookupAfter(error)
      }
    }
  }
}

/**
 * Looks up a record by filtering its list, for an added stream that offers no other look. A record that the list lacks is called gone
 * only if the opposite condition shows something: a filter that is ignored, or shows nothing to anybody, proves nothing (P7, P11).
 */
function filteredLookup(upstream: Upstream, stream: Stream, list: Operation): Source['lookup'] {
  const [field] = stream.keyFields
  if (!stream.isAdded || stream.kind !== 'changes' || field === undefined) return null
  const ask = async (condition: string, signal: AbortSignal) => {
    const request = { query: { Filters: condition, Page: 1, PageSize: 2 } }
    return listOf(list, await upstream.callForRecords(list, request, signal)).records
  }
  return async (key, signal) => {
    try {
      const records = await ask(`${field}==${key}`, signal)
      const { rows } = readRecords(records, stream.keyFields, null)
      const row = rows.find((one) => one.key === key)
      if (row) return { found: row.record }
      if (records.length > 0) return 'unclear'
      const others = readRecords(await ask(`${field}!=${key}`, signal), stream.keyFields, null).rows
      return others.length > 0 && others.every((one) => one.key !== key) ? 'gone' : 'unclear'
    } catch (error) {
      const said = lookupAfter(error)
      // Here `gone` means that the list is not there, and not that the record is gone.
      return said === 'gone' ? 'unclear' : said
    }
  }
}

function pageQuery(list: Operation, page: number, pageSize: number): Readonly<Record<string, number>> {
  const sizeName = pageSizeName(list)
  return sizeName === null ? {} : { Page: page, [sizeName]: pageSize }
}

const keyQuery = ({ field, after, order }: NonNullable<ListRequest['byKey']>) => ({
  Sorts: order === 'ascending' ? field : `-${field}`,
  ...(after !== null && { Filters: `${field}>${after}` }),
})

const pageSizeName = ({ query }: Operation): string | null =>
  Object.keys(query).find((name) => name.toLowerCase() === 'pagesize') ?? null

/** The upstream refuses the parameters, or does not know them. Errors about rights, or that pass by themselves, do not count. */
const refusesParameters = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError &&
  (error.code === 'UPSTREAM_UNPAGED' ||
    (error.code === 'UPSTREAM_STATUS' && (error.status === 400 || error.status === 422)))

// How long a page may be before it is none: an upstream that does not know the name in `Sorts` or `Filters` may answer with everything
// there is, and that is noticed while it streams in (P10).
const slackBytes = 1_048_576
const longRecordBytes = 16_384

function openPageLength() {
  let recordBytes: number | null = null
  return {
    /** Four times what as many records were seen to take. */
    mostBytes: (pageSize: number): number =>
      slackBytes + Math.ceil(4 * pageSize * (recordBytes ?? longRecordBytes)),
    note({ records, bytes }: Answer) {
      if (records.length > 0) recordBytes = Math.max(recordBytes ?? 0, bytes / records.length)
    },
  }
}

/** Explains an error of a list that only STREAMS names: mostly its path is wrong. */
function asAdded({ name }: Stream, operation: Operation, error: unknown): unknown {
  const isOther =
    error instanceof UpstreamError &&
    (error.code === 'UPSTREAM_SHAPE' ||
      (error.code === 'UPSTREAM_STATUS' && [404, 405].includes(error.status ?? 0)))
  if (!isOther) return error
  const { code, method, path, status } = error
  const what =
    status === 404
      ? 'status 404: the upstream has no such list, or does not show it to this user.'
      : error.problem
  const advice = `STREAMS names it (${name}=${operation.path}): correct its path there, or take it out. \`tidemark contract streams\` shows the lists that the upstream describes.`
  return new UpstreamError({
    code,
    method,
    path,
    status,
    retryable: false,
    body: error.body,
    noPage: error.noPage,
    cause: error,
    problem: `${what} ${advice}`,
  })
}

function listOf(operation: Operation, answer: UpstreamAnswer<Json | RecordPage>): Answer {
  const { body, bytes, status, headers } = answer
  if (isRecordPage(body)) return { records: body, bytes, total: toldTotal(null, headers) }
  const records = Array.isArray(body) ? body : wrappedList(body)
  if (records) return { records, bytes, total: toldTotal(body, headers) }
  throw new UpstreamError({
    code: 'UPSTREAM_SHAPE',
    method: operation.method,
    path: operation.path,
    status,
    retryable: false,
    problem: `the answer should be a list, or an object with one list in it, but is ${shapeOf(body)}.`,
    noPage: body === null || isListLeftOut(body) ? 'null' : null,
  })
}

function shapeOf(body: Json | null): string {
  if (!isObject(body)) return body === null ? 'null' : `a ${typeof body}`
  const fields = Object.entries(body).map(
    ([field, value]) => `${field.slice(0, 60)} (${Array.isArray(value) ? 'a list' : typeof value})`,
  )
  return fields.length === 0 ? 'an empty object' : `an object with ${fields.slice(0, 20).join(', ')}`
}

/** Found only if the answer is that record: it may be an explanation why the record is not there. */
function foundRecord(body: Json | null, key: string, stream: Stream): Lookup {
  const { rows } = readRecords([body], stream.keyFields, null)
  const [row] = rows
  return row?.key === key ? { found: row.record } : 'unclear'
}

/**
 * P7: gone is only what the service itself says is not there; a page for a browser comes from something before it, and the status of a
 * refused sign-in says nothing of a record.
 */
export function lookupAfter(error: unknown): Lookup {
  if (error instanceof ParameterError) return 'unclear'
  if (!(error instanceof UpstreamError) || error.status === null || error.code !== 'UPSTREAM_STATUS')
    throw error
  if (error.status === 404 || error.status === 410) return error.excerpt?.startsWith('<') ? 'unclear' : 'gone'
  // A record that breaks the upstream, or that this user may not see, must not stop the look at all others.
  if ([204, 400, 403, 405, 409, 422, 500].includes(error.status)) return 'unclear'
  throw error
}

/** The secret in an address at which a worker receives webhooks: also an earlier one, or that of another source. */
const secretOfHook = /(?<=\/hooks\/(?:[\w.-]{1,63}\/)?)[\w-]{16,200}(?=$|[?#])/g

// A source whose records do not show the secrets of this program (P9): the worker subscribes with an address that holds one, and with another
// one to sign with, and subscriptions are mirrored like everything else.
export function maskSource(source: Source, secrets: readonly string[]): Source {
  const mask = (value: Json): Json => {
    if (typeof value === 'string')
      return secrets.reduce(
        (text, secret) => text.replaceAll(secret, '[secret]'),
        value.replaceAll(secretOfHook, '[secret]'),
      )
    if (Array.isArray(value)) return value.map(mask)
    return isObject(value) ? maskObject(value) : value
  }
  const maskObject = (record: JsonObject): JsonObject => {
    const masked = Object.fromEntries(Object.entries(record).map(([name, value]) => [name, mask(value)]))
    const repeated = record[repeatedFields]
    return repeated ? { ...masked, [repeatedFields]: maskObject(repeated) } : masked
  }
  const { lookup } = source
  return {
    ...source,
    async list(request, signal) {
      const answer = await source.list(request, signal)
      return { ...answer, records: parsedRecords(answer.records).map(mask) }
    },
    lookup:
      lookup &&
      (async (key, signal) => {
        const answer = await lookup(key, signal)
        return typeof answer === 'string' ? answer : { found: maskObject(answer.found) }
      }),
  }
}
