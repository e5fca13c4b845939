// How a row becomes JSON: generated fields, then those somebody set, then the row version, in the casing asked for.
// Texts are kept while there is room, because the same rows are asked for again and again.

import type { Behaviour } from './behaviour.ts'
import type { Resource } from './resources.ts'
import type { Fields, Row } from './row.ts'

const roomChars = 192 * 2 ** 20

export type Rendering = {
  /** The record as it is served. */
  bytesOrText(resource: Resource, row: Row): string | Uint8Array
  /** The record's fields in the upstream's own spelling, whatever casing is served. */
  fields(resource: Resource, row: Row): { [name: string]: unknown }
  /** The JSON of some fields that are no row by themselves, e.g. the extended read's groups. */
  stringify(fields: Fields): string
  /** A field's name as it is served. */
  cased(name: string): string
  /** This row is gone: its text makes room. */
  release(row: Row): void
}

export function openRendering(behaviour: Behaviour): Rendering {
  let usedChars = 0

  function style(): number {
    const field = { both: 0, RowVersion: 1, SysRowVersion: 2, none: 3 }[behaviour.rowVersionField]
    return field * 4 + (behaviour.casing === 'camel' ? 2 : 0) + (behaviour.rowVersions === 'string' ? 1 : 0)
  }

  function fields(resource: Resource, row: Row): { [name: string]: unknown } {
    const generated = resource.fields(row)
    const all = row.own ? { ...generated, ...row.own } : generated
    if ('RowVersion' in generated) {
      const version = versionValue(row.version)
      const { rowVersionField } = behaviour
      all.RowVersion = rowVersionField === 'both' || rowVersionField === 'RowVersion' ? version : undefined
      all.SysRowVersion =
        rowVersionField === 'both' || rowVersionField === 'SysRowVersion' ? version : undefined
    }
    return all
  }

  function versionValue(version: bigint): unknown {
    if (behaviour.rowVersions === 'string') return version.toString()
    const number = Number(version)
    return Number.isSafeInteger(number) ? number : JSON.rawJSON(version.toString())
  }

  const stringify = (value: Fields) =>
    JSON.stringify(behaviour.casing === 'camel' ? camelCased(value) : value)

  return {
    fields,
    stringify,
    cased: (name) => (behaviour.casing === 'camel' ? camelCase(name) : name),
    bytesOrText(resource, row) {
      if (row.raw !== null) return row.raw
      const wanted = style()
      if (row.rendered?.style === wanted) return row.rendered.text
      const text = stringify(fields(resource, row))
      usedChars -= row.rendered?.text.length ?? 0
      row.rendered = null
      if (usedChars + text.length <= roomChars) {
        usedChars += text.length
        row.rendered = { text, style: wanted }
      }
      return text
    },
    release(row) {
      usedChars -= row.rendered?.text.length ?? 0
      row.rendered = null
    },
  }
}

const camelNames = new Map<string, string>()

/** As System.Text.Json does it: `UID` → `uid`, `SysUpdatedDateUTC` → `sysUpdatedDateUTC`. */
export function camelCase(name: string): string {
  const known = camelNames.get(name)
  if (known !== undefined) return known
  const leading = /^[A-Z]+(?=[A-Z][a-z])|^[A-Z]+/.exec(name)?.[0] ?? ''
  const camel = leading.toLowerCase() + name.slice(leading.length)
  if (camelNames.size < 1_000) camelNames.set(name, camel)
  return camel
}

function camelCased(value: Fields): Fields {
  const renamed: { [name: string]: unknown } = {}
  for (const name of Object.keys(value)) renamed[camelCase(name)] = value[name]
  return renamed
}
