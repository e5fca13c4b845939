// How a row becomes JSON: generated fields, then those somebody set, then the row version, in the casing asked for.
// It keeps nothing; row-bytes.ts does.

import type { Behaviour } from './behaviour.ts'
import type { Resource } from './resources.ts'
import type { Fields, FreshFields, Row } from './row.ts'

/** Text, or bytes as they are. */
export type Piece = string | Uint8Array

export type Rendering = {
  /** The record as it is served, in as many pieces as is fast. */
  pieces(resource: Resource, row: Row): readonly Piece[]
  /** The record's fields in the upstream's own spelling, whatever casing is served. A fresh object each time. */
  fields(resource: Resource, row: Row): FreshFields
  /** The JSON of fields that are not a row as it is kept. */
  stringify(fields: Fields): string
  /** A field's name as it is served. */
  cased(name: string): string
  /** Another number whenever the same row would be served otherwise. */
  style(): number
}

export function openRendering(behaviour: Behaviour): Rendering {
  const tails = { pascal: new WeakMap<Fields, Buffer>(), camel: new WeakMap<Fields, Buffer>() }
  const isCamel = () => behaviour.casing === 'camel'

  function fields(resource: Resource, row: Row): FreshFields {
    const { own, shared } = resource.parts(row)
    setVersions(own, row)
    return { ...own, ...shared, ...row.own }
  }

  function setVersions(own: FreshFields, row: Row): void {
    if (!('RowVersion' in own)) return
    const { rowVersionField: served } = behaviour
    const version = versionValue(row.version)
    own.RowVersion = served === 'both' || served === 'RowVersion' ? version : undefined
    own.SysRowVersion = served === 'both' || served === 'SysRowVersion' ? version : undefined
  }

  function pieces(resource: Resource, row: Row): readonly Piece[] {
    if (row.raw !== null) return [row.raw]
    if (row.own !== null) return [stringify(fields(resource, row))]
    const { own, shared } = resource.parts(row)
    setVersions(own, row)
    return shared ? [stringify(own).slice(0, -1), tailOf(shared)] : [stringify(own)]
  }

  /** The end of a record, from the comma after its own fields on. */
  function tailOf(shared: Fields): Buffer {
    const kept = isCamel() ? tails.camel : tails.pascal
    const known = kept.get(shared)
    if (known !== undefined) return known
    const bytes = Buffer.from(`,${stringify(shared).slice(1)}`)
    kept.set(shared, bytes)
    return bytes
  }

  function versionValue(version: bigint): unknown {
    if (behaviour.rowVersions === 'string') return version.toString()
    const number = Number(version)
    return Number.isSafeInteger(number) ? number : JSON.rawJSON(version.toString())
  }

  const stringify = (value: Fields) => JSON.stringify(isCamel() ? camelCased(value) : value)

  return {
    fields,
    stringify,
    pieces,
    cased: (name) => (isCamel() ? camelCase(name) : name),
    style() {
      const field = { both: 0, RowVersion: 1, SysRowVersion: 2, none: 3 }[behaviour.rowVersionField]
      return field * 4 + (isCamel() ? 2 : 0) + (behaviour.rowVersions === 'string' ? 1 : 0)
    },
  }
}

const camelNames = new Map<string, string>()
const keptNames = 1_000

/** As System.Text.Json does it: `UID` → `uid`, `SysUpdatedDateUTC` → `sysUpdatedDateUTC`. */
export function camelCase(name: string): string {
  const known = camelNames.get(name)
  if (known !== undefined) return known
  const leading = /^[A-Z]+(?=[A-Z][a-z])|^[A-Z]+/.exec(name)?.[0] ?? ''
  const camel = leading.toLowerCase() + name.slice(leading.length)
  if (camelNames.size < keptNames) camelNames.set(name, camel)
  return camel
}

function camelCased(value: Fields): Fields {
  const renamed: FreshFields = {}
  for (const name of Object.keys(value)) renamed[camelCase(name)] = value[name]
  return renamed
}
