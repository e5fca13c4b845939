// The data dictionary as people search it. Read-only.

import type { ClientBase } from 'pg'

export type FieldLine = {
  readonly stream: string
  readonly sourceName: string
  /** Null when the field has no column: its values are in `_rescued`, or it was only ever null. */
  readonly columnName: string | null
  readonly columnType: string | null
  readonly note: string | null
  readonly firstSeenAt: Date
  readonly lastSeenAt: Date
  readonly rescued: number
  /** From 0 to 1; null before the first record was counted. */
  readonly nullShare: number | null
}

/** Those of a stream (null: of all) whose name or column holds the text, whatever its case. */
export async function readFields(
  client: Pick<ClientBase, 'query'>,
  { stream, text }: { readonly stream: string | null; readonly text: string },
  limit: number,
): Promise<readonly FieldLine[]> {
  const { rows } = await client.query<FieldLine>(
    `select stream, source_name as "sourceName", column_name as "columnName", column_type as "columnType", note,
       first_seen_at as "firstSeenAt", last_seen_at as "lastSeenAt", rescued::float8 as rescued, null_share::float8 as "nullShare"
     from tidemark.field
     where ($1::text is null or stream = $1)
       and ($2 = '' or strpos(lower(source_name), lower($2)) > 0 or strpos(lower(column_name), lower($2)) > 0)
     order by stream, source_name limit $3`,
    [stream, text, limit],
  )
  return rows
}

/** The streams that have any. */
export async function readFieldStreams(client: Pick<ClientBase, 'query'>): Promise<readonly string[]> {
  const { rows } = await client.query<{ stream: string }>(
    'select distinct stream from tidemark.field order by stream',
  )
  return rows.map(({ stream }) => stream)
}
