// A request out and its answer in, with as little as possible between the socket and the memory of a page. Never asks twice, never goes to
// another address.

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { pipeline } from 'node:stream'
import { type BrotliDecompress, createBrotliDecompress, createUnzip, type Unzip } from 'node:zlib'
import type { Agents } from '../../util/proxies.ts'
import type { Method } from '../operations/table.ts'
import type { NetworkFailure } from './network-failures.ts'

export type Exchange = {
  readonly method: Method
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
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
export class ExchangeFailure extends Error {
  override readonly name = 'ExchangeFailure'
  readonly failure: NetworkFailure

  constructor(failure: NetworkFailure) {
    super(failure.message)
    this.failure = failure
  }
}

/** Resolves when the last byte was taken. Rejects with an ExchangeFailure, the signal's reason, or what `take` threw. */
export function exchange(asked: Exchange): Promise<IncomingMessage> {
  const { method, url, headers, body, agents, requestMs, signal } = asked
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const isSecure = url.protocol === 'https:'
  const content = Buffer.from(body ?? '')
  const length = method === 'GET' ? {} : { 'content-length': content.length }
  const request = (isSecure ? httpsRequest : httpRequest)(url, {
    ...{ method, agent: isSecure ? agents.https : agents.http },
    headers: { ...headers, ...packings, ...length },
  })
  let phase: NetworkFailure['phase'] = 'request'
  let sentBytes = 0
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
    end(new ExchangeFailure({ code, message, phase, sentBytes }))
  const timedOut = (at: string) => {
    const message = `${at} took too long`
    end(new ExchangeFailure({ code: 'ETIMEDOUT', message, phase, sentBytes, timedOutAt: at }))
  }
  const stop = () => end(signal.reason)
  const timer = setTimeout(timedOut, requestMs, 'request')
  const connecting = limitConnecting(request, isSecure, asked.connectMs, () => timedOut('connect'))

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
        const waiting = isOver ? undefined : asked.take(chunk, announced)
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
  sendParts(request, content, (bytes) => {
    sentBytes = bytes
  })
  return promise
}

const partBytes = 65_536

/** Part by part, so that it is known how much was sent when the connection breaks. */
function sendParts(request: ClientRequest, content: Buffer, onSent: (bytes: number) => void, from = 0): void {
  if (from >= content.length) return void request.end()
  const to = Math.min(from + partBytes, content.length)
  request.write(content.subarray(from, to), (error) => {
    if (error) return
    onSent(to)
    sendParts(request, content, onSent, to)
  })
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
  const end = () => clearTimeout(timer)
  const begin = () => {
    end()
    timer = setTimeout(onLate, longestMs)
  }
  request.once('socket', (socket) => {
    if (!socket.connecting) return
    begin()
    socket.once('lookup', begin)
    socket.once('connect', isSecure ? begin : end)
    socket.once('secureConnect', end)
  })
  return { end }
}
