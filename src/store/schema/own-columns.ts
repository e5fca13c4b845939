// The columns that Tidemark adds to the tables of the mirror, each with the comment that it carries in Postgres.

type OwnColumn = { readonly name: string; readonly type: string; readonly meaning: string }

const column = (name: string, type: string, meaning: string): OwnColumn => ({ name, type, meaning })

const deletedAt = column(
  '_deleted_at',
  'timestamptz',
  'when the row was found to be deleted; empty while it exists',
)

/** Columns of every table of a stream. */
export const ownColumns: readonly OwnColumn[] = [
  column('_first_seen_at', 'timestamptz not null default now()', 'when the row first came'),
  column('_synced_at', 'timestamptz not null default now()', 'when the row last changed here'),
  deletedAt,
  column(
    '_deleted_reason',
    'text',
    'why: source (the record said so itself) or absent (it disappeared, and that was proven)',
  ),
  column('_hash', 'bytea not null', 'fingerprint of the whole record, to see whether it changed'),
  column('_rescued', 'jsonb', 'values that do not fit their column, by the name of their field'),
  column(
    '_xid',
    'xid8 default pg_current_xact_id()',
    'transaction that last wrote the row, for programs that follow the changes; empty: before there was such a feed',
  ),
]

/** What every update of a row sets, so that those who follow the changes see it. A row that is inserted has the same by default. */
export const touchedSql = '_synced_at = now(), _xid = pg_current_xact_id()'

/** Columns of every table that keeps the history of a stream. */
export const historyColumns: readonly OwnColumn[] = [
  column('_observed_at', 'timestamptz not null', 'when the row was first seen like this'),
  deletedAt,
]

export const definitions = (columns: readonly OwnColumn[]): string =>
  columns.map(({ name, type }) => `${name} ${type}`).join(', ')

/** Statements for a table whose name is quoted already. */
export const commentsOn = (table: string, columns: readonly OwnColumn[]): string =>
  columns.map(({ name, meaning }) => `comment on column ${table}.${name} is '${meaning}'`).join(';\n')
