// Puts an answer on the wire, rightly or as a fault has it.

import type { ServerResponse } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { createGzip, gzip } from 'node:zlib'
import { type Answer, wholeBody } from './answer.ts'

export type Delivery = 'whole' | 'never' | 'reset' | { readonly bytesPerSecond: number }

export async function deliver(
  response: ServerResponse,
  answer: Answer,
  delivery: Delivery,
  isCompressed: boolean,
): Promise<void> {
  if (delivery === 'never' || response.destroyed) return
  const { status, body, contentType, headers } = answer
  response.statusCode = status
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value)
  if (body !== null) response.setHeader('content-type', contentType)
  if (body !== null && isCompressed) response.setHeader('content-encoding', 'gzip')
  if (delivery === 'whole' && body !== null && !Array.isArray(body))
    return stream(response, body, isCompressed)
  const whole = isCompressed && body !== null ? [await compressed(wholeBody(answer))] : [...(body ?? [])]
  if (status !== 204) response.setHeader('content-length', lengthOf(whole))
  if (delivery === 'whole') return send(response, whole)
  if (delivery === 'reset') return resetHalfway(response, Buffer.concat(whole))
  await drip(response, Buffer.concat(whole), delivery.bytesPerSecond)
}

const lengthOf = (pieces: readonly Buffer[]) => pieces.reduce((sum, piece) => sum + piece.length, 0)

/** Pieces are not joined first: copying a page costs as much as sending it. */
function send(response: ServerResponse, pieces: readonly Buffer[]): void {
  response.cork()
  for (const piece of pieces) response.write(piece)
  response.end()
}

function stream(response: ServerResponse, body: Iterable<Buffer>, isCompressed: boolean): void {
  const pieces = Readable.from(body, { objectMode: false, highWaterMark: 1_000_000 })
  // A client that leaves early is no error of the stand-in.
  if (isCompressed) pipeline(pieces, createGzip({ level: 1 }), response, () => {})
  else pipeline(pieces, response, () => {})
}

const compressed = (bytes: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    gzip(bytes, { level: 1 }, (error, result) => (error ? reject(error) : resolve(result)))
  })

function resetHalfway(response: ServerResponse, bytes: Buffer): void {
  const reset = () => response.socket?.resetAndDestroy()
  if (bytes.length === 0) reset()
  else response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), reset)
}

async function drip(response: ServerResponse, bytes: Buffer, bytesPerSecond: number): Promise<void> {
  const pieceBytes = Math.max(1, Math.floor(bytesPerSecond / 10))
  for (let start = 0; start < bytes.length && !response.destroyed; start += pieceBytes) {
    response.write(bytes.subarray(start, start + pieceBytes))
    await delay(100)
  }
  response.end()
}
