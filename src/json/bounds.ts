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
export const deepest = 500
export const nestedTooDeep = (): JsonError =>
  new JsonError('nested too deep', `the JSON is nested deeper than ${deepest} levels`)

/** Shorter texts are not looked at: they cannot hold much. */
const shortBytes = 1_048_576
const mostValues = 2_000_000

/** Throws when a text holds more values, or is nested deeper, than any answer that makes sense. It need not be JSON. */
export function expectBounded(bytes: Uint8Array): void {
  if (bytes.length <= shortBytes) return
  let depth = 0
  let values = 0
  for (let at = 0; at < bytes.length; at++)
    switch (bytes[at]) {
      case 0x22:
        at = endOfString(bytes, at)
        break
      case 0x5b:
      case 0x7b:
        if (++depth > deepest) throw nestedTooDeep()
        break
      case 0x5d:
      case 0x7d:
        depth--
        break
      case 0x2c:
        if (++values > mostValues)
          throw new JsonError('too large', `the JSON holds more than ${mostValues} values`)
        break
    }
}

function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== 0x22) at += bytes[at] === 0x5c ? 2 : 1
  return at
}
