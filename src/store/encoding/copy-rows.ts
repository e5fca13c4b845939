// The rows of a page as bytes of COPY, each written once: plain ones in the binary format, the others as lines of text. Of each row the
// hash is taken from its text, whichever way it goes, and any choice of rows can be sent.

import { hash } from 'node:crypto'
import type { Row } from '../../streams/record.ts'
import type { SpareBytes } from '../../wire/spare-bytes.ts'
import { type Cells, copyNull, jsonbVersion, viewOf } from '../types/cells.ts'

/** What each row begins with: the columns, and their types. */
export const hashAndFlagColumns = {
  _hash: 'bytea',
  _deleted_at: 'timestamptz',
  _deleted_reason: 'text',
} as const

// Long enough that no two records of a mirror will ever share one by chance.
export const hashBytes = 16
const beforeHash = '\\\\x'
// To Postgres `now` is when the transaction began.
const flagCells = { deleted: '\tnow\tsource\t', living: `\t${copyNull}\t${copyNull}\t` } as const
const chunkBytes = 262_144
/** A chunk as long as this, of a row with a file for example, is not kept for reuse: what is read next needs that memory (P10). */
const longChunkBytes = 4 * chunkBytes

/** What a binary row begins with: its number of cells, its hash, and three nulls (not deleted, no reason, nothing rescued). */
const leadingBytes = 2 + 4 + hashBytes + 3 * 4
const leadingCells = 4

/** Rows in the two formats of COPY; either may be empty. */
export type Copies = { readonly binary: readonly Buffer[]; readonly text: readonly Buffer[] }

const newChunks = (spare: SpareBytes, sign: 1 | -1) => ({
  /** The sign of these chunks in RowPlaces. */
  sign,
  spare,
  /** The memory of all of them. */
  taken: [] as Buffer[],
  full: [] as Buffer[],
  last: Buffer.alloc(0) as Buffer,
  end: 0,
})
type Chunks = ReturnType<typeof newChunks>
/** For each row: its chunk (binary ones count up from 1, text ones down from -1, 0 is none), where it begins there, and where it ends. */
type RowPlaces = { readonly chunks: Int32Array; readonly starts: Int32Array; readonly ends: Int32Array }

/** The rows of a page as far as they are written. */
export type CopyRows = ReturnType<typeof openCopyRows>

export const openCopyRows = (rowCount: number, spare: SpareBytes) => ({
  binary: newChunks(spare, 1),
  text: newChunks(spare, -1),
  rows: [] as Row[],
  places: {
    chunks: new Int32Array(rowCount),
    starts: new Int32Array(rowCount),
    ends: new Int32Array(rowCount),
  } satisfies RowPlaces,
  hashes: Buffer.allocUnsafe(rowCount * hashBytes),
  deletions: new Uint8Array(rowCount),
})

/** Points `cells` at the place where the row will stand, with room for `most` bytes. Nothing is added yet. */
export function beginBinary({ binary }: CopyRows, cells: Cells, most: number, cellCount: number): void {
  makeRoom(binary, leadingBytes + most)
  if (cells.binary !== binary.last) {
    cells.binary = binary.last
    cells.view = viewOf(binary.last)
  }
  const { view } = cells
  view.setInt16(binary.end, leadingCells + cellCount)
  view.setInt32(binary.end + 2, hashBytes)
  for (let flag = 0; flag < 3; flag++) view.setInt32(binary.end + 6 + hashBytes + 4 * flag, -1)
  cells.binaryEnd = binary.end + leadingBytes
}

/** Puts JSON for what fits no column into the row that is being written. A row that has no room for it goes as text. */
export function addRescued({ binary }: CopyRows, cells: Cells, json: Buffer): void {
  const at = binary.end + leadingBytes
  const length = jsonbVersion.length + json.length
  if (cells.binaryEnd + length > cells.binary.length) {
    cells.isTextOnly = true
    return
  }
  cells.binary.copyWithin(at + length, at, cells.binaryEnd)
  cells.view.setInt32(at - 4, length)
  jsonbVersion.copy(cells.binary, at)
  json.copy(cells.binary, at + jsonbVersion.length)
  cells.binaryEnd += length
}

export function addBinary(copyRows: CopyRows, row: Row, cells: Cells, digest: string): void {
  const { binary } = copyRows
  const hashStart = binary.end + 6
  for (let byte = 0; byte < hashBytes; byte++) binary.last[hashStart + byte] = digest.charCodeAt(byte)
  note(copyRows, row, binary, cells.binaryEnd, digest, false)
}

/** Adds a row by the text of its cells, which begins with what was rescued of it. */
export function addText(copyRows: CopyRows, row: Row, cells: Cells, digest: string, isDeleted: boolean) {
  const { text } = copyRows
  const prefix = prefixOf(digest, isDeleted)
  makeRoom(text, prefix.length + cells.textEnd + 1)
  const start = text.end + text.last.write(prefix, text.end, 'latin1')
  const end = start + cells.text.copy(text.last, start, 0, cells.textEnd)
  text.last[end] = newLine
  note(copyRows, row, text, end + 1, digest, isDeleted)
}

/**
 * The same of cells that are strings. Each is written straight to its place: one with a file would otherwise be in memory twice (P10).
 * `hashed`: the cells to make the hash from instead.
 */
export function addCells(
  copyRows: CopyRows,
  row: Row,
  cells: readonly string[],
  isDeleted: boolean,
  hashed: readonly string[] | null,
): void {
  const { text } = copyRows
  const prefixBytes = prefixOf(noDigest, isDeleted).length
  makeRoom(text, prefixBytes + cells.reduce((bytes, cell) => bytes + mostBytesOf(cell) + 1, 0))
  const start = text.end + prefixBytes
  let end = start
  let hashedEnd = start
  for (let index = 0; index < cells.length; index++) {
    const cell = cells[index] as string
    if (index > 0) text.last[end++] = tab
    end += text.last.write(cell, end)
    if (index === 0 || cell !== copyNull) hashedEnd = end
  }
  const digest = hash('sha1', hashed ? lineOf(hashed) : text.last.subarray(start, hashedEnd), 'binary')
  text.last.write(prefixOf(digest, isDeleted), text.end, 'latin1')
  text.last[end] = newLine
  note(copyRows, row, text, end + 1, digest, isDeleted)
}

/** Columns that came later are null in older rows; leaving them out keeps the hashes of those rows. */
const lineOf = ([rescued = copyNull, ...cells]: readonly string[]): string =>
  [rescued, ...cells.slice(0, cells.findLastIndex((cell) => cell !== copyNull) + 1)].join('\t')

/** Of a short cell it is not worth counting. */
const mostBytesOf = (cell: string): number =>
  cell.length < shortCell ? 3 * cell.length : Buffer.byteLength(cell)
const shortCell = 1_000

function note(copyRows: CopyRows, row: Row, chunks: Chunks, end: number, digest: string, isDeleted: boolean) {
  const { places } = copyRows
  const index = addHash(copyRows, row, digest, isDeleted)
  places.chunks[index] = chunks.sign * (chunks.full.length + 1)
  places.starts[index] = chunks.end
  places.ends[index] = end
  chunks.end = end
}

/** Adds only the hash, for a row that is only compared. */
export function addHash(
  { rows, places, hashes, deletions }: CopyRows,
  row: Row,
  digest: string,
  isDeleted: boolean,
): number {
  const index = rows.push(row) - 1
  places.chunks[index] = 0
  deletions[index] = isDeleted ? 1 : 0
  for (let byte = 0; byte < hashBytes; byte++) hashes[index * hashBytes + byte] = digest.charCodeAt(byte)
  return index
}

export type EncodedRows = ReturnType<typeof encodedRows>

export function encodedRows({ binary, text, rows, places, hashes, deletions }: CopyRows) {
  const all = { binary: allOf(binary), text: allOf(text) }
  return {
    rows: rows as readonly Row[],
    /** The hashes of all rows, one behind the other. */
    hashes,
    /** For each row: 1 where the source says that it is deleted. */
    deletions,
    /** Of some rows there is only the hash: they can be compared, and are in none of the copies. */
    areOnlyHashes: places.chunks.subarray(0, rows.length).includes(0),
    all: all as Copies,
    /** The copies of some rows, by their index. */
    only(indexes: readonly number[]): Copies {
      if (indexes.length === rows.length) return all
      return { binary: pick(indexes, places, all.binary, 1), text: pick(indexes, places, all.text, -1) }
    },
    /** Call it when the rows are written: their memory is used for others. */
    release: () => releaseChunks([binary, text], all),
  }
}

const prefixOf = (digest: string, isDeleted: boolean): string =>
  `${beforeHash}${hexOf(digest)}${isDeleted ? flagCells.deleted : flagCells.living}`

const noDigest = '\0'.repeat(hashBytes)
const tab = 0x09
const newLine = 0x0a

const hexOf = (digest: string): string => Buffer.from(digest.slice(0, hashBytes), 'latin1').toString('hex')

function makeRoom(chunks: Chunks, bytes: number): void {
  if (chunks.end + bytes > chunks.last.length) beginChunk(chunks, bytes)
}

function beginChunk(chunks: Chunks, bytes: number): void {
  if (chunks.last.length > 0) chunks.full.push(chunks.last.subarray(0, chunks.end))
  chunks.last = chunks.spare.take(Math.max(chunkBytes, bytes))
  chunks.taken.push(chunks.last)
  chunks.end = 0
}

function releaseChunks(released: readonly Chunks[], all: Readonly<Record<string, Buffer[]>>): void {
  for (const copies of Object.values(all)) copies.length = 0
  for (const chunks of released) {
    for (const chunk of chunks.taken) if (chunk.length <= longChunkBytes) chunks.spare.giveBack(chunk)
    Object.assign(chunks, newChunks(chunks.spare, chunks.sign))
  }
}

const allOf = ({ full, last, end }: Chunks): Buffer[] =>
  end > 0 ? [...full, last.subarray(0, end)] : [...full]

/** Collects the bytes of some rows, of one sign (format). Rows that stand side by side are one part. */
function pick(indexes: readonly number[], places: RowPlaces, chunks: readonly Buffer[], sign: 1 | -1) {
  const parts: Buffer[] = []
  const areTogether = (one: number, next: number | undefined) =>
    next === one + 1 && places.chunks[next] === places.chunks[one] && places.starts[next] === places.ends[one]
  for (let at = 0; at < indexes.length; at++) {
    const first = indexes[at] as number
    const chunk = chunks[sign * (places.chunks[first] ?? 0) - 1]
    if (!chunk) continue
    let last = first
    while (areTogether(last, indexes[at + 1])) last = indexes[++at] as number
    parts.push(chunk.subarray(places.starts[first], places.ends[last]))
  }
  // Several parts are joined into one write. A single one, which may be long, is not copied once more (P10).
  return parts.length > 1 ? [Buffer.concat(parts)] : parts
}
