// What is known of the fields of a record type: names, types, bounds. Written as a table, one field a line:
// `Name type(bound)? Description`, where the question mark says that it may be null.

import type { Fields } from './row.ts'

const fieldTypes = [
  'uint8',
  'int16',
  'int32',
  'int64',
  'double',
  'decimal',
  'boolean',
  'string',
  'url',
  'uuid',
  'dateTime',
  'bytes',
  /** Another record inside this one; always null in what the service stores. */
  'record',
  /** Not known: anything goes. */
  'any',
] as const
export type FieldType = (typeof fieldTypes)[number]

export type Field = {
  /** In the spelling of the upstream's classes, e.g. `SysUpdatedDateUTC`. */
  readonly name: string
  readonly type: FieldType
  readonly isNullable: boolean
  readonly maxLength: number | null
  readonly describe: string | null
}

/** A record type: its name in the upstream's description of itself, and its fields in the order they are served. */
export type Schema = {
  readonly name: string
  readonly describe: string
  readonly fields: readonly Field[]
}

export const defineFields = (table: string): readonly Field[] =>
  table
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', typeName, maxLength, optional, describe] =
        /^\s*(\w+) (\w+)(?:\((\d+)\))?(\?)?(?: (.+))?$/.exec(line) ?? []
      const type = fieldTypes.find((known) => known === typeName)
      if (!type) throw new Error(`"${line}" is no line of a table of fields.`)
      return {
        name,
        type,
        isNullable: optional !== undefined,
        maxLength: maxLength === undefined ? null : Number(maxLength),
        describe: describe ?? null,
      }
    })

/** The fields of records that have no table, as an example of them shows them. */
export const inferFields = (example: Fields): readonly Field[] =>
  Object.entries(example).map(([name, value]) => ({
    name,
    type: inferType(name, value),
    isNullable: true,
    maxLength: null,
    describe: null,
  }))

function inferType(name: string, value: unknown): FieldType {
  if (/RowVersion$/.test(name)) return 'int64'
  if (typeof value === 'boolean') return 'boolean'
  if (typeof value === 'number') return Number.isInteger(value) ? 'int32' : 'double'
  if (typeof value !== 'string') return 'any'
  if (/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)) return 'uuid'
  return /^\d{4}-\d\d-\d\dT/.test(value) ? 'dateTime' : 'string'
}

const camelNames = new Map<string, string>()
const mostCamelNames = 1_000

/** As System.Text.Json does it: `UID` → `uid`, `SysUpdatedDateUTC` → `sysUpdatedDateUTC`. */
export function camelCase(name: string): string {
  const known = camelNames.get(name)
  if (known !== undefined) return known
  const leading = /^[A-Z]+(?=[A-Z][a-z])|^[A-Z]+/.exec(name)?.[0] ?? ''
  const camel = leading.toLowerCase() + name.slice(leading.length)
  if (camelNames.size < mostCamelNames) camelNames.set(name, camel)
  return camel
}
