// Durations as people write them: 500ms, 30s, 10m, 1h, 7d.

const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const pattern = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/

export function parseDuration(text: string): number | null {
  const [, amount, unit] = pattern.exec(text.trim().toLowerCase()) ?? []
  if (amount === undefined || unit === undefined) return null
  return Math.round(Number(amount) * unitMs[unit as keyof typeof unitMs])
}

/** The two largest units that say something: `3 d 4 h`, `12 m 5 s`, `1.4 s`. */
export function formatDuration(durationMs: number): string {
  const ms = Math.max(0, durationMs)
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0).replace(/\.0$/, '')} s`
  const seconds = Math.round(ms / 1000)
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const
  const first = parts.findIndex(([amount]) => amount > 0)
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(' ')
}
