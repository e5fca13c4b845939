// Looks for an upstream's description of itself, in a file, at an address, or at the usual paths of ASP.NET, and reads it within bounds
// of time and size. It is no fault that none is served.

import { readFile, stat } from 'node:fs/promises'
import { parse as parseYaml } from 'yaml'
import type { DescriptionPlace } from '../config/parsers.ts'
import { expectBounded, JsonError } from '../json/bounds.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError, type UpstreamErrorCode } from '../upstream/http/errors.ts'
import type { HttpAnswer } from '../upstream/http/transport.ts'
import { messageOf } from '../util/errors.ts'
import type { Description } from './description.ts'
import { DescriptionError, readDescription } from './read-description.ts'

export type Finding =
  | {
      readonly found: 'description'
      readonly at: string
      readonly document: string
      readonly description: Description
    }
  /** No description is served. */
  | { readonly found: 'nothing' }
  /** There is something, and it cannot be used. */
  | { readonly found: 'unusable'; readonly at: string; readonly why: string }
  /** Nobody could say whether there is one. */
  | { readonly found: 'no answer'; readonly why: string; readonly isOfThisPlace?: boolean }

const unusable = (at: string, why: string): Finding => ({ found: 'unusable', at, why })

const usualPaths = ['/openapi/v1.json', '/swagger/v1/swagger.json', '/openapi.json']

const mostBytes = 16 * 1024 * 1024
/** YAML takes much longer to read than JSON. */
const mostYamlBytes = 2 * 1024 * 1024
const longestMs = 15_000

/** Null for the upstream: only a file can be read. */
export async function findDescription(
  place: DescriptionPlace,
  upstream: Upstream | null,
  signal: AbortSignal,
): Promise<Finding> {
  if (place.kind === 'file') return await readDescriptionFile(place.at)
  if (upstream === null) return { found: 'no answer', why: 'the upstream is not configured' }
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(longestMs)])
  const asking = { upstream, signal: bounded }
  if (place.kind === 'url')
    return (
      (await askAt(asking, new URL(place.at), true)) ??
      unusable(shownAddress(new URL(place.at)), 'there is none at this address (404)')
    )
  const [first, ...others] = usualPlaces(upstream.baseUrl)
  const atFirst = first ? await askAt(asking, first, false) : null
  // If the first place gave no answer, because the service is down or wants fewer requests, the other places are not asked.
  const isEnough =
    atFirst?.found === 'description' || (atFirst?.found === 'no answer' && !atFirst.isOfThisPlace)
  const atOthers = isEnough ? [] : await Promise.all(others.map((url) => askAt(asking, url, false)))
  const found = [atFirst, ...atOthers].filter((finding) => finding !== null)
  const best = (wanted: Finding['found']) => found.find((finding) => finding.found === wanted)
  return best('description') ?? best('unusable') ?? best('no answer') ?? { found: 'nothing' }
}

/** A query may hold a secret (P9). */
const shownAddress = ({ origin, pathname }: URL): string => `${origin}${pathname}`

/** The usual paths, below the base URL and at the root of its host. */
function usualPlaces(baseUrl: string): readonly URL[] {
  const bases = [...new Set([baseUrl, new URL(baseUrl).origin])]
  return bases.flatMap((base) => usualPaths.map((path) => new URL(`${base}${path}`)))
}

type Asking = { readonly upstream: Upstream; readonly signal: AbortSignal }

/** Asks with the token first, and then without: a description that is open to everybody may refuse a token. Null: none is there. */
async function askAt({ upstream, signal }: Asking, url: URL, isNamed: boolean): Promise<Finding | null> {
  let failure: unknown = null
  let refusal: Finding | null = null
  const isOwn = url.href.startsWith(`${new URL(upstream.baseUrl).origin}/`)
  for (const isSigned of isOwn ? [true, false] : [false])
    try {
      const answer = await upstream.askOnce(url, { isSigned, mostBytes }, signal)
      const found = readAnswered(url, answer, isNamed)
      answer.discard()
      if (answer.status === 401 || answer.status === 403) refusal = found
      else if (found !== null || answer.status === 404) return found
    } catch (error) {
      const why = error instanceof UpstreamError ? tooMuch[error.code] : undefined
      if (why !== undefined) return unusable(shownAddress(url), why)
      failure ??= error
    }
  if (failure === null) return refusal
  const why = signal.aborted ? `no answer within ${longestMs / 1_000} s` : messageOf(failure)
  return { found: 'no answer', why }
}

const tooLarge = `it is larger than ${mostBytes / 1024 / 1024} MB`
const tooDeep = 'it is nested too deeply'
const holdsTooMuch = 'it holds more than any description does'
const tooMuch: Partial<Record<UpstreamErrorCode, string>> = {
  UPSTREAM_UNPAGED: tooLarge,
  UPSTREAM_TOO_LARGE: holdsTooMuch,
}

/** Null: the answer is no description, for example where a service answers everything with a page of its own. */
function readAnswered(url: URL, { status, headers, bytes }: HttpAnswer, isNamed: boolean): Finding | null {
  const at = shownAddress(url)
  if (status >= 500 || status === 429) {
    const why = `${url.pathname} answers with status ${status}`
    return { found: 'no answer', why, isOfThisPlace: status === 500 }
  }
  const type = headers['content-type'] ?? ''
  const isPage = /html/i.test(type) || bytes.subarray(0, 100).toString('latin1').trimStart().startsWith('<')
  if (status === 200 && !isPage) {
    const finding = readBytes(at, bytes, /yaml/i.test(type))
    return finding.found === 'unusable' && !isNamed && !saysDescription(bytes) ? null : finding
  }
  if (!isNamed || status === 404) return null
  const where = headers.location
    ? `, a redirect to ${headers.location.replace(/[?#].*$/s, '').slice(0, 200)}`
    : ''
  return unusable(at, isPage ? 'it is a page for browsers' : `status ${status}${where}`)
}

/** Whether the answer calls itself a description. Where nobody named the place, anything else is the service's answer to everything. */
const saysDescription = (bytes: Buffer): boolean =>
  /"(?:openapi|swagger)"\s*:|^(?:openapi|swagger)\s*:/m.test(bytes.subarray(0, firstBytes).toString('latin1'))
const firstBytes = 64 * 1024

async function readDescriptionFile(path: string): Promise<Finding> {
  try {
    const { size } = await stat(path)
    if (size > mostBytes) return unusable(path, tooLarge)
    return readBytes(path, await readFile(path), false)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    return unusable(path, `the file cannot be read (${code ?? messageOf(cause)})`)
  }
}

function readBytes(at: string, bytes: Buffer, isYaml: boolean): Finding {
  try {
    const read = parseDescription(bytes, isYaml || /\.ya?ml$/i.test(at))
    const document = JSON.stringify(read)
    return { found: 'description', at, document, description: readDescription(read) }
  } catch (error) {
    if (error instanceof RangeError) return unusable(at, tooDeep)
    if (!(error instanceof DescriptionError)) throw error
    return unusable(at, error.message)
  }
}

function parseDescription(bytes: Buffer, isYaml: boolean): unknown {
  try {
    expectBounded(bytes)
  } catch (cause) {
    const isDeep = cause instanceof JsonError && cause.problem === 'nested too deep'
    throw new DescriptionError(isDeep ? tooDeep : holdsTooMuch, { cause })
  }
  const text = bytes.toString('utf8').replace(/^\ufeff/, '')
  try {
    return JSON.parse(text)
  } catch (cause) {
    if (!isYaml && /^\s*[[{]/.test(text)) throw new DescriptionError('it is not JSON', { cause })
    return parsedYaml(text)
  }
}

function parsedYaml(text: string): unknown {
  if (text.length > mostYamlBytes)
    throw new DescriptionError(
      `it is YAML of more than ${mostYamlBytes / 1024 / 1024} MB: convert it to JSON`,
    )
  try {
    // Aliases that repeat each other are refused by the parser. To look for keys that come twice, it would compare each with all others.
    return parseYaml(text, { maxAliasCount: 100, logLevel: 'error', uniqueKeys: false })
  } catch (cause) {
    throw new DescriptionError('it is neither JSON nor YAML', { cause })
  }
}
