// Failures of the network by their codes: what they mean, whether trying again can help, and whether the request may have
// arrived. The library's error itself goes no further: it carries the request's headers (P9).

import type { Method } from './operations.ts'
import { UpstreamError, type UpstreamErrorCode } from './upstream-error.ts'

export type NetworkFailure = {
  readonly code: string
  readonly message: string
  /** Whether the answer had begun. */
  readonly phase: 'request' | 'body'
  /** The phase that took too long, if one did. */
  readonly timedOutAt?: string | null
}

type Asked = { readonly method: Method; readonly url: URL }

type Meaning = {
  readonly code: UpstreamErrorCode
  readonly problem: string
  readonly retryable: boolean
  readonly mayHaveArrived: boolean
}

export function networkError(request: Asked, failure: NetworkFailure): UpstreamError {
  const { code, message } = failure
  return new UpstreamError({
    ...meaningOf(request.url.host, failure),
    method: request.method,
    path: request.url.pathname,
    cause: Object.assign(new Error(message), { code }),
  })
}

export function tooLargeError(request: Asked, maxResponseBytes: number): UpstreamError {
  return new UpstreamError({
    code: 'UPSTREAM_TOO_LARGE',
    method: request.method,
    path: request.url.pathname,
    retryable: false,
    problem: `the answer is larger than ${maxResponseBytes} bytes. Ask for smaller pages (PAGE_SIZE).`,
  })
}

const beforeSending = { retryable: true, mayHaveArrived: false } as const
const connectPhases = new Set(['lookup', 'connect', 'secureConnect'])

function meaningOf(host: string, { code, phase, timedOutAt }: NetworkFailure): Meaning {
  if (timedOutAt && connectPhases.has(timedOutAt))
    return { code: 'UPSTREAM_TIMEOUT', problem: `${host} cannot be reached in time.`, ...beforeSending }
  if (timedOutAt || code === 'ETIMEDOUT')
    return {
      code: 'UPSTREAM_TIMEOUT',
      problem: `no complete answer in time. Where answers are slow, raise REQUEST_TIMEOUT or ask for smaller pages.`,
      retryable: true,
      mayHaveArrived: true,
    }
  if (isAboutCertificates(code))
    return {
      code: 'UPSTREAM_UNREACHABLE',
      problem: `the certificate of ${host} is not accepted (${code}). Check the URL, or name the authority's certificate in NODE_EXTRA_CA_CERTS.`,
      retryable: false,
      mayHaveArrived: false,
    }
  if (code === 'EPROTO')
    return {
      code: 'UPSTREAM_UNREACHABLE',
      problem: `${host} does not speak TLS there. Check whether its URL should begin with http:// or another port belongs to it.`,
      retryable: false,
      mayHaveArrived: false,
    }
  const known = unreachable[code]
  if (known)
    return {
      code: 'UPSTREAM_UNREACHABLE',
      problem: `${known.replace('HOST', host)} (${code}).`,
      ...beforeSending,
    }
  if (code.startsWith('Z_') || code.startsWith('ERR_BROTLI') || phase === 'body')
    return {
      code: 'UPSTREAM_TRUNCATED',
      problem: `the answer broke off or arrived damaged (${code}).`,
      retryable: true,
      mayHaveArrived: true,
    }
  return {
    code: 'UPSTREAM_UNREACHABLE',
    problem: `the connection to ${host} broke before an answer came (${code}).`,
    retryable: true,
    mayHaveArrived: true,
  }
}

const unreachable: Readonly<Record<string, string>> = {
  ENOTFOUND: 'there is no host HOST: check the URL and the DNS',
  EAI_AGAIN: 'the DNS does not answer for HOST',
  ECONNREFUSED: 'HOST refuses connections: check the URL, the port and whether the service runs',
  EHOSTUNREACH: 'there is no way to HOST: check the network and the firewall',
  ENETUNREACH: 'there is no way to HOST: check the network and the firewall',
}

const isAboutCertificates = (code: string): boolean =>
  /CERT|SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)|ERR_TLS/.test(code)
