// What the stand-in keeps of a record. Rows never change: a change is another row with the same id, so a page that is
// being sent, a backup and a write that is not committed yet can all hold on to theirs.

export type Fields = { readonly [name: string]: unknown }

/** Just made, and still to be filled in. */
export type FreshFields = { [name: string]: unknown }

/** Where the bytes of a row are: in a buffer with those of others, for as long as one of them lives. */
export type Span = {
  readonly slab: { readonly bytes: Buffer; rowCount: number }
  readonly start: number
  readonly end: number
  readonly style: number
}

export type Row = {
  readonly id: number
  readonly version: bigint
  /** How often the record was changed; the generated fields follow from seed, id and revision. */
  readonly revision: number
  readonly createdAtMs: number
  readonly changedAtMs: number
  readonly isDeleted: boolean
  /** Fields somebody set; they win over the generated ones. */
  readonly own: Fields | null
  /** Served as it is, instead of everything above. */
  readonly raw: string | Uint8Array | null
  /** Null when there is no room for its bytes; row-bytes.ts owns it. */
  kept: Span | null
}

export const emptyRow: Row = {
  id: 1,
  version: 1n,
  revision: 0,
  createdAtMs: 0,
  changedAtMs: 0,
  isDeleted: false,
  own: null,
  raw: null,
  kept: null,
}

export const compareVersions = (a: Row, b: Row): number =>
  a.version < b.version ? -1 : a.version > b.version ? 1 : a.id - b.id

export const compareIds = (a: Row, b: Row): number => a.id - b.id
