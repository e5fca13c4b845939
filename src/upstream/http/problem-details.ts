// What a service says went wrong, read from the whole of its answer: title, detail and every entry of `errors` of a problem document
// (RFC 9457, as ASP.NET Core writes it), or the reason in `WWW-Authenticate` when there is no body. Secrets are taken out (P9).

import type { Json } from '../../json/json.ts'
import { parseJson } from '../../json/parse.ts'
import { redact } from '../../log.ts'
import { isObject } from '../../streams/record.ts'
import { sentence } from '../../util/text.ts'

export type ProblemDetails = {
  /** Title and detail. */
  readonly about: readonly string[]
  /** Each complaint with the field that it is about, as the service names it; an empty name stands for the whole request. */
  readonly errors: readonly (readonly [field: string, message: string])[]
}

const longestDocument = 262_144
const longestText = 4_000

/** Null when the answer is no such document. */
export function readProblem(bytes: Buffer): ProblemDetails | null {
  const first = bytes.find((byte) => byte > 0x20)
  if (first !== 0x7b || bytes.length > longestDocument) return null
  const body = parsed(bytes)
  if (!isObject(body)) return null
  const about = [body.title, body.detail].flatMap((value) => (typeof value === 'string' ? clean(value) : []))
  const errors = isObject(body.errors)
    ? Object.entries(body.errors).flatMap(([field, messages]) =>
        (Array.isArray(messages) ? messages : [messages]).flatMap((message) =>
          typeof message === 'string' ? [[field, clean(message)] as const] : [],
        ),
      )
    : []
  return about.length + errors.length > 0 ? { about, errors } : null
}

function parsed(bytes: Buffer): Json | undefined {
  try {
    return parseJson(bytes)
  } catch {
    return undefined
  }
}

const clean = (text: string): string =>
  redact(text)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()

/** The problem in sentences. */
export function problemText({ about, errors }: ProblemDetails): string {
  const complaints = errors.map(([field, message]) =>
    field === '' ? message : `${clean(field)}: ${message}`,
  )
  const text = [...about, ...complaints].filter(Boolean).map(sentence).join(' ')
  return text.length <= longestText ? text : `${text.slice(0, longestText)}…`
}

/** What a refusal without a body says in its header, such as `invalid_token: The token expired at …`. */
export function challengeText(header: string | undefined): string | null {
  const parts = ['error', 'error_description'].flatMap((name) => {
    const [, value] = new RegExp(`\\b${name}="((?:[^"\\\\]|\\\\.){1,300})"`).exec(header ?? '') ?? []
    return value === undefined ? [] : [clean(value.replaceAll(/\\(.)/g, '$1'))]
  })
  return parts.length > 0 ? parts.join(': ') : null
}

const mebibyte = 1_048_576
/** Three bytes of a file are four characters of a form. */
const fileShare = 3 / 4
const inMebibytes = (bytes: number): string => `${Number((bytes / mebibyte).toFixed(1))} MiB`
const inMegabytes = (bytes: number): string => `${Math.floor(bytes / 100_000) / 10} MB`
const usualFormValue = 4 * mebibyte
/** The usual limit of Kestrel. Servers in front of it often have limits of their own. */
const usualRequestSize = 30_000_000

/** Limits that are likely when a service refuses what was sent; null: it is about something else. */
export function likelyLimit(
  status: number,
  problem: ProblemDetails | null,
  sentBytes: number,
): string | null {
  const said = problem === null ? '' : problemText(problem)
  const [, length] = /value length limit (\d{1,12})/.exec(said) ?? []
  const isRequest = status === 413 || /request body (?:is )?too large/i.test(said)
  if (length !== undefined || (!isRequest && /failed to read the request form/i.test(said))) {
    const limit = length === undefined ? usualFormValue : Number(length)
    return `A value of a form may have ${inMebibytes(limit)} there, that is a file of ${inMegabytes(limit * fileShare)}.`
  }
  if (!isRequest) return null
  const [, most] = /max request body size is (\d{1,12})/i.exec(said) ?? []
  const limit =
    most === undefined
      ? `often ${inMegabytes(usualRequestSize)} is the most that a service takes`
      : `${inMegabytes(Number(most))} is the most that the service takes`
  return `The request had ${inMegabytes(sentBytes)}; ${limit}.`
}
