// A ZIP of files, equal bytes for equal files: sorted, with one fixed time, stored as they are.

import { crc32 } from 'node:zlib'
import type { Files } from './facts.ts'

/** 1 January 1980, the first day that a ZIP can name. */
const fixedDate = 0x21

export function zipOf(files: Files): Uint8Array {
  const entries: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [path, content] of Object.entries(files).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const [name, body] = [Buffer.from(path), Buffer.from(content)]
    const facts = factsOf(name, body)
    const head = Buffer.concat([Buffer.from('PK\x03\x04'), facts, name, body])
    directory.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\0'), facts, placeAt(offset), name]))
    entries.push(head)
    offset += head.length
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06')
  end.writeUInt16LE(directory.length, 8)
  end.writeUInt16LE(directory.length, 10)
  end.writeUInt32LE(size, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...entries, ...directory, end])
}

/** What stands before an entry and again in the directory: version 2.0, names in UTF-8, stored, date, checksum, sizes. */
function factsOf(name: Buffer, body: Buffer): Buffer {
  const facts = Buffer.alloc(26)
  facts.writeUInt16LE(20, 0)
  facts.writeUInt16LE(0x0800, 2)
  facts.writeUInt16LE(fixedDate, 8)
  facts.writeUInt32LE(crc32(body), 10)
  facts.writeUInt32LE(body.length, 14)
  facts.writeUInt32LE(body.length, 18)
  facts.writeUInt16LE(name.length, 22)
  return facts
}

/** What the directory says besides: no comment, the first disk, no attributes, and where the entry is. */
function placeAt(offset: number): Buffer {
  const place = Buffer.alloc(14)
  place.writeUInt32LE(offset, 10)
  return place
}
