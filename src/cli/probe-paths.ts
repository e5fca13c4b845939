// Whether a service answers below a base URL, by asking it there without signing in, and where it does if not there. Sends no secret.

import { tokenUrl } from '../upstream/auth/token-request.ts'
import { type HttpAnswer, openTransport } from '../upstream/http/transport.ts'
import type { Proxies } from '../util/proxies.ts'
import { systemClock } from '../util/waiting.ts'
import { type Check, good, wrong } from './check.ts'

export type Service = 'assignment' | 'tracking' | 'identity'
export type PathFound = {
  readonly check: Check
  /** A base URL below which the service answers, where the given one is wrong. */
  readonly better: string | null
}

const longestMs = 10_000
const mostBytes = 1024 * 1024

const asked: Readonly<
  Record<Service, { readonly urlOf: (base: string) => URL; readonly usual: readonly string[] }>
> = {
  assignment: {
    urlOf: (base) => new URL(`${base}/api/Assignment?Page=1&PageSize=1`),
    usual: ['/assignment'],
  },
  tracking: { urlOf: (base) => new URL(`${base}/api/TrackerObject`), usual: ['/tracking'] },
  identity: { urlOf: tokenUrl, usual: ['/auth', '/identity'] },
}

export async function probePath(
  base: string,
  service: Service,
  proxies: Proxies,
  signal: AbortSignal,
): Promise<PathFound> {
  const transport = openTransport({
    ...{ proxies, requestTimeoutMs: longestMs, maxResponseBytes: mostBytes, clock: systemClock },
    freeChunks: () => {},
  })
  const { urlOf } = asked[service]
  // A sign-in without anything in it: what is there refuses it.
  const how =
    service === 'identity'
      ? ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' } as const)
      : ({ method: 'GET', headers: {}, body: null } as const)
  const ask = async (url: URL): Promise<HttpAnswer> => await transport.send({ ...how, url }, signal)
  try {
    const url = urlOf(base)
    const name = `path ${url.pathname}`
    const found = foundBy(await ask(url), service)
    if (found.isThere) return { check: good(name, found.says), better: null }
    const isThere = async (place: string) => foundBy(await ask(urlOf(place)), service).isThere
    let better: string | null = null
    for (const place of placesNear(base, service))
      if (better === null && (await isThere(place).catch(() => false))) better = place
    const instead =
      better === null
        ? `The base URL is the part before ${url.pathname.slice(new URL(base).pathname.replace(/\/$/, '').length)}: check it`
        : `The service answers below ${better}`
    return { check: wrong(name, `${found.says}. ${instead}.`), better }
  } catch (error) {
    signal.throwIfAborted()
    return { check: wrong(`path ${new URL(base).pathname}`, error), better: null }
  } finally {
    transport.close()
  }
}

/** What an answer without a sign-in says about a path. */
function foundBy({ status, headers }: HttpAnswer, service: Service): { isThere: boolean; says: string } {
  const kind = headers['content-type']?.split(';')[0]
  const there = (isThere: boolean, says: string) => ({ isThere, says })
  if (status === 401 || status === 403)
    return there(true, `answers ${status}, as a service does that wants a sign-in`)
  if (status === 404 || status === 410) return there(false, `nothing is there (${status})`)
  if (status >= 300 && status < 400)
    return there(
      false,
      `leads to another address (${status}): ${headers.location ?? 'which it does not say'}`,
    )
  if (status >= 500)
    return there(true, `answers ${status}, an error; the sign-in will show whether it is the service`)
  if (kind === 'text/html') return there(false, `is a web page and no service (${status}, ${kind})`)
  if (service === 'identity') return there(status !== 405, `answers ${status} to an empty sign-in`)
  return there(status < 300, `answers ${status}`)
}

/** Base URLs that may be meant: without what follows the base, then each folder above, then the usual names. */
export function placesNear(base: string, service: Service): readonly string[] {
  const { origin, pathname } = new URL(base)
  const own = pathname.replace(/\/(?:api|Token)(?:\/.*)?$/i, '').replace(/(?<!\/)\/+$/, '')
  const parts = own.split('/').filter(Boolean)
  const parents = parts.map((_, index) => `/${parts.slice(0, parts.length - index).join('/')}`)
  const above = [own, ...parents, '']
  const usual = asked[service].usual.flatMap((name) => [...above.map((path) => `${path}${name}`)])
  const given = pathname.replace(/(?<!\/)\/+$/, '')
  return [...new Set([...above, ...usual])].filter((path) => path !== given).map((path) => `${origin}${path}`)
}
