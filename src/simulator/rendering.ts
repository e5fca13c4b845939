// How a row becomes JSON: generated fields, then those somebody set, then the row version, in the casing asked for.
// It caches nothing but texts that many rows share; row-bytes.ts does.

import type { Behaviour } from './behaviour.ts'
import { camelCase } from './fields.ts'
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
  const endings = { pascal: new WeakMap<Fields, Buffer>(), camel: new WeakMap<Fields, Buffer>() }
  const isCamel = () => behaviour.casing === 'camel'
  let reads = 0

  function fields(resource: Resource, row: Row): FreshFields {
    const { own, shared } = resource.parts(row)
    const all: FreshFields = { ...own, ...shared, ...row.own }
    complete(all, resource, row)
    return all
  }

  function complete(all: FreshFields, resource: Resource, row: Row): void {
    setVersions(all, row, behaviour)
    if (resource.name === 'webhook_subscription' && 'Secret' in all) all.Secret = null
    if (behaviour.volatileField && resource.name === 'assignment') all.DownloadUrl = signedUrl(row, ++reads)
  }

  function pieces(resource: Resource, row: Row): readonly Piece[] {
    if (row.raw !== null) return [row.raw]
    if (row.own !== null) return [stringify(fields(resource, row))]
    const { own, shared } = resource.parts(row)
    complete(own, resource, row)
    return shared ? [stringify(own).slice(0, -1), endingOf(shared)] : [stringify(own)]
  }

  /** The end of a record, from the comma after its own fields on. */
  function endingOf(shared: Fields): Buffer {
    const cached = isCamel() ? endings.camel : endings.pascal
    const known = cached.get(shared)
    if (known !== undefined) return known
    const bytes = Buffer.from(`,${stringify(shared).slice(1)}`)
    cached.set(shared, bytes)
    return bytes
  }

  function stringify(value: Fields): string {
    const text = JSON.stringify(isCamel() ? camelCased(value) : value)
    return behaviour.escapes === 'net' ? escaped(text) : text
  }

  return {
    fields,
    stringify,
    pieces,
    cased: (name) => (isCamel() ? camelCase(name) : name),
    style() {
      if (behaviour.volatileField) return -1 - ++reads
      const { rowVersionField, rowVersions, escapes } = behaviour
      const field = ['both', 'RowVersion', 'SysRowVersion', 'legacy', 'none'].indexOf(rowVersionField)
      const form = ['number', 'string', 'base64'].indexOf(rowVersions)
      return ((field * 3 + form) * 2 + (isCamel() ? 1 : 0)) * 2 + (escapes === 'net' ? 1 : 0)
    },
  }
}

type VersionFields = {
  /** The fields that show the version that `neworchanged` answers to. */
  readonly counters: readonly string[]
  /** The field of the same kind that has nothing to do with it. */
  readonly legacy: string | null
}

const versionFields: Readonly<Record<Behaviour['rowVersionField'], VersionFields>> = {
  both: { counters: ['RowVersion', 'SysRowVersion'], legacy: null },
  RowVersion: { counters: ['RowVersion'], legacy: null },
  SysRowVersion: { counters: ['SysRowVersion'], legacy: null },
  legacy: { counters: ['SysRowVersion'], legacy: 'RowVersion' },
  none: { counters: [], legacy: null },
}

export const servedVersionFields = (behaviour: Behaviour): VersionFields =>
  versionFields[behaviour.rowVersionField]

function setVersions(own: FreshFields, row: Row, behaviour: Behaviour): void {
  if (!('RowVersion' in own)) return
  const { counters, legacy } = servedVersionFields(behaviour)
  const version = versionValue(row.version, behaviour.rowVersions)
  for (const name of ['RowVersion', 'SysRowVersion'])
    if (counters.includes(name)) own[name] = version
    else if (name !== legacy) own[name] = undefined
}

function versionValue(version: bigint, form: Behaviour['rowVersions']): unknown {
  if (form === 'string') return version.toString()
  if (form === 'base64') {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64BE(version)
    return bytes.toString('base64')
  }
  const number = Number(version)
  return Number.isSafeInteger(number) ? number : JSON.rawJSON(version.toString())
}

/** Another one for each read of the same record: what file stores hand out. */
const signedUrl = (row: Row, read: number) =>
  `https://files.example/assignment/${row.id}?expires=${Math.floor(Date.now() / 1000) + 600}&signature=${read.toString(36)}`

function camelCased(value: Fields): Fields {
  const renamed: FreshFields = {}
  for (const name of Object.keys(value)) renamed[camelCase(name)] = value[name]
  return renamed
}

// .NET's relaxed encoder writes letters as they are and the rest of what lies beyond ASCII as escapes: halves of
// surrogate pairs, so every emoji, control and unassigned characters, and spaces other than the common one.
const unwritable = /[\p{Cs}\p{Cc}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}]/u
/** All that may have to be written otherwise; beside it, escapes that are there already. */
const suspicious = /\\u[0-9a-f]{4}|\\.|[^ -~\u00a1-\u02af\u2010-\u2027\u20ac]/g
const mayNeedEscape = /\\u|[^ -~\u00a1-\u02af\u2010-\u2027\u20ac]/

export const escaped = (json: string): string =>
  mayNeedEscape.test(json) ? json.replace(suspicious, escapeOne) : json

function escapeOne(text: string): string {
  if (text.startsWith('\\u')) return `\\u${text.slice(2).toUpperCase()}`
  if (text.startsWith('\\') || !unwritable.test(text)) return text
  return `\\u${text.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
}
