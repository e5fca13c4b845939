// How far a backfill has come: a line that is written over on a terminal, and the sentence at its end.

import { count } from '../count.ts'
import { formatDuration } from '../duration.ts'
import type { Backfill } from '../sync/audit-ports.ts'

const redrawMs = 1_000

export type BackfillProgress = { written(): void; show(): Promise<void>; end(): void }

/** On anything but a terminal it says so every half minute, in a line of its own. */
export function startBackfillProgress(
  terminal: NodeJS.WriteStream,
  read: () => Promise<Backfill | null>,
): BackfillProgress {
  const everyMs = terminal.isTTY ? redrawMs : 30 * redrawMs
  let first: { readonly at: number; readonly backfill: Backfill } | null = null
  let shownAt = performance.now() - (terminal.isTTY ? everyMs : 0)
  let isDrawn = false
  let isOver = false

  async function show(): Promise<void> {
    if (isOver || performance.now() - shownAt < everyMs) return
    shownAt = performance.now()
    const backfill = await read()
    if (!backfill || isOver) return
    const at = performance.now()
    first ??= { at, backfill }
    const line = progressLine(backfill, first.backfill, at - first.at)
    terminal.write(terminal.isTTY ? `\r\x1b[K${line}` : `${line}\n`)
    isDrawn = true
  }

  return {
    written: () => void show().catch(() => {}),
    show,
    end() {
      if (isDrawn && !isOver && terminal.isTTY) terminal.write('\r\x1b[K')
      isOver = true
    },
  }
}

export function progressLine(backfill: Backfill, first: Backfill, elapsedMs: number): string {
  const { stream, from, to, position, rowsRead } = backfill
  const share = to > from ? Number(((position - from) * 1000n) / (to - from)) / 10 : 100
  const rowsPerSecond = elapsedMs > 0 ? ((rowsRead - first.rowsRead) / elapsedMs) * 1000 : 0
  const leftMs = Number(to - position) * (elapsedMs / Math.max(1, Number(position - first.position)))
  const estimate = position > first.position ? `, about ${formatDuration(leftMs)} left` : ''
  return `${stream}: ${count(rowsRead)} rows, ${count(Math.round(rowsPerSecond))} rows/s, at ${position} of ${to} (${share} %)${estimate}`
}

export function backfillSentence(backfill: Backfill): string {
  const { id, stream, status, rowsRead, inserted, updated, quarantined, note, error } = backfill
  const counts = `${count(rowsRead)} rows read, ${count(inserted)} new, ${count(updated)} changed${quarantined > 0 ? `, ${count(quarantined)} in quarantine` : ''}`
  const span = `from ${backfill.from} to ${backfill.to}`
  if (status === 'done') return `${stream}: backfill ${id} ${span} done, ${counts}${note ? `; ${note}` : ''}`
  if (status === 'cancelled')
    return `${stream}: backfill ${id} ${span} ${note ?? 'cancelled'} at ${backfill.position}, ${counts}`
  const why = error ? `failed at ${backfill.position}: ${error}` : `stopped at ${backfill.position}`
  return `${stream}: backfill ${id} ${span} ${why} (${counts}); \`tidemark backfill ${stream}\` goes on from there`
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
