// How far a reading has come: on a terminal one line that is written over.

import type { Progress } from '../sync/changes/read-changes.ts'
import type { Backfill, Written } from '../sync/ports/store.ts'
import { count, formatDuration, plural } from '../util/text.ts'
import type { Output } from './output.ts'

const backfillRedrawMs = 1_000

export type BackfillProgress = { written(): void; show(): Promise<void>; end(): void }

/** On anything but a terminal it says so every half minute, in a line of its own. */
export function startBackfillProgress(
  terminal: Output,
  read: () => Promise<Backfill | null>,
): BackfillProgress {
  const everyMs = terminal.isTTY ? backfillRedrawMs : 30 * backfillRedrawMs
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
    if (terminal.isTTY) terminal.write(`\r\x1b[K${line}`)
    else terminal.say(line)
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

type ProgressLine = {
  written(written: Written, progress: Progress | null): void
  position(): string | null
  end(): void
}

const redrawMs = 200

export function startProgress(stream: string, terminal: Output): ProgressLine {
  const startedAt = performance.now()
  let rows = 0
  let last: Progress | null = null
  let drawnAt = 0
  return {
    written(written, progress) {
      rows += written.inserted + written.updated + written.unchanged
      last = progress
      const now = performance.now()
      if (!terminal.isTTY || now - drawnAt < redrawMs) return
      drawnAt = now
      const perSecond = Math.round(rows / Math.max(0.001, (now - startedAt) / 1000))
      const where = last ? whereItIs(last) : ''
      terminal.write(`\r\x1b[K${stream}: ${count(rows)} rows, ${count(perSecond)} rows/s${where}`)
    },
    position: () => last?.position.toString() ?? null,
    end() {
      if (drawnAt > 0) terminal.write('\r\x1b[K')
    },
  }
}

/** The position tells nothing of ranges above it. */
export function whereItIs({ position, highestServed, share }: Progress): string {
  const of = highestServed !== null && highestServed > position ? ` of ${highestServed}` : ''
  const read = share === undefined ? '' : `, ${Math.floor(share * 100)} % read in ranges`
  return `${read}, position ${position}${of}`
}
