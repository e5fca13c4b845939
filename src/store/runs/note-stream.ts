// Keeps what was found out about a stream that the settings add, so that the next program reads it in the same way as this one.

import type { Pool } from 'pg'
import { type FoundOut, noteFoundOut } from '../../streams/catalog.ts'

export async function noteStream(pool: Pool, name: string, found: FoundOut): Promise<void> {
  const { rows } = await pool.query<{ found: FoundOut }>(
    `insert into tidemark.stream (name, found_out) values ($1, $2)
     on conflict (name) do update
     set found_out = coalesce(stream.found_out || jsonb_build_object('path', coalesce(stream.found_out->'path', excluded.found_out->'path')), excluded.found_out)
     returning found_out as found`,
    [name, found],
  )
  noteFoundOut(new Map([[name, rows[0]?.found ?? found]]))
}
