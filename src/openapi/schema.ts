// The schemas of a description (OpenAPI) and the references between them, which lead inside the document only: nothing is fetched. Pure.

import { ownValue } from '../json/json.ts'
import { decodedUri } from '../util/text.ts'

export type Schema = { readonly [keyword: string]: unknown }
/** The schema that a reference means, with what stands beside the reference; null where it leads nowhere or in a circle. */
export type Follow = (schema: unknown) => Schema | null

export const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const schemasIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const partOf = (value: unknown, name: string): Schema => {
  const part = isSchema(value) ? ownValue(value, name) : null
  return isSchema(part) ? part : {}
}
export const textOf = (value: unknown): string | null =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : null
export const shortened = (text: string): string => (text.length > 100 ? `${text.slice(0, 99)}…` : text)

export const compositions = ['allOf', 'oneOf', 'anyOf'] as const

/** The key of a schema: the same for all references to it. */
export const placeOf = (given: unknown): unknown =>
  isSchema(given) && typeof given.$ref === 'string' && Object.keys(given).length === 1 ? given.$ref : given

const mostSteps = 50

/** `remark` hears of references that cannot be followed. */
export function openReferences(document: unknown, remark: (text: string) => void = () => {}): Follow {
  return (given) => {
    let schema = given
    const beside: Schema[] = []
    const seen = new Set<string>()
    while (isSchema(schema) && typeof schema.$ref === 'string') {
      const { $ref, ...rest } = schema
      const isEndless = seen.has($ref) || seen.size >= mostSteps
      const leads = isEndless
        ? `in a circle, or over more than ${mostSteps} others`
        : 'out of the description and is not followed'
      if (isEndless || !$ref.startsWith('#')) {
        remark(`The reference ${shortened($ref)} leads ${leads}.`)
        return null
      }
      seen.add($ref)
      beside.push(rest)
      schema = pointed(document, $ref)
      if (schema === undefined) remark(`The reference ${shortened($ref)} leads nowhere.`)
    }
    return isSchema(schema)
      ? Object.fromEntries([schema, ...beside.toReversed()].flatMap(Object.entries))
      : null
  }
}

/** What a JSON pointer means, also where a reference stands on the way. */
function pointed(document: unknown, $ref: string, steps = 0): unknown {
  let at = document
  for (const part of $ref.split('/').slice(1)) {
    const name = decodedUri(part)?.replaceAll('~1', '/').replaceAll('~0', '~') ?? part
    if (isSchema(at) && typeof at.$ref === 'string' && steps < mostSteps)
      at = pointed(document, at.$ref, steps + 1)
    at = typeof at === 'object' && at !== null ? ownValue(at as Schema, name) : undefined
  }
  return at
}

/** A schema, and all that it is composed of; `alternatives` picks of what only one applies. */
export function partsOf(
  follow: Follow,
  given: unknown,
  alternatives: (schemas: readonly unknown[]) => readonly unknown[] = (schemas) => schemas,
): readonly Schema[] {
  const parts: Schema[] = []
  const seen = new Set<unknown>()
  const add = (one: unknown) => {
    if (seen.has(placeOf(one))) return
    seen.add(placeOf(one))
    const schema = follow(one)
    if (schema === null) return
    parts.push(schema)
    for (const how of compositions) {
      const schemas = schemasIn(schema[how])
      for (const part of how === 'allOf' ? schemas : alternatives(schemas)) add(part)
    }
  }
  add(given)
  return parts
}
