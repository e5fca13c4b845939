// Date-times as .NET writes them: seven digits of a second, with `Z` for UTC and without any offset for local time.
// Written by hand because `toISOString` would be a third of the time a record takes.

const dayMs = 86_400_000
const two = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'))
const days = new Map<number, string>()

/** Midnight before the first record; what is generated lies in the year that follows. */
export const epochMs = Date.UTC(2025, 0, 1)

export function localTime(timeMs: number, ticks = 0): string {
  const day = Math.floor(timeMs / dayMs)
  const ms = timeMs - day * dayMs
  const seconds = Math.floor(ms / 1000)
  const clock = `${two[Math.floor(seconds / 3600)]}:${two[Math.floor(seconds / 60) % 60]}:${two[seconds % 60]}`
  const fraction = String(10_000_000 + Math.floor(ms - seconds * 1000) * 10_000 + (ticks % 10_000)).slice(1)
  return `${dayText(day)}T${clock}.${fraction}`
}

export const utcTime = (timeMs: number, ticks = 0): string => `${localTime(timeMs, ticks)}Z`

function dayText(day: number): string {
  const known = days.get(day)
  if (known !== undefined) return known
  const text = new Date(day * dayMs).toISOString().slice(0, -14)
  if (days.size < 5_000) days.set(day, text)
  return text
}
