// Reads the members of a JSON object one after the other, and says of a mistake what System.Text.Json says: in the same
// words, with the path, the line and the byte where it noticed.

export type Token =
  | { readonly kind: 'string' | 'number' | 'true' | 'false' | 'null'; readonly text: string }
  | { readonly kind: 'object' | 'array'; readonly openedAt: number }

/** Called with each member of the object as soon as its value was read; may throw what `notConverted` makes. */
type Member = (name: string, token: Token) => void

/** `at` is where reading stopped, in characters; without it, where the reader is. */
class JsonMistake extends Error {
  readonly at: number | null

  constructor(message: string, at: number | null = null) {
    super(message)
    this.at = at
  }
}

/** Noticed at the end of a value, or as soon as an object or a list begins. */
export const notConverted = (className: string, token: Token): JsonMistake =>
  new JsonMistake(
    `The JSON value could not be converted to ${className}.`,
    'openedAt' in token ? token.openedAt : null,
  )

export type Mistake = { readonly path: string; readonly message: string }

/** Null when all went well. `entity` is the class that the object becomes, for the message when it is none. */
export function readMembers(text: string, entity: string, member: Member): Mistake | null {
  const reader: Reader = { text, index: 0, path: '$' }
  try {
    skipBlanks(reader)
    if (reader.text[reader.index] !== '{') {
      throw notConverted(entity, readValue(reader))
    }
    readObject(reader, member)
    skipBlanks(reader)
    if (reader.index < text.length)
      fail(reader, `${shown(reader)} is invalid after a single JSON value. Expected end of data.`)
    return null
  } catch (error) {
    if (!(error instanceof JsonMistake)) throw error
    const { path } = reader
    return { path, message: `${error.message} Path: ${path} | ${position(text, error.at ?? reader.index)}.` }
  }
}

type Reader = { readonly text: string; index: number; path: string }

function position(text: string, index: number): string {
  const before = text.slice(0, index)
  const lineStart = before.lastIndexOf('\n') + 1
  const line = before.split('\n').length - 1
  return `LineNumber: ${line} | BytePositionInLine: ${Buffer.byteLength(before.slice(lineStart))}`
}

function fail(reader: Reader, message: string): never {
  if (reader.index >= reader.text.length)
    throw new JsonMistake(
      'Expected depth to be zero at the end of the JSON payload. There is an open JSON object or array that should be closed.',
    )
  throw new JsonMistake(message)
}

function shown({ text, index }: Reader): string {
  const code = text.charCodeAt(index)
  return code < 0x20 ? `'0x${code.toString(16).toUpperCase().padStart(2, '0')}'` : `'${text[index]}'`
}

function skipBlanks(reader: Reader): void {
  while (/[ \t\r\n]/.test(reader.text[reader.index] ?? '')) reader.index++
}

function readObject(reader: Reader, member: Member | null): void {
  const outside = reader.path
  reader.index++
  skipBlanks(reader)
  if (reader.text[reader.index] === '}') {
    reader.index++
    return
  }
  for (;;) {
    if (reader.text[reader.index] !== '"')
      fail(reader, `${shown(reader)} is an invalid start of a property name. Expected a '"'.`)
    const name = readString(reader)
    skipBlanks(reader)
    if (reader.text[reader.index] !== ':')
      fail(reader, `${shown(reader)} is invalid after a property name. Expected a ':'.`)
    reader.index++
    if (member) reader.path = `${outside}.${name}`
    skipBlanks(reader)
    const token = readValue(reader)
    member?.(name, token)
    reader.path = outside
    if (endsAfterValue(reader, '}')) return
  }
}

function readArray(reader: Reader): void {
  reader.index++
  skipBlanks(reader)
  if (reader.text[reader.index] === ']') {
    reader.index++
    return
  }
  do readValue(reader)
  while (!endsAfterValue(reader, ']'))
}

/** Goes on to the next member or element; true when there is none. */
function endsAfterValue(reader: Reader, close: '}' | ']'): boolean {
  skipBlanks(reader)
  const next = reader.text[reader.index]
  if (next !== ',' && next !== close)
    fail(reader, `${shown(reader)} is invalid after a value. Expected either ',', '}', or ']'.`)
  reader.index++
  if (next === close) return true
  skipBlanks(reader)
  if (reader.text[reader.index] === close)
    throw new JsonMistake(
      `The JSON ${close === '}' ? 'object' : 'array'} contains a trailing comma at the end which is not supported in this mode. Change the reader options.`,
    )
  return false
}

const literals = ['true', 'false', 'null'] as const

function readValue(reader: Reader): Token {
  const { text, index } = reader
  const first = text[index]
  if (first === '{') {
    readObject(reader, null)
    return { kind: 'object', openedAt: index + 1 }
  }
  if (first === '[') {
    readArray(reader)
    return { kind: 'array', openedAt: index + 1 }
  }
  if (first === '"') return { kind: 'string', text: readString(reader) }
  const literal = literals.find((word) => text.startsWith(word, index))
  if (literal) {
    reader.index += literal.length
    return { kind: literal, text: literal }
  }
  const [number] = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/.exec(text.slice(index)) ?? []
  if (number === undefined) fail(reader, `${shown(reader)} is an invalid start of a value.`)
  reader.index += number.length
  return { kind: 'number', text: number }
}

function readString(reader: Reader): string {
  const { text, index } = reader
  for (let at = index + 1; at < text.length; at++) {
    const character = text[at]
    if (character === '\\') at++
    else if (character === '"') {
      reader.index = at + 1
      try {
        return JSON.parse(text.slice(index, at + 1))
      } catch {
        throw new JsonMistake('The JSON string has an invalid escape.')
      }
    } else if (text.charCodeAt(at) < 0x20) {
      reader.index = at
      throw new JsonMistake(
        `${shown(reader)} is invalid within a JSON string. The string should be correctly escaped.`,
      )
    }
  }
  reader.index = text.length
  throw new JsonMistake('Expected end of string, but instead reached end of data.')
}
