// A row that is written from the bytes of an answer, in both forms at once: as COPY's binary format, which Postgres takes, and as its text
// format, of which the hash of the row is taken. How a value is written is the business of its type.

/** At most so many bytes does a cell take, in either form, besides those that it is made from. */
export const mostCellBytes = 80

/** A row that is being written. The caller makes sure that there is room for it. */
export type Cells = ReturnType<typeof newCells>

export const newCells = () => {
  const empty = Buffer.alloc(0) as Buffer
  return {
    /** The bytes that the values stand in. */
    source: viewOf(empty),
    /** As text: what `text` and `textEnd` say. */
    text: empty,
    textView: viewOf(empty),
    textEnd: 0,
    /** As binary. */
    binary: empty,
    view: viewOf(empty),
    binaryEnd: 0,
    /** A value can only be told as text. */
    isTextOnly: false,
    /** The day that was looked up last, and its number. */
    day: -1,
    dayNumber: 0,
  }
}

export const viewOf = ({ buffer, byteOffset, length }: Buffer): DataView =>
  new DataView(buffer, byteOffset, length)

export const tab = 0x09
export const quote = 0x22
export const minus = 0x2d
export const dot = 0x2e
export const zero = 0x30
export const nine = 0x39
export const backslash = 0x5c

/** How COPY writes null. */
export const copyNull = '\\N'
/** What jsonb begins with in the binary format. */
export const jsonbVersion = Buffer.from([1])
/** A tab, a backslash and an N, and what the next cell begins with. */
const nullText = 0x095c4e09

export function writeNull(cells: Cells): void {
  cells.textView.setInt32(cells.textEnd, nullText)
  cells.textEnd += 3
  cells.view.setInt32(cells.binaryEnd, -1)
  cells.binaryEnd += 4
}

export function writeTextByte(cells: Cells, byte: number): void {
  cells.text[cells.textEnd] = tab
  cells.text[cells.textEnd + 1] = byte
  cells.textEnd += 2
}

/** A text for COPY. */
export function writeText(cells: Cells, cell: string): void {
  cells.text[cells.textEnd] = tab
  cells.textEnd += 1 + cells.text.write(cell, cells.textEnd + 1)
}

/** Copies the value as it stands in the bytes. */
export function writeTextRange(cells: Cells, start: number, end: number): void {
  const at = cells.textEnd + 1
  cells.text[cells.textEnd] = tab
  copyText(cells.source, start, end, cells.textView, at)
  cells.textEnd = at + end - start
}

/**
 * Copies eight bytes at a time, as floats. A float is copied exactly unless it is NaN, and the bytes of a NaN cannot be UTF-8: they hold
 * 0xff, or 0x7f behind the first byte of a long character. The last eight bytes overlap those before them.
 */
export function copyText(source: DataView, start: number, end: number, to: DataView, toStart: number): void {
  if (end - start >= 8) {
    const shift = toStart - start
    for (let from = start; from < end - 8; from += 8)
      to.setFloat64(from + shift, source.getFloat64(from, true), true)
    to.setFloat64(end - 8 + shift, source.getFloat64(end - 8, true), true)
  } else if (end - start >= 4) {
    to.setInt32(toStart, source.getInt32(start, true), true)
    to.setInt32(toStart + end - start - 4, source.getInt32(end - 4, true), true)
  } else for (let from = start; from < end; from++) to.setUint8(toStart + from - start, source.getUint8(from))
}

const two32 = 4_294_967_296

/** An integer that a double holds. */
export function writeInt64(cells: Cells, number: number): void {
  const high = Math.floor(number / two32)
  cells.view.setInt32(cells.binaryEnd, 8)
  cells.view.setInt32(cells.binaryEnd + 4, high)
  cells.view.setUint32(cells.binaryEnd + 8, number - high * two32)
  cells.binaryEnd += 12
}

export function writeLargeInt64(cells: Cells, number: bigint): void {
  cells.view.setInt32(cells.binaryEnd, 8)
  cells.view.setBigInt64(cells.binaryEnd + 4, number)
  cells.binaryEnd += 12
}

/** 255: it is no digit. */
export const hexValues = new Uint8Array(256).fill(255)
for (const digit of '0123456789abcdefABCDEF') hexValues[digit.charCodeAt(0)] = Number.parseInt(digit, 16)
