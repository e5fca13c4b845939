// The schemas of an OpenAPI description as JSON Schema 2020-12, so that the checker reads those of OpenAPI 3.0 as well. References lead to
// the document by its name, from wherever they stand.

import { ownValue } from '../json/json.ts'
import { matchesNumbersOnly } from './field-says.ts'
import { compositions, isSchema, partOf, type Schema } from './schema.ts'

export const documentName = 'openapi:'

export function asJsonSchema(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asJsonSchema)
  if (!isSchema(value)) return value
  const schema = Object.fromEntries(
    Object.entries(value)
      .flatMap(([name, given]) => keywordOf(value, name, given))
      .map(([name, given]) => [name, asJsonSchema(given)]),
  )
  return value.nullable === true ? orNull(schema) : schema
}

const limits: Readonly<Record<string, string>> = { exclusiveMinimum: 'minimum', exclusiveMaximum: 'maximum' }
/** Names that schemas give themselves: references go by places here, and one name may stand twice. */
const ownNames: readonly string[] = ['$id', '$anchor', '$dynamicAnchor', '$schema']

/**
 * What a number is as text. All other patterns are left to the service: they are written in its dialect of regular expressions, and may take
 * longer than anybody waits.
 */
const numberPattern = (given: string): string =>
  given.includes('.') ? String.raw`^[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$` : '^[-+]?[0-9]+$'

/** Translates a keyword; nothing where it means nothing here. A field of that name holds a schema, and stays. */
function keywordOf(schema: Schema, name: string, given: unknown): readonly (readonly [string, unknown])[] {
  if (typeof given === 'boolean') {
    const limit = ownValue(limits, name)
    if (limit !== undefined) return given && typeof schema[limit] === 'number' ? [[name, schema[limit]]] : []
    if (name === 'required' || name === 'nullable') return []
  }
  if (typeof given === 'string') {
    if (ownNames.includes(name)) return []
    if (name === 'pattern') return matchesNumbersOnly(given) ? [[name, numberPattern(given)]] : []
    if (name === '$ref') return given.startsWith('#') ? [[name, `${documentName}${given}`]] : []
  }
  // A request need not have fields that the service fills in by itself.
  if (name === 'required' && Array.isArray(given))
    return [[name, given.filter((field) => partOf(schema.properties, String(field)).readOnly !== true)]]
  return [[name, given]]
}

function orNull(schema: Schema): Schema {
  const isPlain = typeof schema.type === 'string' && !compositions.some((how) => how in schema)
  if (!isPlain) return { anyOf: [schema, { type: 'null' }] }
  return {
    ...schema,
    type: [schema.type, 'null'],
    ...(Array.isArray(schema.enum) && { enum: [...schema.enum, null] }),
  }
}
