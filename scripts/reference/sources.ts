// What the file of sources can say: the JSON Schema for editors.

import { z } from 'zod'
import { fileSettings } from '../../src/config/sources-yaml.ts'
import { streamVariables } from '../../src/config/stream-variables.ts'
import { sourceVariables } from '../../src/config/variables.ts'

const value = { type: ['string', 'number', 'boolean', 'array'] }
const settings = () => ({
  properties: Object.fromEntries(
    Object.entries(sourceVariables).map(([name, { describe }]) => [
      name.toLowerCase(),
      { ...value, description: describe },
    ]),
  ),
  patternProperties: Object.fromEntries(
    Object.entries(streamVariables).map(([family, { describe }]) => [
      `^${family.toLowerCase()}_[a-z0-9_]+$`,
      { ...value, description: describe },
    ]),
  ),
  additionalProperties: false,
})

export function sourcesSchema(): string {
  const { properties = {}, ...schema } = z.toJSONSchema(fileSettings, { io: 'input', unrepresentable: 'any' })
  const all = {
    ...schema,
    title: 'Sources of Tidemark',
    properties: {
      ...properties,
      defaults: { type: 'object', description: 'what holds where a source says nothing', ...settings() },
      sources: {
        type: 'object',
        description: 'the sources by their names',
        propertyNames: { pattern: '^[a-z][a-z0-9_]{0,23}$' },
        additionalProperties: sourceSchema(),
      },
    },
  }
  const text = JSON.stringify(all, null, 2)
  // Short lists in one line, as the formatter has them.
  return `${text.replaceAll(/\[\s+([^[\]{}]+?)\s+\]/g, (_, list: string) => `[${list.replaceAll(/\s+/g, ' ')}]`)}\n`
}

function sourceSchema() {
  const { properties, ...rest } = settings()
  return {
    type: 'object',
    properties: {
      from: { type: 'string', description: 'the source whose settings hold where this one says nothing' },
      tags: { type: 'array', items: { type: 'string' }, description: 'groups that it belongs to' },
      ...properties,
    },
    ...rest,
  }
}
