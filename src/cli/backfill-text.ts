// Backfills in words, and as JSON.

import type { Backfill } from '../sync/ports/store.ts'
import { count, plural } from '../util/text.ts'

export function backfillSentence(backfill: Backfill): string {
  const { id, stream, status, rowsRead, inserted, updated, quarantined, note, error } = backfill
  const counts = `${count(rowsRead)} rows read, ${count(inserted)} new, ${count(updated)} changed${quarantined > 0 ? `, ${plural(quarantined, 'record')} in quarantine` : ''}`
  const span = `from ${backfill.from} to ${backfill.to}`
  if (status === 'done') return `${stream}: backfill ${id} ${span} done, ${counts}${note ? `; ${note}` : ''}`
  if (status === 'cancelled')
    return `${stream}: backfill ${id} ${span} ${note ?? 'cancelled'} at ${backfill.position}, ${counts}`
  const why = error ? `failed at ${backfill.position}: ${error}` : `stopped at ${backfill.position}`
  return `${stream}: backfill ${id} ${span} ${why} (${counts}). \`tidemark backfill ${stream}\` goes on from there.`
}

export const backfillJson = (backfill: Backfill) => ({
  id: backfill.id,
  stream: backfill.stream,
  status: backfill.status,
  from: backfill.from.toString(),
  to: backfill.to.toString(),
  position: backfill.position.toString(),
  rows_read: backfill.rowsRead,
  inserted: backfill.inserted,
  updated: backfill.updated,
  quarantined: backfill.quarantined,
  attempts: backfill.attempts,
  requested_at: backfill.requestedAt,
  requested_by: backfill.requestedBy,
  started_at: backfill.startedAt,
  finished_at: backfill.finishedAt,
  error: backfill.error,
  note: backfill.note,
})
