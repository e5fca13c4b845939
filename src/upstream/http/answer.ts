// Reads what an answer holds, and names what else may come instead: another status, a redirect, a page of HTML, a type
// that is not JSON, JSON that is cut off.

import { JsonError } from '../../json/bounds.ts'
import type { Json } from '../../json/json.ts'
import { parseJson } from '../../json/parse.ts'
import { longestAskedMs } from '../../util/backoff.ts'
import type { FieldOrder } from '../../wire/field-order.ts'
import type { RecordPage } from '../../wire/record-page.ts'
import { scanRecords } from '../../wire/scan.ts'
import { pathParameterNames } from '../operations/request.ts'
import type { Operation } from '../operations/table.ts'
import { errorOf, excerptOf, type UpstreamError } from './errors.ts'
import { likelyLimit, readProblem } from './problem-details.ts'
import type { HttpAnswer, HttpRequest } from './transport.ts'

// Reads `Retry-After`: until when the upstream wants to be left alone (P10).
// The latest time that a Date can hold.
const latestDateMs = 8_640_000_000_000_000

/** The time in milliseconds before which not to ask again; null when the header says nothing usable. */
export function notBeforeTime(
  headers: { readonly 'retry-after'?: string | undefined; readonly date?: string | undefined },
  receivedAtMs: number,
): number | null {
  const text = headers['retry-after']?.trim()
  if (!text) return null
  if (/^\d+$/.test(text)) return Math.min(latestDateMs, receivedAtMs + Number(text) * 1000)
  const at = httpDate(text)
  if (at === null) return null
  // The date is by the upstream's clock: where that is behind ours, its own `Date` says how long to wait.
  const sentAt = httpDate(headers.date)
  return Math.min(latestDateMs, Math.max(at, sentAt === null ? 0 : receivedAtMs + (at - sentAt)))
}

export function httpDate(text: string | undefined): number | null {
  if (!text || !/[a-z]{3}/i.test(text)) return null
  // The oldest of the three formats names no zone; it is always GMT.
  const time = Date.parse(/\d{4}$/.test(text) ? `${text} GMT` : text)
  return Number.isNaN(time) ? null : time
}

/** The answer's JSON; null when it has no body, which only the answer to a change may lack. */
export const readAnswer: ReadAnswer<Json> = (...asked) => readBody(...asked, parsedAlone)

/**
 * Nothing that was parsed points into the bytes, so their memory is reused. The bytes of long answers, which are rare, go back to the
 * system, because what is made of them needs the room (P10).
 */
function parsedAlone(bytes: Buffer, { release, discard }: HttpAnswer): Json {
  const value = parseJson(bytes)
  if (bytes.length > longBytes) discard()
  else release()
  return value
}

const longBytes = 4 * 1024 * 1024

/** The same, of an answer that may be a list: then its records are found in it and not parsed. */
export const recordsReader =
  (order: FieldOrder): ReadAnswer<Json | RecordPage> =>
  (...asked) =>
    readBody(
      ...asked,
      (bytes, answer) => scanRecords(bytes, order, answer.release) ?? parsedAlone(bytes, answer),
    )

export type ReadAnswer<Body> = (operation: Operation, request: HttpRequest, answer: HttpAnswer) => Body | null

function readBody<Body>(
  operation: Operation,
  request: HttpRequest,
  answer: HttpAnswer,
  parse: (bytes: Buffer, answer: HttpAnswer) => Body,
): Body | null {
  if (!isSuccess(operation, answer.status)) throw statusError(request, answer)
  if (answer.bytes.length > 0) return readJson(request, answer, parse)
  if (operation.method !== 'GET') return null
  throw unusable(request, answer, {
    code: 'UPSTREAM_JSON',
    retryable: true,
    problem: 'the answer has no body, but should be JSON.',
  })
}

/** A read must have exactly the status of the table. For a write, any 2xx means that it was done. */
const isSuccess = (operation: Operation, status: number): boolean =>
  operation.method === 'GET' ? status === operation.success : status >= 200 && status < 300

const passing = new Set([408, 425, 429, 500, 502, 503, 504])
const isPassing = (status: number): boolean => passing.has(status) || status > 504

/** What an answer asks for with `Retry-After`, and how much of that is believed. */
function restAskedFor({ status, headers, receivedAtMs }: HttpAnswer) {
  const askedMs = isPassing(status) ? notBeforeTime(headers, receivedAtMs) : null
  if (askedMs === null) return null
  const longestMs = receivedAtMs + longestAskedMs
  const until = `It asks for no requests before ${new Date(askedMs).toISOString()}.`
  return askedMs <= longestMs
    ? { notBefore: new Date(askedMs), isLong: false, says: until }
    : {
        notBefore: new Date(longestMs),
        isLong: true,
        says: `${until} Tidemark waits an hour and then tries once.`,
      }
}

/** Null: the answer does not ask to wait. */
export const errorThatAsksToWait = (request: HttpRequest, answer: HttpAnswer): UpstreamError | null =>
  restAskedFor(answer) && statusError(request, answer)

export function statusError(request: HttpRequest, answer: HttpAnswer): UpstreamError {
  const { status } = answer
  if (status >= 300 && status < 400) return redirectError(request, answer)
  const rest = restAskedFor(answer)
  const said = readProblem(answer.bytes)
  const limit = likelyLimit(status, said, request.body?.length ?? 0)
  const hints = [rest?.says, limit, status === 404 ? slashAdvice(request) : null, askedWith(request)]
  return unusable(request, answer, {
    code: rest?.isLong ? 'UPSTREAM_ASKS_LATER' : 'UPSTREAM_STATUS',
    retryable: isPassing(status),
    notBefore: rest?.notBefore ?? null,
    problem: [`status ${status}${advice[status] ?? ''}.`, ...hints.filter(Boolean)].join(' '),
    said,
    // A page for a browser comes from something before the service.
    noPage: pagesMissing.has(status) && !isMarkup(answer.bytes) ? `status ${status}` : null,
  })
}

/** With these, services answer to a page behind the last one, too. */
const pagesMissing = new Set([204, 400, 404, 410, 416])
const recordsMissing = new Set([404, 410])

/** Whether the service answers what was asked: also that there is no such record, or no such page behind the first one. */
export function isAnswered({ method, path }: Operation, { url }: HttpRequest, answer: HttpAnswer): boolean {
  if (answer.status < 400) return true
  if (method !== 'GET' || isMarkup(answer.bytes)) return false
  if (pathParameterNames(path).some((name) => name !== 'rowVersion')) return recordsMissing.has(answer.status)
  return Number(url.searchParams.get('Page')) > 1 && pagesMissing.has(answer.status)
}

const longestQuery = 500

/** The query of the request: without it nobody could tell which of several parameters the service did not like. */
function askedWith({ url }: HttpRequest): string | null {
  if (url.search === '') return null
  const query = decodeURIComponent(url.search.replaceAll('+', ' '))
  return `It was asked with ${query.length <= longestQuery ? query : `${query.slice(0, longestQuery)}…`}.`
}

/** Many services leave `%2F` in a path as it is, and then no record has such an id. */
function slashAdvice({ url }: HttpRequest): string | null {
  const [, resource, id] =
    /\/api\/(Assignment|AssignmentNote)\/(?:IdExt\/)?([^/]*%2F[^/]*)/i.exec(url.pathname) ?? []
  if (resource === undefined || id === undefined) return null
  const field = `${resource.charAt(0).toLowerCase()}${resource.slice(1)}Idext`
  // These characters have a meaning of their own in filters, so they are escaped.
  const value = decodeURIComponent(id).replaceAll(/[\\,|]/g, String.raw`\$&`)
  const query = new URLSearchParams({ Filters: `${field}==${value}` })
  return `Many services find no external id with a slash in it by its path. Look it up in the list: GET /api/${resource}?${query} and go on with its id.`
}

const advice: Readonly<Record<number, string>> = {
  400: ': it does not accept the request',
  403: ': the integration user lacks a permission, or CLIENT_GUID belongs to another customer. Check CLIENT_GUID and the permissions of the integration user',
  404: ': there is no such record, or the base URL is wrong',
  429: ': too many requests. Set REQUESTS_PER_SECOND to ask more slowly',
  503: ': it is not available at the moment',
}

function redirectError(request: HttpRequest, answer: HttpAnswer): UpstreamError {
  const { location } = answer.headers
  const target = location && URL.canParse(location, request.url.href) ? new URL(location, request.url) : null
  const where = target ? `${target.origin}${target.pathname}` : 'another address'
  return unusable(request, answer, {
    code: 'UPSTREAM_REDIRECT',
    retryable: false,
    problem: `status ${answer.status}, a redirect to ${where}. Tidemark does not send the token there. Configure the final address.`,
  })
}

function readJson<Body>(
  request: HttpRequest,
  answer: HttpAnswer,
  parse: (bytes: Buffer, answer: HttpAnswer) => Body,
): Body {
  const type = answer.headers['content-type'] ?? ''
  if (/^\s*(?:text\/html|application\/xhtml)/i.test(type) || isMarkup(answer.bytes))
    throw unusable(request, answer, {
      code: 'UPSTREAM_HTML',
      retryable: true,
      problem:
        'the answer is an HTML page, not JSON. Often it comes from a proxy, from maintenance or from a wrong base URL.',
    })
  if (!isJsonType(type))
    throw unusable(request, answer, {
      code: 'UPSTREAM_CONTENT_TYPE',
      retryable: false,
      problem: `the answer is of the type ${type.slice(0, 100)}, not JSON in UTF-8. Check the base URL.`,
    })
  try {
    return parse(answer.bytes, answer)
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause
    throw unusable(request, answer, {
      code: cause.problem === 'too large' ? 'UPSTREAM_TOO_LARGE' : 'UPSTREAM_JSON',
      retryable: cause.problem === 'not JSON',
      problem: `${cause.message} (${answer.bytes.length} bytes).${cause.problem === 'too large' ? ' Set a smaller PAGE_SIZE.' : ''}`,
      cause,
    })
  }
}

export function isMarkup(bytes: Buffer): boolean {
  const first = bytes.find((byte) => byte > 0x20)
  return first === 0x3c
}

/** The upstream offers its JSON as plain text, too. */
function isJsonType(type: string): boolean {
  const [, charset] = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type) ?? []
  const isUtf8 = charset === undefined || /^(?:utf-?8|us-ascii)$/i.test(charset)
  return (
    isUtf8 &&
    (type === '' || /^\s*(?:(?:application|text)\/(?:[\w.-]+\+)?json|text\/plain)\s*(?:;|$)/i.test(type))
  )
}

const unusable = (
  request: HttpRequest,
  { status, bytes }: HttpAnswer,
  details: Parameters<typeof errorOf>[1],
): UpstreamError =>
  errorOf(request, { ...details, status, excerpt: excerptOf(bytes), body: beginningOf(bytes) })

const mostKeptBytes = 1_048_576

/** An error may be kept for long, and would hold the memory of a whole page (P10). */
export const beginningOf = (bytes: Buffer): Buffer => Buffer.from(bytes.subarray(0, mostKeptBytes))
