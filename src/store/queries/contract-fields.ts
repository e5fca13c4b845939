// What the upstream says of each field, beside what its records showed. Read-only.

import type { ClientBase } from 'pg'

export type FieldBeside = {
  readonly stream: string
  readonly field: string
  /** Null: it is not described. */
  readonly describedAs: string | null
  readonly columnName: string | null
  readonly columnType: string | null
  /** Records that were counted. */
  readonly records: number
  /** Of those, how many had a value. */
  readonly values: number
  readonly rescued: number
}

/** Of streams that are described at all. */
export async function readFieldsBeside(
  client: Pick<ClientBase, 'query'>,
  streams: readonly string[],
): Promise<readonly FieldBeside[]> {
  const { rows } = await client.query<FieldBeside>(
    `select stream, source_name as field, described_as as "describedAs", column_name as "columnName",
       column_type as "columnType", records_seen::float8 as records,
       (records_seen - nulls_seen)::float8 as values, rescued::float8 as rescued
     from tidemark.field
     where stream = any ($1) and stream in (select stream from tidemark.field where described_as is not null)
     order by stream, source_name`,
    [streams],
  )
  return rows
}
