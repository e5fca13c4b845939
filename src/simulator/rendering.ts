// How a row becomes JSON: generated fields, then those somebody set, then the row version, in the casing asked for.
// It keeps nothing; row-bytes.ts does.

import type { Behaviour } from './behaviour.ts'
import type { Resource } from './resources.ts'
import type { Fields, FreshFields, Row, Span } from './row.ts'

/** Text, or bytes as they are. */
export type Piece = string | Uint8Array

export type Rendering = {
  /** The record as it is served, in as many pieces as is fast. */
  pieces(resource: Resource, row: Row): readonly Piece[]
  /** The record's fields in the upstream's own spelling, whatever casing is served. A fresh object each time. */
  fields(resource: Resource, row: Row): FreshFields
  /** The JSON of fields that are not a row as it is kept. */
  stringify(fields: Fields): string
  /** A field's name as it is served. */
  cased(name: string): string
  /** Another number whenever the same row would be served otherwise. */
  style(): number
}

export function openRendering(behaviour: Behaviour): Rendering {
  const tails = { pascal: new WeakMap<Fields, Buffer>(), camel: new WeakMap<Fields, Buffer>() }
  const isCamel = () => behaviour.casing === 'camel'

  function fields(resource: Resource, row: Row): FreshFields {
    const { own, shared } = resource.parts(row)
    setVersions(own, row)
    return { ...own, ...shared, ...row.own }
  }

  function setVersions(own: FreshFields, row: Row): void {
    if (!('RowVersion' in own)) return
    const { rowVersionField: served } = behaviour
    const version = versionValue(row.version)
    own.RowVersion = served === 'both' || served === 'RowVersion' ? version : undefined
    own.SysRowVersion = served === 'both' || served === 'SysRowVersion' ? version : undefined
  }

  function pieces(resource: Resource, row: Row): readonly Piece[] {
    if (row.raw !== null) return [row.raw]
    if (row.own !== null) return [stringify(fields(resource, row))]
    const { own, shared } = resource.parts(row)
    setVersions(own, row)
    return shared ? [stringify(own).slice(0, -1), tailOf(shared)] : [stringify(own)]
  }

  /** The end of a record, from the comma after its own fields on. */
  function tailOf(shared: Fields): Buffer {
    const kept = isCamel() ? tails.camel : tails.pascal
    const known = kept.get(shared)
    if (known !== undefined) return known
    const bytes = Buffer.from(`,${stringify(shared).slice(1)}`)
    kept.set(shared, bytes)
    return bytes
  }

  function versionValue(version: bigint): unknown {
    if (behaviour.rowVersions === 'string') return version.toString()
    const number = Number(version)
    return Number.isSafeInteger(number) ? number : JSON.rawJSON(version.toString())
  }

  const stringify = (value: Fields) => JSON.stringify(isCamel() ? camelCased(value) : value)

  return {
    fields,
    stringify,
    pieces,
    cased: (name) => (isCamel() ? camelCase(name) : name),
    style() {
      const field = { both: 0, RowVersion: 1, SysRowVersion: 2, none: 3 }[behaviour.rowVersionField]
      return field * 4 + (isCamel() ? 2 : 0) + (behaviour.rowVersions === 'string' ? 1 : 0)
    },
  }
}

const camelNames = new Map<string, string>()
const keptNames = 1_000

/** As System.Text.Json does it: `UID` → `uid`, `SysUpdatedDateUTC` → `sysUpdatedDateUTC`. */
export function camelCase(name: string): string {
  const known = camelNames.get(name)
  if (known !== undefined) return known
  const leading = /^[A-Z]+(?=[A-Z][a-z])|^[A-Z]+/.exec(name)?.[0] ?? ''
  const camel = leading.toLowerCase() + name.slice(leading.length)
  if (camelNames.size < keptNames) camelNames.set(name, camel)
  return camel
}

function camelCased(value: Fields): Fields {
  const renamed: FreshFields = {}
  for (const name of Object.keys(value)) renamed[camelCase(name)] = value[name]
  return renamed
}

// The bytes of rows, joined by commas. They are kept while there is room, in the buffer they were first written to,
// because the same rows are asked for again and again; a page of neighbours is then a slice of that buffer.
export type RowBytes = {
  joined(resource: Resource, rows: readonly Row[]): Buffer
  /** This row is gone: its bytes make room. */
  release(row: Row): void
}

const roomBytes = 256 * 2 ** 20
const comma = 0x2c

export function openRowBytes(rendering: Rendering): RowBytes {
  let usedBytes = 0
  let scratch = Buffer.allocUnsafeSlow(0)

  function release(row: Row): void {
    const slab = row.kept?.slab
    row.kept = null
    if (slab && --slab.rowCount === 0) usedBytes -= slab.bytes.length
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
    const slab = { bytes: Buffer.from(scratch.subarray(0, end)), rowCount: 0 }
    const spans = ends.map((last, index) => {
      const start = index === 0 ? 0 : (ends[index - 1] ?? 0) + 1
      return { slab, start, end: last, style }
    })
    for (const row of rows) release(row)
    if (usedBytes + end <= roomBytes && rows.length > 0) {
      usedBytes += end
      slab.rowCount = rows.length
      for (const [index, row] of rows.entries()) row.kept = spans[index] ?? null
    }
    return spans
  }

  return {
    release,
    joined(resource, rows) {
      const style = rendering.style()
      const missing = rows.filter((row) => row.kept?.style !== style)
      const fresh = missing.length > 0 ? write(resource, missing, style) : []
      if (missing.length === rows.length) return assembled(fresh)
      const spanOf = new Map(missing.map((row, index) => [row, fresh[index]]))
      return assembled(rows.map((row) => spanOf.get(row) ?? row.kept).filter((span) => span !== null))
    },
  }
}

function assembled(spans: readonly Span[]): Buffer {
  const [first] = spans
  const last = spans.at(-1)
  if (!first || !last) return Buffer.alloc(0)
  const areNeighbours = spans.every(
    (span, index) =>
      span.slab === first.slab && (index === 0 || span.start === (spans[index - 1]?.end ?? 0) + 1),
  )
  if (areNeighbours) return first.slab.bytes.subarray(first.start, last.end)
  const byteCount = spans.reduce((sum, { start, end }) => sum + end - start + 1, -1)
  const bytes = Buffer.allocUnsafe(byteCount)
  let end = 0
  for (const span of spans) {
    if (end > 0) bytes[end++] = comma
    end += span.slab.bytes.copy(bytes, end, span.start, span.end)
  }
  return bytes
}
