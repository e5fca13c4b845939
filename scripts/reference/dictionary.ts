// What the dictionary can say: the tables in its guide, and the JSON Schema for editors.

import { z } from 'zod'
import { fieldSettings, fileSettings, streamSettings } from '../../src/config/dictionary-settings.ts'

const rowsOf = ({ shape }: { readonly shape: Readonly<Record<string, z.ZodType>> }): string =>
  Object.entries(shape)
    .map(([name, { description = '' }]) => `| \`${name}\` | ${description} |\n`)
    .join('')

export const streamSettingsTable = (): string => `| of a stream | |\n|---|---|\n${rowsOf(streamSettings)}`
export const fieldSettingsTable = (): string => `| of a field | |\n|---|---|\n${rowsOf(fieldSettings)}`

export function dictionarySchema(): string {
  const schema = z.toJSONSchema(fileSettings, { io: 'input', unrepresentable: 'any' })
  const text = JSON.stringify({ ...schema, title: 'Dictionary of Tidemark' }, null, 2)
  // Short lists in one line, as the formatter has them.
  return `${text.replaceAll(/\[\s+([^[\]{}]+?)\s+\]/g, (_, list: string) => `[${list.replaceAll(/\s+/g, ' ')}]`)}\n`
}
