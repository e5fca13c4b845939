// ISO date-times: which texts are one that Postgres reads as exactly that moment, and how they are cut to microseconds
// (P4). Without an offset they are left to the time zone of the connection.

// 2024-05-06T07:08:09.1234567+02:00; seconds, fraction and offset may be missing.
const shape = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?$/

const daysInMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

export function isInstant(text: string): boolean {
  // The letter T in its place tells most other strings apart at once.
  if (text.charCodeAt(10) !== 0x54 || !shape.test(text)) return false
  const year = number(text, 0) * 100 + number(text, 2)
  const month = number(text, 5)
  const day = number(text, 8)
  const isLeapDay = month === 2 && day === 29 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  // Postgres would take 24:00 and :60, but turn them into another text of the same moment.
  return (
    year > 0 &&
    day > 0 &&
    (day <= (daysInMonth[month - 1] ?? 0) || isLeapDay) &&
    number(text, 11) < 24 &&
    number(text, 14) < 60 &&
    (text.charCodeAt(16) !== 0x3a || number(text, 17) < 60) &&
    hasReadableOffset(text)
  )
}

/** The two digits at a place. */
const number = (text: string, at: number): number => text.charCodeAt(at) * 10 + text.charCodeAt(at + 1) - 528

function hasReadableOffset(text: string): boolean {
  const last = text.length
  const sign = text.charCodeAt(last - 6)
  if ((sign === 0x2b || sign === 0x2d) && text.charCodeAt(last - 3) === 0x3a)
    return number(text, last - 5) < 15 && number(text, last - 2) < 60
  const bareSign = text.charCodeAt(last - 5)
  if (last > 16 && (bareSign === 0x2b || bareSign === 0x2d))
    return number(text, last - 4) < 15 && number(text, last - 2) < 60
  return true
}

// The end of a fraction of six digits.
const fractionEnd = 26

/** Cut, never rounded. */
export function cutToMicroseconds(instant: string): string {
  if (instant.length <= fractionEnd || instant.charCodeAt(19) !== 0x2e) return instant
  let end = fractionEnd
  for (; end < instant.length; end++) {
    const character = instant.charCodeAt(end)
    if (character < 0x30 || character > 0x39) break
  }
  // A shorter fraction has its offset within the first 26 characters.
  return isFraction(instant) ? instant.slice(0, fractionEnd) + instant.slice(end) : instant
}

function isFraction(instant: string): boolean {
  for (let at = 20; at < fractionEnd; at++) {
    const character = instant.charCodeAt(at)
    if (character < 0x30 || character > 0x39) return false
  }
  return true
}
