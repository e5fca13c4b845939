// Objects and lists, kept as one JSON text: the same text for the same content whatever the order of fields, and always something that jsonb
// can hold (P4, P5).

import { type Json, repeatedFields } from '../../json/json.ts'
import { parseJson } from '../../json/parse.ts'
import { isObject } from '../../streams/record.ts'
import { writeCanonical } from './canonical-bytes.ts'
import { backslash, type Cells, jsonbVersion, tab } from './cells.ts'
import { typeRules } from './column-type.ts'
import { fitsNumeric } from './numeric.ts'
import { escapeCopy } from './text.ts'

/** Fields sorted at every level; numbers as they were written. */
export function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const fields = Object.keys(value).sort()
  return `{${fields.map((field) => `${JSON.stringify(field)}:${canonicalText(value[field] ?? null)}`).join(',')}}`
}

// NUL and lone surrogates, which JSON text can escape and jsonb cannot hold. An even run of backslashes before it is text.
const unholdable = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/i

/** Whether jsonb can hold a value; `text` is its JSON text. */
export function fitsJsonb(value: Json, text: string): boolean {
  return !(text.includes('\\u') && unholdable.test(text)) && hasReadableNumbers(value)
}

function hasReadableNumbers(value: Json): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (JSON.isRawJSON(value)) return fitsNumeric(value.rawJSON)
  return Object.values(value).every(hasReadableNumbers)
}

const marker = '$json'

/**
 * What fits no column, as a JSON object by field name. A value that jsonb cannot hold becomes `{"$json": "<its JSON text>"}`,
 * a name `$json:<its JSON text>`; what looks like that already is wrapped too, so that it can always be told.
 */
export function holdable(fields: Iterable<readonly [string, Json]>): string {
  const entries = [...fields].map(
    ([name, value]) => `${JSON.stringify(holdableName(name))}:${holdableValue(value)}`,
  )
  return `{${entries.sort().join(',')}}`
}

export function holdableValue(value: Json): string {
  const text = canonicalText(value)
  const looksWrapped = isObject(value) && Object.hasOwn(value, marker)
  return fitsJsonb(value, text) && !looksWrapped ? text : JSON.stringify({ [marker]: text })
}

function holdableName(name: string): string {
  return name.includes('\0') || !name.isWellFormed() || name.startsWith('$')
    ? `${marker}:${JSON.stringify(name)}`
    : name
}

/** Whether an object in it has a field twice. */
export function repeatsFields(value: Json): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Array.isArray(value) ? value.some(repeatsFields) : repeatedFields in value
}

/** Longer ones are parsed with their record. */
const longBytes = 65_536

function fromBytes(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  const first = bytes[start]
  if ((first !== 0x7b && first !== 0x5b) || end - start > longBytes) return false
  const { view, binary, binaryEnd } = cells
  const from = binaryEnd + 4 + jsonbVersion.length
  let written = writeCanonical(bytes, start, binary, from)
  if (written < 0) {
    const value = parseJson(bytes.subarray(start, end))
    const text = canonicalText(value)
    if (repeatsFields(value) || !fitsJsonb(value, text)) return false
    written = from + binary.write(text, from)
  }
  jsonbVersion.copy(binary, binaryEnd + 4)
  view.setInt32(binaryEnd, written - binaryEnd - 4)
  cells.binaryEnd = written
  writeEscaped(cells, from, written)
  return true
}

/** Writes as text what stands in the binary form. Canonical JSON has no other character that COPY reads as its own. */
function writeEscaped(cells: Cells, start: number, end: number): void {
  const { text, binary } = cells
  let at = cells.textEnd
  text[at++] = tab
  for (let from = start; from < end; from++) {
    const byte = binary[from] as number
    if (byte === backslash) text[at++] = byte
    text[at++] = byte
  }
  cells.textEnd = at
}

export const jsonb = typeRules({
  fromBytes,
  fromJson(value) {
    // Only objects and arrays: with scalars, one column would hold values of several kinds.
    if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return null
    const text = canonicalText(value)
    return fitsJsonb(value, text) ? escapeCopy(text) : null
  },
})
