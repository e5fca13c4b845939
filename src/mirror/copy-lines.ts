// The lines of a page as bytes of COPY text. A line is written once: its hash is taken from the bytes that are sent.

import { hash } from 'node:crypto'
import { copyNull } from './value-encoding.ts'

export type Lines = {
  /** `emptyCells` says how many null cells the line ends with: they are no part of its hash. */
  add(cells: string, emptyCells: number, isDeleted: boolean): void
  chunks(): readonly Buffer[]
}

/** What each line begins with: the columns, and their types. */
export const hashAndFlagColumns = {
  _hash: 'bytea',
  _deleted_at: 'timestamptz',
  _deleted_reason: 'text',
} as const

// Long enough that no two records of a mirror will ever share one by chance.
const hashDigits = 32
const beforeHash = '\\\\x'
const hashBytes = beforeHash.length + hashDigits
// To Postgres `now` is when the transaction began.
const flagCells = { deleted: '\tnow\tsource\t', living: `\t${copyNull}\t${copyNull}\t` } as const
const emptyCellBytes = `\t${copyNull}`.length
const chunkBytes = 262_144
// UTF-8 needs at most three bytes for each unit of UTF-16.
const mostBytes = (text: string): number => 3 * text.length

export function openLines(): Lines {
  const full: Buffer[] = []
  let chunk = Buffer.alloc(0)
  let end = 0

  function makeRoom(bytes: number): void {
    if (end + bytes <= chunk.length) return
    if (end > 0) full.push(chunk.subarray(0, end))
    chunk = Buffer.allocUnsafeSlow(Math.max(chunkBytes, bytes))
    end = 0
  }

  return {
    add(cells, emptyCells, isDeleted) {
      const line = `${cells}\n`
      const flags = isDeleted ? flagCells.deleted : flagCells.living
      const prefixBytes = hashBytes + flags.length
      makeRoom(prefixBytes + mostBytes(line))
      const start = end + prefixBytes
      const lineEnd = start + chunk.write(line, start)
      const hashed = chunk.subarray(start, lineEnd - 1 - emptyCells * emptyCellBytes)
      const digest = hash('sha1', hashed, 'hex').slice(0, hashDigits)
      chunk.write(`${beforeHash}${digest}${flags}`, end, 'latin1')
      end = lineEnd
    },
    chunks: () => (end > 0 ? [...full, chunk.subarray(0, end)] : full),
  }
}
