// Reads JSON without losing a digit (P4) or a repeated field (P5). JSON.parse does the work; a scan of the text finds
// what it would lose, and only a text with repeated fields or numbers in arrays is read by the parser of our own.

import { parseCarefully } from './careful-json.ts'
import type { Json, JsonArray } from './json.ts'
import { findFields, inexactSource } from './json-scan.ts'

export type JsonProblem = 'not UTF-8' | 'not JSON' | 'nested too deep'

export class JsonError extends Error {
  override readonly name = 'JsonError'
  readonly problem: JsonProblem

  constructor(problem: JsonProblem, message: string, options?: ErrorOptions) {
    super(message, options)
    this.problem = problem
  }
}

// JSON.parse reads any depth, but whatever walks the value afterwards would run out of stack.
const deepest = 500

const utf8 = new TextDecoder('utf-8', { fatal: true })

export function parseJson(bytes: Uint8Array): Json {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  // Not toString: of more than a megabyte it makes strings outside the heap, which pile up until the next full collection.
  const text = decodeUtf8(buffer)
  const value = parsePlainly(text)
  const { fieldCount, colons, hasTrickyName } = findFields(text)
  const walk: Walk = {
    text,
    colons,
    fieldCount: 0,
    inexact: [],
    isUncertain: hasTrickyName || typeof value === 'number',
  }
  walkValue(value, walk, 0)
  // More fields in the text than in the value: one was repeated, or a string holds something that looks like a field.
  if (walk.fieldCount !== fieldCount || walk.isUncertain) return parseCarefully(buffer)
  // Each field is the object's own by now, `__proto__` too, so that plain assignment does not reach the prototype.
  for (const { object, field, source } of walk.inexact) object[field] = JSON.rawJSON(source)
  return value
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw new JsonError('not UTF-8', 'the text is not valid UTF-8', { cause })
  }
}

function parsePlainly(text: string): Json {
  try {
    return JSON.parse(text)
  } catch (error) {
    // The engine's own message quotes the text, which may hold a secret (P9): only the place is told.
    const [, place] = /at position (\d+)/.exec(String(error)) ?? []
    const isCut = /end of JSON input|Unterminated/.test(String(error)) || Number(place) >= text.length
    const where = isCut ? ': it is cut off' : place === undefined ? '' : ` at position ${place}`
    throw new JsonError('not JSON', `the text is not JSON${where}`)
  }
}

type MutableObject = { [field: string]: Json }

type Walk = {
  readonly text: string
  readonly colons: Int32Array
  /** Fields met so far, in the order of the text: a field comes before the fields inside it. */
  fieldCount: number
  readonly inexact: { readonly object: MutableObject; readonly field: string; readonly source: string }[]
  isUncertain: boolean
}

function walkValue(value: Json, walk: Walk, depth: number): void {
  if (typeof value !== 'object' || value === null) return
  if (depth > deepest)
    throw new JsonError('nested too deep', `the JSON is nested deeper than ${deepest} levels`)
  if (Array.isArray(value)) walkArray(value, walk, depth)
  else walkObject(value as MutableObject, walk, depth)
}

function walkArray(array: JsonArray, walk: Walk, depth: number): void {
  for (const item of array) {
    if (typeof item === 'object') walkValue(item, walk, depth + 1)
    else if (typeof item === 'number') walk.isUncertain = true
  }
}

function walkObject(object: MutableObject, walk: Walk, depth: number): void {
  const first = walk.fieldCount
  for (const field in object) {
    // JavaScript moves fields named like an index to the front: the order is not that of the text.
    if (walk.fieldCount === first && startsWithDigit(field)) walk.isUncertain = true
    const colonAt = walk.colons[walk.fieldCount++]
    const value = object[field]
    if (typeof value === 'number') {
      const source = inexactSource(walk.text, colonAt ?? 0)
      if (source !== null) walk.inexact.push({ object, field, source })
    } else if (typeof value === 'object' && value !== null) walkValue(value, walk, depth + 1)
  }
}

function startsWithDigit(field: string): boolean {
  const first = field.charCodeAt(0)
  return first >= 0x30 && first <= 0x39
}
