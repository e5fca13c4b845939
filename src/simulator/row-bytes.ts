// The bytes of rows, joined by commas. They are cached while there is room, in the buffer they were first written to,
// because the same rows are asked for again and again; a page of neighbours is then a slice of that buffer.

import type { Piece, Rendering } from './rendering.ts'
import type { Resource } from './resources.ts'
import type { Row, Span } from './row.ts'

export type RowBytes = {
  joined(resource: Resource, rows: readonly Row[]): Buffer
  /** This row is gone: its bytes make room. */
  forget(row: Row): void
}

const roomBytes = 256 * 2 ** 20
const comma = 0x2c

export function openRowBytes(rendering: Rendering): RowBytes {
  let usedBytes = 0
  let scratch = Buffer.allocUnsafeSlow(0)

  function forget(row: Row): void {
    const buffer = row.cached?.buffer
    row.cached = null
    if (buffer && --buffer.rowCount === 0) usedBytes -= buffer.bytes.length
  }

  function append(piece: Piece, end: number): number {
    const mostBytes = typeof piece === 'string' ? 3 * piece.length : piece.length
    if (end + mostBytes > scratch.length)
      scratch = Buffer.concat([scratch.subarray(0, end)], 2 * (end + mostBytes))
    if (typeof piece === 'string') return end + scratch.write(piece, end)
    scratch.set(piece, end)
    return end + piece.length
  }

  /** Writes rows one after the other into a buffer of their own, and keeps it when there is room. */
  function write(resource: Resource, rows: readonly Row[], style: number): Span[] {
    const ends: number[] = []
    let end = 0
    for (const row of rows) {
      if (ends.length > 0) end = append(',', end)
      for (const piece of rendering.pieces(resource, row)) end = append(piece, end)
      ends.push(end)
    }
    const buffer = { bytes: Buffer.from(scratch.subarray(0, end)), rowCount: 0 }
    const spans = ends.map((last, index) => {
      const start = index === 0 ? 0 : (ends[index - 1] ?? 0) + 1
      return { buffer, start, end: last, style }
    })
    for (const row of rows) forget(row)
    if (usedBytes + end <= roomBytes && rows.length > 0) {
      usedBytes += end
      buffer.rowCount = rows.length
      for (const [index, row] of rows.entries()) row.cached = spans[index] ?? null
    }
    return spans
  }

  return {
    forget,
    joined(resource, rows) {
      const style = rendering.style()
      const missing = rows.filter((row) => row.cached?.style !== style)
      const fresh = missing.length > 0 ? write(resource, missing, style) : []
      if (missing.length === rows.length) return assembled(fresh)
      const spanOf = new Map(missing.map((row, index) => [row, fresh[index]]))
      return assembled(rows.map((row) => spanOf.get(row) ?? row.cached).filter((span) => span !== null))
    },
  }
}

function assembled(spans: readonly Span[]): Buffer {
  const [first] = spans
  const last = spans.at(-1)
  if (!first || !last) return Buffer.alloc(0)
  const areNeighbours = spans.every(
    (span, index) =>
      span.buffer === first.buffer && (index === 0 || span.start === (spans[index - 1]?.end ?? 0) + 1),
  )
  if (areNeighbours) return first.buffer.bytes.subarray(first.start, last.end)
  const byteCount = spans.reduce((sum, { start, end }) => sum + end - start + 1, -1)
  const bytes = Buffer.allocUnsafe(byteCount)
  let end = 0
  for (const span of spans) {
    if (end > 0) bytes[end++] = comma
    end += span.buffer.bytes.copy(bytes, end, span.start, span.end)
  }
  return bytes
}
