// Durations as people write them: 500ms, 30s, 10m, 1h, 7d, 2y.

const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, y: 31_536_000_000 } as const
const pattern = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|y)$/

export function parseDuration(text: string): number | null {
  const [, amount, unit] = pattern.exec(text.trim().toLowerCase()) ?? []
  if (amount === undefined || unit === undefined) return null
  return Math.round(Number(amount) * unitMs[unit as keyof typeof unitMs])
}

/** `2026-03-02 18:00 UTC` */
export const utcMinute = (moment: Date): string =>
  `${moment.toISOString().slice(0, 16).replace('T', ' ')} UTC`

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

/** `3 s`, `11 min`, `10 h 51 min`, `35 h`, `2 days`: as short as a table needs it. */
export function shortSpan(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60)
    return seconds % 60 === 0 || minutes >= 10 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`
}

// Numbers as people read them.
const inEnglish = new Intl.NumberFormat('en')
export const count = (number: number): string => inEnglish.format(number)
export const plural = (number: number, noun: string): string =>
  `${count(number)} ${noun}${number === 1 ? '' : 's'}`

export const inMegabytes = (bytes: number): string => `${Number((bytes / 1024 / 1024).toFixed(1))} MB`

// The known word nearest to a mistyped one.
export function nearest(word: string, known: readonly string[], most = 1): readonly string[] {
  return known
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.max(2, candidate.length / 2))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, most)
    .map(({ candidate }) => candidate)
}

export function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const current = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      current.push(Math.min(substitution, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[b.length] ?? 0
}

// Text of others on its way to a terminal: what would move the cursor, change colours, or turn the direction of writing is shown as
// its number instead, so that no record can forge what people read.
const unseen = /[^\P{Cc}\n\t]|\p{Cf}|[\p{Zl}\p{Zp}]/gu

export const visible = (text: string): string =>
  text.replaceAll(unseen, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)

/** The text of a document. What a terminal would obey, or nobody sees, is written by its number: the value stays the same. */
export const jsonText = (document: unknown, indent = 2): string =>
  JSON.stringify(document, null, indent).replaceAll(unseen, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  )

/** Of a part of a URL; null: it has a percent sign that stands for no character. */
export function decodedUri(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

// Text of others on its way to Postgres, which holds neither a NUL nor, in JSON, half of a character.
export const holdableText = (text: string): string => text.replaceAll('\0', '\\0')

/** JSON writes both as numbers: only a backslash that stands for itself can come before them. */
export const holdableJson = (document: unknown): string =>
  JSON.stringify(document).replaceAll(/(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][\da-f]{2})/g, '$1\\ufffd')

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
  : Name
export type SnakeCased<Value> = {
  readonly [Name in keyof Value as Name extends string
    ? SnakeCase<Name>
    : never]: Value[Name] extends infer One ? (One extends bigint ? string : One) : never
}

/** The fields of an object under the names that documents have for them: `rowsRead` is `rows_read`. */
export const snakeCased = <Value extends object>(value: Value): SnakeCased<Value> =>
  Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      typeof one === 'bigint' ? one.toString() : one,
    ]),
  ) as SnakeCased<Value>

export const capitalized = (text: string): string => `${text[0]?.toUpperCase() ?? ''}${text.slice(1)}`

/** What a message says, as a sentence that others may follow. */
export const sentence = (message: string): string => (/[.!?…]$/.test(message) ? message : `${message}.`)
