// What an operation answers, before faults and HTTP get at it. Error bodies are the problem details of ASP.NET.

import { randomBytes } from 'node:crypto'
import type { Row } from './row.ts'

/** `control` is no part of the upstream: there the stand-in itself is told what to do. */
export type Service = 'auth' | 'assignment' | 'tracking' | 'control'
/** Parameter names in lower case: the upstream does not care how they are spelt. */
export type Query = ReadonlyMap<string, string>

export type Incoming = {
  readonly method: string
  readonly service: Service
  /** Without the service's prefix, e.g. `/api/Assignment`. */
  readonly path: string
  /** What comes before the path, e.g. `http://127.0.0.1:8090/assignment`. */
  readonly baseUrl?: string
  readonly query: Query
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

/** An array when it is whole in memory; otherwise pieces that are made while they are sent. */
export type Body = readonly Buffer[] | Iterable<Buffer>
export type Answer = {
  readonly status: number
  readonly body: Body | null
  readonly contentType: string
  /** The rows in the body, for faults that wait for one of them. */
  readonly rows?: readonly Row[]
  /** How this list would look without a record; only lists have it. */
  readonly ifEmpty?: Buffer
  readonly headers?: Readonly<Record<string, string>>
}

export const jsonType = 'application/json; charset=utf-8'

/** An answer without a body: the router and the sign-in refuse like this, and so do successful writes. */
export const empty = (status: number, headers?: Readonly<Record<string, string>>): Answer => ({
  status,
  body: null,
  contentType: jsonType,
  ...(headers && { headers }),
})

export const jsonText = (status: number, text: string, rows: readonly Row[] = []): Answer => ({
  status,
  body: [Buffer.from(text)],
  contentType: jsonType,
  rows,
})

export const wholeBody = ({ body }: Answer): Buffer => Buffer.concat([...(body ?? [])])

export const json = (status: number, value: unknown): Answer => jsonText(status, JSON.stringify(value))

/** The title of a status, and where RFC 9110 describes it. */
const statuses: Readonly<Record<number, readonly [title: string, section?: string]>> = {
  400: ['Bad Request', '15.5.1'],
  401: ['Unauthorized', '15.5.2'],
  403: ['Forbidden', '15.5.4'],
  404: ['Not Found', '15.5.5'],
  405: ['Method Not Allowed', '15.5.6'],
  408: ['Request Timeout', '15.5.9'],
  409: ['Conflict', '15.5.10'],
  413: ['Content Too Large', '15.5.14'],
  415: ['Unsupported Media Type', '15.5.16'],
  429: ['Too Many Requests'],
  500: ['An error occurred while processing your request.', '15.6.1'],
  502: ['Bad Gateway', '15.6.3'],
  503: ['Service Unavailable', '15.6.4'],
  504: ['Gateway Timeout', '15.6.5'],
}

export type Errors = Readonly<Record<string, readonly string[]>>

/** The most usual problem: parameters or fields that are wrong, each with what is wrong about it. */
export const invalid = (errors: Errors): Answer => problem(400, { errors })

export function problem(
  status: number,
  { detail, errors }: { readonly detail?: string; readonly errors?: Errors } = {},
): Answer {
  const [title = 'Error', section] = statuses[status] ?? []
  const body = {
    type: section ? `https://tools.ietf.org/html/rfc9110#section-${section}` : undefined,
    title: errors ? 'One or more validation errors occurred.' : title,
    status,
    detail,
    errors,
    traceId: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-00`,
  }
  // The handler of exceptions writes without a charset, unlike everything else.
  const contentType = status >= 500 ? 'application/problem+json' : 'application/problem+json; charset=utf-8'
  return { ...json(status, body), contentType }
}

export const badValue = (value: string): string => `The value '${value}' is not valid.`
export const badValueFor = (value: string, name: string): string =>
  `The value '${value}' is not valid for ${name}.`
