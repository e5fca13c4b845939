// What an operation answers, before faults and HTTP get at it. Error bodies are ASP.NET's problem details, because that
// is what such a service most likely sends.

import type { Row } from './row.ts'

export type Service = 'auth' | 'assignment' | 'tracking'
/** Parameter names in lower case: the upstream does not care how they are spelt. */
export type Query = ReadonlyMap<string, string>

export type Incoming = {
  readonly method: string
  readonly service: Service
  /** Without the service's prefix, e.g. `/api/Assignment`. */
  readonly path: string
  readonly query: Query
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

/** An array when it is held whole; otherwise pieces that are made while they are sent. */
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

const jsonType = 'application/json; charset=utf-8'

export const noContent = (status: 200 | 204): Answer => ({ status, body: null, contentType: jsonType })

export const jsonText = (status: number, text: string, rows: readonly Row[] = []): Answer => ({
  status,
  body: [Buffer.from(text)],
  contentType: jsonType,
  rows,
})

export const wholeBody = ({ body }: Answer): Buffer => Buffer.concat([...(body ?? [])])

export const json = (status: number, value: unknown): Answer => jsonText(status, JSON.stringify(value))

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  500: 'An error occurred while processing your request.',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
}

export type Errors = Readonly<Record<string, readonly string[]>>

export function problem(status: number, detail: string, errors?: Errors): Answer {
  const title = errors ? 'One or more validation errors occurred.' : (titles[status] ?? 'Error')
  const body = { type: `https://httpstatuses.io/${status}`, title, status, detail, ...(errors && { errors }) }
  return { ...json(status, body), contentType: 'application/problem+json; charset=utf-8' }
}
