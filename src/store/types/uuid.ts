// UUIDs.

import { isUuid } from '../../streams/record.ts'
import { type Cells, hexValues, minus, quote, writeTextRange } from './cells.ts'
import { typeRules } from './column-type.ts'

/** For SQL, without regard to case. */
export const uuidPattern = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'

const dashes = [9, 14, 19, 24] as const

function fromBytes(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== 38 || bytes[start] !== quote) return false
  for (const dash of dashes) if (bytes[start + dash] !== minus) return false
  const { binary, binaryEnd } = cells
  let seen = 0
  let from = start + 1
  for (let at = binaryEnd + 4; at < binaryEnd + 20; at++) {
    if (bytes[from] === minus) from++
    const high = hexValues[bytes[from] as number] as number
    const low = hexValues[bytes[from + 1] as number] as number
    seen |= high | low
    binary[at] = (high << 4) | low
    from += 2
  }
  if (seen > 15) return false
  cells.view.setInt32(binaryEnd, 16)
  cells.binaryEnd = binaryEnd + 20
  writeTextRange(cells, start + 1, end - 1)
  return true
}

export const uuid = typeRules({
  isString: true,
  fromJson: (value) => (typeof value === 'string' && isUuid(value) ? value : null),
  fromBytes,
  fitsKey: isUuid,
  keySql: (column, quoted) => quoted(`${column}::text`),
})
