// true and false.

import { type Cells, writeTextByte } from './cells.ts'
import { typeRules } from './column-type.ts'

const [t, f] = [0x74, 0x66]

function fromBytes(cells: Cells, bytes: Buffer, start: number): boolean {
  const first = bytes[start]
  if (first !== t && first !== f) return false
  writeTextByte(cells, first)
  cells.view.setInt32(cells.binaryEnd, 1)
  cells.binary[cells.binaryEnd + 4] = first === t ? 1 : 0
  cells.binaryEnd += 5
  return true
}

export const boolean = typeRules({
  fromJson: (value) => (typeof value === 'boolean' ? (value ? 't' : 'f') : null),
  fromBytes,
})
