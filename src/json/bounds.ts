// Estimates how much memory a JSON text would take, by counting its brackets and commas before it is parsed: a few megabytes of brackets
// become gigabytes of values (P10).

export type JsonProblem = 'not UTF-8' | 'not JSON' | 'nested too deep' | 'too large'

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

/** Shorter texts cannot hold much, and are only looked at when they have enough brackets to be deep. */
const shortJsonBytes = 1_048_576

export type Bounds = {
  readonly values: number
  /** Of one list that is the whole text. */
  readonly records: number
  readonly recordBytes: number
  readonly fields: number
}
/** A list is not parsed as a whole, so it may hold more values than other texts. */
export const ofAnswers: Bounds = {
  values: 6_000_000,
  records: 300_000,
  fields: 100_000,
  // A record is in memory some times when it is written.
  recordBytes: 16 * 1024 * 1024,
}
const noBound = Number.POSITIVE_INFINITY
const ofTexts: Bounds = { values: 1_000_000, records: noBound, recordBytes: noBound, fields: 100_000 }

/** Throws when a text holds more, or is nested deeper, than any answer that makes sense. It need not be JSON. */
export function expectBounded(bytes: Uint8Array): void {
  if (bytes.length > shortJsonBytes || mayBeDeep(bytes)) openBounds(ofTexts)(bytes)
}

function mayBeDeep(bytes: Uint8Array): boolean {
  let left = deepest
  for (const bracket of [0x5b, 0x7b])
    for (let at = bytes.indexOf(bracket); at !== -1; at = bytes.indexOf(bracket, at + 1))
      if (left-- === 0) return true
  return false
}

/** The same of a text that comes in parts. */
export function openBounds(bounds: Bounds): (part: Uint8Array) => void {
  const isObject = new Uint8Array(deepest + 1)
  const commas = new Int32Array(deepest + 1)
  let depth = 0
  let values = 0
  let recordStart = 0
  let partStart = 0
  let isInString = false
  let isEscaped = false

  function open(isOfFields: boolean): void {
    if (++depth > deepest)
      throw new JsonError('nested too deep', `the JSON is nested deeper than ${deepest} levels`)
    isObject[depth] = isOfFields ? 1 : 0
    commas[depth] = 0
  }
  function addValue(): void {
    const here = (commas[depth] ?? 0) + 1
    commas[depth] = here
    if (++values > bounds.values) throw tooMany(bounds.values, 'values')
    if (isObject[depth] === 1 && here >= bounds.fields) throw tooMany(bounds.fields, 'fields in one record')
    if (isObject[depth] === 0 && depth === 1 && here >= bounds.records)
      throw tooMany(bounds.records, 'records')
  }

  function expectShort(recordEnd: number): void {
    if (depth > 0 && isObject[1] === 0 && recordEnd - recordStart > bounds.recordBytes)
      throw tooMuch(`one record of more than ${bounds.recordBytes / 1024 / 1024} MB`)
    if (depth === 1) recordStart = recordEnd
  }

  return (part) => {
    let at = 0
    while (at < part.length) {
      if (isInString) {
        const end = endOfString(part, isEscaped ? at + 1 : at)
        isInString = end >= part.length
        isEscaped = end > part.length
        at = end + 1
        continue
      }
      const byte = part[at++]
      if (byte === 0x22) isInString = true
      else if (byte === 0x2c) {
        addValue()
        if (depth === 1) expectShort(partStart + at)
      } else if (byte === 0x7b) open(true)
      else if (byte === 0x5b) open(false)
      else if ((byte === 0x7d || byte === 0x5d) && depth > 0) depth--
    }
    partStart += part.length
    if (depth > 1) expectShort(partStart)
  }
}

/** Where the closing quote is. It is not there: the length, or one more if the first byte after that is escaped. */
function endOfString(bytes: Uint8Array, start: number): number {
  let at = start
  while (at < bytes.length && bytes[at] !== 0x22) at += bytes[at] === 0x5c ? 2 : 1
  return at
}

const tooMuch = (what: string): JsonError => new JsonError('too large', `the answer holds ${what}`)
const tooMany = (most: number, what: string): JsonError =>
  tooMuch(`more than ${most.toLocaleString('en')} ${what}`)
