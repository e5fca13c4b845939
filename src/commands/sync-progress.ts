// How far a run has come, on a terminal: one line that is written over.

import { count } from '../count.ts'
import type { Written } from '../sync/ports.ts'
import type { Progress } from '../sync/read-changes.ts'

type ProgressLine = {
  written(written: Written, progress: Progress | null): void
  position(): string | null
  end(): void
}

const redrawMs = 200

export function startProgress(stream: string, terminal: NodeJS.WriteStream): ProgressLine {
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
      const where = last ? `, position ${last.position}${behind(last)}` : ''
      terminal.write(`\r\x1b[K${stream}: ${count(rows)} rows, ${count(perSecond)} rows/s${where}`)
    },
    position: () => last?.position.toString() ?? null,
    end() {
      if (drawnAt > 0) terminal.write('\r\x1b[K')
    },
  }
}

const behind = ({ position, highestServed }: Progress): string =>
  highestServed !== null && highestServed > position ? ` of ${highestServed} served` : ''
