// Reads `Retry-After`: until when the upstream wants to be left alone (P10).

// What a date can hold: more is no time at all.
const latestDateMs = 8_640_000_000_000_000

/** The time in milliseconds before which not to ask again; null when the header says nothing usable. */
export function notBeforeTime(
  headers: { readonly 'retry-after'?: string | undefined; readonly date?: string | undefined },
  receivedAtMs: number,
): number | null {
  const text = headers['retry-after']?.trim()
  if (!text) return null
  if (/^\d+$/.test(text)) return Math.min(latestDateMs, receivedAtMs + Number(text) * 1000)
  const at = httpDate(text)
  if (at === null) return null
  // The date is by the upstream's clock: where that is behind ours, its own `Date` says how long to wait.
  const sentAt = httpDate(headers.date)
  return Math.min(latestDateMs, Math.max(at, sentAt === null ? 0 : receivedAtMs + (at - sentAt)))
}

export function httpDate(text: string | undefined): number | null {
  if (!text || !/[a-z]{3}/i.test(text)) return null
  // The oldest of the three formats names no zone; it is always GMT.
  const time = Date.parse(/\d{4}$/.test(text) ? `${text} GMT` : text)
  return Number.isNaN(time) ? null : time
}
