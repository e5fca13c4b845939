// The columns that Tidemark adds to the tables of the mirror, each with the comment that it carries in Postgres.

type OwnColumn = { readonly name: string; readonly type: string; readonly meaning: string }

/** Columns of every table of a stream. */
export const ownColumns: readonly OwnColumn[] = [
  { name: '_first_seen_at', type: 'timestamptz not null default now()', meaning: 'when the row first came' },
  {
    name: '_synced_at',
    type: 'timestamptz not null default now()',
    meaning: 'when the row last changed here',
  },
  {
    name: '_deleted_at',
    type: 'timestamptz',
    meaning: 'when the row was found to be deleted; empty while it exists',
  },
  {
    name: '_deleted_reason',
    type: 'text',
    meaning: 'why: source (the record said so itself) or absent (it disappeared, and that was proven)',
  },
  {
    name: '_hash',
    type: 'bytea not null',
    meaning: 'fingerprint of the whole record, to see whether it changed',
  },
  {
    name: '_rescued',
    type: 'jsonb',
    meaning: 'values that do not fit their column, by the name of their field',
  },
]

/** Columns of every table that keeps the history of a stream. */
export const historyColumns: readonly OwnColumn[] = [
  { name: '_observed_at', type: 'timestamptz not null', meaning: 'when the row was first seen like this' },
  {
    name: '_deleted_at',
    type: 'timestamptz',
    meaning: 'when the row was found to be deleted; empty while it exists',
  },
]

export const definitions = (columns: readonly OwnColumn[]): string =>
  columns.map(({ name, type }) => `${name} ${type}`).join(', ')

/** Statements for a table whose name is quoted already. */
export const commentsOn = (table: string, columns: readonly OwnColumn[]): string =>
  columns.map(({ name, meaning }) => `comment on column ${table}.${name} is '${meaning}'`).join(';\n')
