// Marks rows whose records were confirmed gone, and keeps what was seen of each.

import pg, { type ClientBase } from 'pg'
import type { Gone, ShownRows } from '../../sync/ports/audits.ts'
import { arraysOf } from '../book/ask.ts'
import { qualified } from '../schema/places.ts'
import { readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { isOlderSql, markAbsent } from './absences.ts'
import type { RunParts } from './run.ts'

/** The half of ShownRows that marks. */
export function markingOf(parts: RunParts): Pick<ShownRows, 'clock' | 'markGone'> {
  const { session, stream } = parts
  const { client } = session
  return {
    async clock() {
      const { rows } = await session.alone(() =>
        client.query<{ at: string }>('select clock_timestamp()::text as at'),
      )
      return rows[0]?.at ?? 'now'
    },
    async markGone(gone, askedAt) {
      await session.afterWrites(parts.noteLine)
      const marked = await session.fencedAfterWrites(async () => {
        const tableSchema = await readTableSchema(client, stream)
        if (!tableSchema) return 0
        await noteRemoved(client, tableSchema, gone)
        const count = await markAbsent(client, tableSchema, {
          from: 'unnest($1::text[], $2::text[]) as absent (key, evidence)',
          where: `absent.key = mine.${pg.escapeIdentifier(tableSchema.key.name)}::text and ${isOlderSql('$3')}`,
          values: [...arraysOf(gone, 'key', 'evidence'), parts.startedAt, askedAt],
          at: '$4::timestamptz',
          evidence: 'absent.evidence',
        })
        await keepEvidence(client, stream.name, gone)
        return count
      })
      parts.onMarked(marked)
      return marked
    },
  }
}

/** Also of rows that were marked before. */
const keepEvidence = (client: ClientBase, stream: string, gone: readonly Gone[]) =>
  client.query(
    `update tidemark.suspect set evidence = told.evidence from unnest($2::text[], $3::text[]) as told (key, evidence)
     where stream = $1 and suspect.key = told.key`,
    [stream, ...arraysOf(gone, 'key', 'evidence')],
  )

/** Records that the source had marked as deleted, and those in quarantine, that are gone now: no list shows them any more. */
async function noteRemoved(client: ClientBase, tableSchema: TableSchema, gone: readonly Gone[]) {
  const { stream, key } = tableSchema
  const keys = gone.map((one) => one.key)
  await client.query(
    `update ${qualified(stream)} as mine set _deleted_reason = 'absent', _xid = pg_current_xact_id()
     where mine.${pg.escapeIdentifier(key.name)}::text = any ($1) and mine._deleted_reason = 'source'`,
    [keys],
  )
  await client.query(
    `update tidemark.quarantine
     set key = null, dropped_at = coalesce(dropped_at, now()),
       drop_reason = coalesce(drop_reason, 'the upstream no longer has the record')
     where stream = $1 and key = any ($2)`,
    [stream.name, keys],
  )
}
