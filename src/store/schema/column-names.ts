// From the upstream's field names to column names: deterministic, and always something Postgres takes.

import { hash } from 'node:crypto'
import pg from 'pg'
import { isComposite, keyParts } from '../../streams/record.ts'

/** A field's name as Postgres can hold it. */
export const printable = (field: string): string =>
  field.includes('\0') || !field.isWellFormed() ? JSON.stringify(field) : field

/** Fields whose names differ only in case are one field. */
export const foldName = (field: string): string => printable(field.toLowerCase())

/** The comment by which a column, whatever it is called, can be traced to its field. */
export const fieldComment = (field: string): string => pg.escapeLiteral(`field ${printable(field)}`)

/** The column of a key that several fields make together. */
const ownKeyColumn = '_key'

export const keyColumnName = (keyField: string): string =>
  isComposite(keyField) ? ownKeyColumn : columnName(keyField)

/** As a literal. */
export const keyComment = (keyField: string): string =>
  isComposite(keyField)
    ? pg.escapeLiteral(
        `the values of ${keyParts(keyField).map(printable).join(', ')}, which make the key together`,
      )
    : fieldComment(keyField)

const maxBytes = 63
// Postgres gives these to every table.
const systemColumns = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'])

/** `AssignmentIdExt` → `assignment_id_ext`, `SysUpdatedDateUTC` → `sys_updated_date_utc`. */
export function columnName(field: string): string {
  const words = field
    .normalize('NFC')
    // Looks one letter to each side only: names of the upstream may have very many capitals (P10).
    .replace(/(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu, '_')
    .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1_$2')
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}]+/gu, '_')
    // A leading underscore marks the mirror's own columns.
    .replace(/^_+|_+$/g, '')
  if (words === '') return `field_${digest(field)}`
  const name = /^\p{N}/u.test(words) ? `field_${words}` : words
  if (systemColumns.has(name)) return `${name}_field`
  return Buffer.byteLength(name) <= maxBytes ? name : shorten(name, field)
}

/** Cuts a long name between characters, and adds a digest that tells it from other names with the same beginning. */
function shorten(name: string, field: string): string {
  const suffix = `_${digest(field)}`
  let kept = ''
  for (const character of name) {
    if (Buffer.byteLength(kept + character) > maxBytes - suffix.length) break
    kept += character
  }
  return kept + suffix
}

const digest = (field: string): string => hash('sha256', foldName(field)).slice(0, 8)
