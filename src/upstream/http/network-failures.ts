// Failures of the network by their codes: what they mean, whether trying again can help, and whether the request may have
// arrived. The library's error itself goes no further: it carries the request's headers (P9).

import { count, inMegabytes } from '../../util/text.ts'
import type { Method } from '../operations/table.ts'
import { errorOf, type UpstreamError, type UpstreamErrorCode } from './errors.ts'

export type NetworkFailure = {
  readonly code: string
  readonly message: string
  /** Whether the answer had begun. */
  readonly phase: 'request' | 'body'
  /** The phase that took too long, if one did. */
  readonly timedOutAt?: string | null
  /** How many bytes of the body were sent. */
  readonly sentBytes?: number
}

type Asked = {
  readonly method: Method
  readonly url: URL
  readonly body: string | null
  /** Through which it was asked; null or left out: directly. */
  readonly proxy?: URL | null
}

type Meaning = {
  readonly code: UpstreamErrorCode
  readonly problem: string
  readonly retryable: boolean
  readonly mayHaveArrived: boolean
}

export function networkError(request: Asked, failure: NetworkFailure): UpstreamError {
  const { code, message } = failure
  const { url, proxy = null } = request
  const meaning = (proxy && meaningWithProxy(proxy, url.host, failure)) ?? meaningOf(url.host, failure)
  const sent = meaning.mayHaveArrived ? sentText(request, failure) : ''
  return errorOf(request, {
    ...meaning,
    problem: `${meaning.problem}${sent}`,
    cause: Object.assign(new Error(message), { code }),
  })
}

/** Servers hang up on what is too large for them, often before the answer that says so can be read. */
function sentText({ body }: Asked, { phase, sentBytes = 0 }: NetworkFailure): string {
  if (body === null || phase === 'body') return ''
  const total = Buffer.byteLength(body)
  const share = ` ${count(Math.min(sentBytes, total))} of ${count(total)} bytes were sent.`
  return total < suspiciousBytes
    ? share
    : `${share} Services hang up on requests that are too large for them; often 30 MB is the most, and less for one value of a form.`
}
const suspiciousBytes = 1_000_000

/** `what` is too much, in words. */
export function tooLargeError(request: Asked, what: string): UpstreamError {
  const advice = /one record/.test(what)
    ? 'A smaller PAGE_SIZE does not help: ask who runs the upstream what this record is.'
    : request.url.searchParams.has('PageSize')
      ? 'Set a smaller PAGE_SIZE.'
      : 'Tidemark reads no more than that at a time: ask who runs the upstream what it sends there.'
  return errorOf(request, { code: 'UPSTREAM_TOO_LARGE', retryable: false, problem: `${what}. ${advice}` })
}

export const noRoomError = (request: Asked, bytes: number, mostBytes: number): UpstreamError =>
  errorOf(request, {
    code: 'UPSTREAM_NO_ROOM',
    retryable: true,
    problem: `the answer has ${inMegabytes(bytes)} or more, and together with other answers at the same time that is more than the ${inMegabytes(mostBytes)} that Tidemark keeps for all of them. It is asked for again. If this stays, set a smaller PAGE_SIZE, or give Tidemark more memory.`,
  })

export const unpagedError = (request: Asked, mostBytes: number): UpstreamError =>
  errorOf(request, {
    code: 'UPSTREAM_UNPAGED',
    retryable: false,
    problem: `more than ${mostBytes} bytes came for PageSize=${request.url.searchParams.get('PageSize')}, as if everything there is: the upstream does not know what Sorts or Filters names, and leaves paging out. Reading went no further.`,
  })

const beforeSending = { code: 'UPSTREAM_UNREACHABLE', retryable: true, mayHaveArrived: false } as const
const underWay = { retryable: true, mayHaveArrived: true } as const
const connectPhases = new Set(['lookup', 'connect', 'secureConnect'])

/** Null: the proxy is not to blame. */
function meaningWithProxy(proxy: URL, host: string, { code, message }: NetworkFailure): Meaning | null {
  const [, status] = /HTTP\/1\.\d (\d{3})/.exec(message) ?? []
  const isTunnel = code === 'ERR_PROXY_TUNNEL'
  if (!isTunnel && !Object.hasOwn(unreachable, code)) return null
  const refusal = status && `answers ${status}${proxyAdvice[status] ?? '. Its own log says why'}.`
  const what = refusal ?? (isTunnel ? 'does not answer in time.' : `cannot be reached (${code}).`)
  return {
    ...beforeSending,
    ...(isTunnel && !status && { code: 'UPSTREAM_TIMEOUT' }),
    problem: `the proxy ${proxy.host}, through which ${host} is asked, ${what} Check HTTPS_PROXY and HTTP_PROXY, or name the host in NO_PROXY.`,
  }
}

const proxyAdvice: Readonly<Record<string, string>> = {
  403: ': it does not let requests to that host pass. Have the host allowed there',
  407: ': it wants a user and a password, or others than it gets. Put them before its host, with @ behind them',
  502: ': it cannot reach that host',
  503: ': it cannot reach that host',
  504: ': it gets no answer from that host',
}

function meaningOf(host: string, { code, phase, timedOutAt }: NetworkFailure): Meaning {
  if (timedOutAt && connectPhases.has(timedOutAt))
    return { ...beforeSending, code: 'UPSTREAM_TIMEOUT', problem: `no connection to ${host} in time.` }
  if (timedOutAt || code === 'ETIMEDOUT')
    return {
      ...underWay,
      code: 'UPSTREAM_TIMEOUT',
      problem: `no complete answer in time. If answers are slow, raise REQUEST_TIMEOUT or set a smaller PAGE_SIZE.`,
    }
  if (isAboutCertificates(code))
    return {
      ...beforeSending,
      retryable: false,
      problem: `the TLS certificate of ${host} is not accepted (${code}). Check the URL, or name the certificate of its authority in EXTRA_CA_FILE.`,
    }
  if (code === 'EPROTO')
    return {
      ...beforeSending,
      retryable: false,
      problem: `${host} does not speak TLS on this port. Check whether the URL should begin with http:// or have another port.`,
    }
  const known = unreachable[code]
  if (known) return { ...beforeSending, problem: `${known.replace('HOST', host)} (${code}).` }
  if (code.startsWith('Z_') || code.startsWith('ERR_BROTLI') || phase === 'body')
    return {
      ...underWay,
      code: 'UPSTREAM_TRUNCATED',
      problem: `the answer was cut off or damaged (${code}).`,
    }
  return {
    ...underWay,
    code: 'UPSTREAM_UNREACHABLE',
    problem: `the connection to ${host} broke before an answer came (${code}).`,
  }
}

const unreachable: Readonly<Record<string, string>> = {
  ENOTFOUND: 'there is no host HOST. Check the URL and the DNS',
  EAI_AGAIN: 'the DNS does not answer for HOST',
  ECONNREFUSED: 'HOST refuses the connection. Check the URL, the port, and that the service runs',
  EHOSTUNREACH: 'there is no route to HOST. Check the network and the firewall',
  ENETUNREACH: 'there is no route to HOST. Check the network and the firewall',
}

const isAboutCertificates = (code: string): boolean =>
  /CERT|SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)|ERR_TLS/.test(code)
