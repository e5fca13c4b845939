// Date-times as .NET and its database handle them: a clock time that is UTC, local or neither, with seven digits of a
// second in answers to a write, and three of them once it is stored.

export type ClockTime = {
  /** What the clock shows, as if it were UTC. */
  readonly clockMs: number
  /** Ten-thousandths of a millisecond. */
  readonly ticks: number
  readonly kind: 'utc' | 'local' | 'unspecified'
}

const iso =
  /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,16}))?)?(?:(Z)|([+-])(\d\d):(\d\d))?)?$/

/** A date-time in the form that System.Text.Json takes; null for every other text. */
export function parseTime(text: string, timeZone: string): ClockTime | null {
  const found = iso.exec(text)
  if (!found) return null
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', utc, sign, ...offset] =
    found
  const parts = [year, month, day, hour, minute, second].map(Number)
  const [y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0] = parts
  const days = new Date(Date.UTC(y, mo, 0)).getUTCDate()
  if (y < 1 || mo < 1 || mo > 12 || d < 1 || d > days || h > 23 || mi > 59 || s > 59) return null
  const digits = fraction.slice(0, 7).padEnd(7, '0')
  const midnight = new Date(0)
  midnight.setUTCFullYear(y, mo - 1, d)
  const clockMs = midnight.getTime() + h * 3_600_000 + mi * 60_000 + s * 1000 + Number(digits.slice(0, 3))
  const ticks = Number(digits.slice(3))
  if (utc) return { clockMs, ticks, kind: 'utc' }
  if (!sign) return { clockMs, ticks, kind: 'unspecified' }
  const [hours = 0, minutes = 0] = offset.map(Number)
  const utcMs = clockMs - (sign === '-' ? -1 : 1) * (hours * 60 + minutes) * 60_000
  return { clockMs: utcMs + offsetMs(utcMs, timeZone), ticks, kind: 'local' }
}

export const utcClock = (timeMs: number, ticks = 0): ClockTime => ({ clockMs: timeMs, ticks, kind: 'utc' })
export const localClock = (timeMs: number, timeZone: string, ticks = 0): ClockTime => ({
  clockMs: timeMs + offsetMs(timeMs, timeZone),
  ticks,
  kind: 'local',
})

/** In the answer to a write: all digits that are not zeros, and the offset where it is known. */
export function writtenTime(time: ClockTime, timeZone: string): string {
  const text = withoutZeros(localTime(time.clockMs, time.ticks))
  if (time.kind === 'utc') return `${text}Z`
  return time.kind === 'local' ? `${text}${offsetText(localOffsetMs(time.clockMs, timeZone))}` : text
}

/** As it is stored and read: rounded to milliseconds, without any offset. */
export const storedTime = ({ clockMs, ticks }: ClockTime): string =>
  withoutZeros(localTime(clockMs + (ticks >= 5_000 ? 1 : 0), 0))

/** The same, of a moment that is shown in UTC or in the time of a place. */
export const storedUtc = (timeMs: number): string => withoutZeros(localTime(timeMs, 0))
export const storedLocal = (timeMs: number, timeZone: string): string =>
  withoutZeros(localTime(timeMs + offsetMs(timeMs, timeZone), 0))

const dayMs = 86_400_000
const two = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'))
const days = new Map<number, string>()

/**
 * As the plain look writes times: always seven digits, and no offset. Written by hand because `toISOString` would be a
 * third of the time a record takes.
 */
export function localTime(timeMs: number, ticks = 0): string {
  const day = Math.floor(timeMs / dayMs)
  const ms = timeMs - day * dayMs
  const seconds = Math.floor(ms / 1000)
  const clock = `${two[Math.floor(seconds / 3600)]}:${two[Math.floor(seconds / 60) % 60]}:${two[seconds % 60]}`
  const fraction = String(10_000_000 + Math.floor(ms - seconds * 1000) * 10_000 + (ticks % 10_000)).slice(1)
  return `${dayText(day)}T${clock}.${fraction}`
}

export const utcTime = (timeMs: number, ticks = 0): string => `${localTime(timeMs, ticks)}Z`

const withoutZeros = (text: string) => text.replace(/\.?0+$/, '')

function dayText(day: number): string {
  const known = days.get(day)
  if (known !== undefined) return known
  const text = new Date(day * dayMs).toISOString().slice(0, -14)
  if (days.size < 5_000) days.set(day, text)
  return text
}

const quarterMs = 900_000
const offsets = new Map<string, Map<number, number>>()
const mostOffsets = 200_000

/** What the clocks of the zone are ahead of UTC. Clocks change on a quarter of an hour at the finest. */
function offsetMs(timeMs: number, timeZone: string): number {
  if (timeZone === 'UTC') return 0
  const quarter = Math.floor(timeMs / quarterMs)
  let known = offsets.get(timeZone)
  if (!known) {
    known = new Map()
    offsets.set(timeZone, known)
  }
  const cached = known.get(quarter)
  if (cached !== undefined) return cached
  const offset = askedOffsetMs(quarter * quarterMs, timeZone)
  if (known.size < mostOffsets) known.set(quarter, offset)
  return offset
}

const formats = new Map<string, Intl.DateTimeFormat>()

function askedOffsetMs(timeMs: number, timeZone: string): number {
  let format = formats.get(timeZone)
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' })
    formats.set(timeZone, format)
  }
  const name = format.formatToParts(timeMs).find(({ type }) => type === 'timeZoneName')?.value ?? 'GMT'
  const [, sign, hours = '0', minutes = '0'] = /GMT([+-])(\d+):(\d+)/.exec(name) ?? []
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
}

/** Of a clock time that is known to be local: in the hour that comes twice, its first time. */
function localOffsetMs(clockMs: number, timeZone: string): number {
  const before = offsetMs(clockMs - offsetMs(clockMs - dayMs / 2, timeZone), timeZone)
  return offsetMs(clockMs - before, timeZone)
}

function offsetText(ms: number): string {
  const minutes = Math.abs(ms) / 60_000
  return `${ms < 0 ? '-' : '+'}${two[Math.floor(minutes / 60)]}:${two[minutes % 60]}`
}
