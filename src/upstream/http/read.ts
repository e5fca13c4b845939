// Receives the answers to reads, which are most of what goes over the network, with as little as possible between the socket and the memory
// of a page. Never asks twice, never goes to another address.

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { pipeline } from 'node:stream'
import { type BrotliDecompress, createBrotliDecompress, createUnzip, type Unzip } from 'node:zlib'
import type { Agents } from '../../util/proxies.ts'
import type { NetworkFailure } from './network-failures.ts'

export type Reading = {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly agents: Agents
  /** For each step until there is a connection. */
  readonly connectMs: number
  /** From the beginning to the last byte. */
  readonly requestMs: number
  readonly signal: AbortSignal
  /** Called with each part of the answer, unpacked, once a promise it returned is settled. `announced`: the length of the whole; 0: unknown. */
  take(chunk: Buffer, announced: number): Promise<void> | undefined
}

/** The network failed, or it took too long. */
export class ReadFailure extends Error {
  override readonly name = 'ReadFailure'
  readonly failure: NetworkFailure

  constructor(failure: NetworkFailure) {
    super(failure.message)
    this.failure = failure
  }
}

/** Resolves when the last byte was taken. Rejects with a ReadFailure, the signal's reason, or what `take` threw. */
export function readAnswerOf(reading: Reading): Promise<IncomingMessage> {
  const { url, headers, agents, requestMs, signal } = reading
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const isSecure = url.protocol === 'https:'
  const options = { agent: isSecure ? agents.https : agents.http, headers: { ...headers, ...packings } }
  const request = isSecure ? httpsRequest(url, options) : httpRequest(url, options)
  let phase: NetworkFailure['phase'] = 'request'
  let isOver = false

  const end = (error?: unknown) => {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    connecting.end()
    signal.removeEventListener('abort', stop)
    if (error === undefined) return
    request.destroy()
    reject(error)
  }
  const fail = ({ code = 'ECONNRESET', message }: NodeJS.ErrnoException) =>
    end(new ReadFailure({ code, message, phase }))
  const timedOut = (at: string) =>
    end(new ReadFailure({ code: 'ETIMEDOUT', message: `${at} took too long`, phase, timedOutAt: at }))
  const stop = () => end(signal.reason)
  const timer = setTimeout(timedOut, requestMs, 'request')
  const connecting = limitConnecting(request, isSecure, reading.connectMs, () => timedOut('connect'))

  signal.addEventListener('abort', stop, { once: true })
  request.on('error', fail)
  request.on('response', (response) => {
    phase = 'body'
    const finish = () => {
      end()
      resolve(response)
    }
    const failUnlessEmpty = (error: NodeJS.ErrnoException) =>
      isEmpty(response, unpacked) ? finish() : fail(error)
    const unpacked = unpack(response, failUnlessEmpty)
    const announced = unpacked === response ? Number(response.headers['content-length'] ?? 0) : 0
    unpacked.on('data', (chunk: Buffer) => {
      try {
        const waiting = isOver ? undefined : reading.take(chunk, announced)
        if (!waiting) return
        unpacked.pause()
        waiting.then(() => unpacked.resume(), end)
      } catch (error) {
        end(error)
      }
    })
    unpacked.on('error', failUnlessEmpty)
    unpacked.on('end', finish)
  })
  request.end()
  return promise
}

const packings = { 'accept-encoding': 'gzip, deflate, br' }

/** An answer without a body, although its headers say that it is packed: that is no error, the status counts. */
const isEmpty = (response: IncomingMessage, unpacked: IncomingMessage | Unpacking): boolean =>
  'bytesWritten' in unpacked && response.complete && unpacked.bytesWritten === 0

type Unpacking = Unzip | BrotliDecompress

function unpack(
  response: IncomingMessage,
  onError: (error: NodeJS.ErrnoException) => void,
): IncomingMessage | Unpacking {
  const packing = response.headers['content-encoding']?.trim().toLowerCase() ?? ''
  const unpacking =
    packing === 'br'
      ? createBrotliDecompress()
      : /^(?:x-)?gzip$|^deflate$/.test(packing)
        ? createUnzip()
        : null
  if (unpacking === null) return response
  return pipeline(response, unpacking, (error) => {
    if (error) onError(error)
  })
}

/** Fails a request that gets no connection in time. A kept connection is there at once. */
function limitConnecting(request: ClientRequest, isSecure: boolean, longestMs: number, onLate: () => void) {
  let timer: NodeJS.Timeout | undefined
  let connecting: Socket | null = null
  const begin = () => {
    clearTimeout(timer)
    timer = setTimeout(onLate, longestMs)
  }
  const end = () => {
    clearTimeout(timer)
    // Or else the connection would hold this request and its answer for as long as it is kept.
    connecting?.off('lookup', begin).off('connect', connected).off('secureConnect', end)
    connecting = null
  }
  const connected = isSecure ? begin : end
  request.once('socket', (socket) => {
    if (!socket.connecting) return
    connecting = socket
    begin()
    socket.once('lookup', begin).once('connect', connected).once('secureConnect', end)
  })
  return { end }
}
