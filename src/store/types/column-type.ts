// What a type of column has to say for itself: how a value of JSON is written into it, as text and from its bytes, and what it is as a key.
// Each type has a file; table.ts names them all.

import type { Json } from '../../json/json.ts'
import type { Cells } from './cells.ts'

/** How far a local time is ahead of UTC, both in seconds since 2000; null where that is not known. */
export type OffsetAt = (localSeconds: number) => number | null
/** How the date-times of a column are read that have no offset: what their text is followed by, and by how much they are ahead. */
export type LocalTime = { readonly suffix: Buffer; readonly offsetAt: OffsetAt }

/**
 * Writes a value that stands in bytes just as its column takes it. False: it may be another one, which only the parsed value tells. `end` is
 * that of a value in a RecordPage: less than 0 for a string with escapes, which only comes to a type that `takesEscapes`.
 */
export type FromBytes = (cells: Cells, bytes: Buffer, start: number, end: number, local: LocalTime) => boolean

/** A text, or null when the column cannot hold the value exactly. `suffix` follows a date-time without an offset. */
export type FromJson = (value: Json, suffix: string) => string | null

export type TypeRules = {
  /** What Postgres's catalog calls it; null: as we do. */
  readonly catalogName: string | null
  /** Its values are strings in JSON, so `text` holds them too. */
  readonly isString: boolean
  /** As a field of COPY's text format. Whatever it lets through, Postgres must take: one refusal would end the whole page (P4). */
  readonly fromJson: FromJson
  /** The same for a field that the upstream describes as of this type. */
  readonly fromDescribed: FromJson
  readonly fromBytes: FromBytes
  /**
   * Writes only the text, for the hash; what it writes as binary does not count. It need not check the value: a text that is not valid is that
   * of no stored row.
   */
  readonly textFromBytes: FromBytes
  readonly takesEscapes: boolean
  /** Whether a text can be a key in a column of this type; null: no key is of this type. */
  readonly fitsKey: ((key: string) => boolean) | null
  /** In SQL: the key that a value of the column is, null where it does not tell. `quoted` makes what it has to be of a text that is no number. */
  readonly keySql: (column: string, quoted: (text: string) => string) => string
}

export function typeRules(own: Partial<TypeRules> & Pick<TypeRules, 'fromJson'>): TypeRules {
  const fromBytes = own.fromBytes ?? (() => false)
  // All of them have the same members in the same order, which the engine reads fastest.
  return {
    catalogName: null,
    isString: false,
    fromDescribed: own.fromJson,
    textFromBytes: fromBytes,
    takesEscapes: false,
    fitsKey: null,
    keySql: () => 'null::text',
    ...own,
    fromBytes,
  }
}
