// Date-times as the recorded service reads, stores and writes them.

import { describe, expect, it } from 'vitest'
import {
  localClock,
  parseTime,
  storedLocal,
  storedTime,
  storedUtc,
  utcClock,
  writtenTime,
} from '../../src/simulator/times.ts'

const oslo = 'Europe/Oslo'
const read = (text: string) => {
  const time = parseTime(text, oslo)
  return time && [storedTime(time), writtenTime(time, oslo)]
}

describe('parseTime', () => {
  it.each([
    ['2026-03-29T10:00:00Z', '2026-03-29T10:00:00', '2026-03-29T10:00:00Z'],
    ['2026-04-01T00:00:00+05:00', '2026-03-31T21:00:00', '2026-03-31T21:00:00+02:00'],
    ['2026-01-01T00:00:00-05:00', '2026-01-01T06:00:00', '2026-01-01T06:00:00+01:00'],
    ['2024-01-01T00:00:00', '2024-01-01T00:00:00', '2024-01-01T00:00:00'],
    ['2024-02-29', '2024-02-29T00:00:00', '2024-02-29T00:00:00'],
    ['2024-02-29T10:20', '2024-02-29T10:20:00', '2024-02-29T10:20:00'],
    ['2024-02-29T10:20:30.0705', '2024-02-29T10:20:30.071', '2024-02-29T10:20:30.0705'],
    ['2024-02-29T10:20:30.07', '2024-02-29T10:20:30.07', '2024-02-29T10:20:30.07'],
    ['2024-12-31T23:59:59.9996', '2025-01-01T00:00:00', '2024-12-31T23:59:59.9996'],
    ['0001-01-01T00:00:00', '0001-01-01T00:00:00', '0001-01-01T00:00:00'],
  ])('%s is stored as %s and repeated as %s', (text, stored, written) => {
    expect(read(text)).toEqual([stored, written])
  })

  it.each([
    '2026-13-01',
    '2026-02-30',
    '2026-03-01 10:00',
    '2026-3-1',
    '2026-03-01T24:00:00',
    '0000-01-01',
    'yesterday',
    '',
  ])('%s is none', (text) => {
    expect(read(text)).toBeNull()
  })
})

describe('times of a moment', () => {
  it('are shown by the clocks of the zone, summer and winter', () => {
    const [winter, summer] = [Date.UTC(2024, 0, 15, 12), Date.UTC(2024, 6, 15, 12, 0, 0, 70)]
    expect(storedLocal(winter, oslo)).toBe('2024-01-15T13:00:00')
    expect(storedLocal(summer, oslo)).toBe('2024-07-15T14:00:00.07')
    expect(storedUtc(summer)).toBe('2024-07-15T12:00:00.07')
    expect(storedLocal(summer, 'America/St_Johns')).toBe('2024-07-15T09:30:00.07')
    expect(writtenTime(utcClock(summer, 5), oslo)).toBe('2024-07-15T12:00:00.0700005Z')
    expect(writtenTime(localClock(winter, oslo), oslo)).toBe('2024-01-15T13:00:00+01:00')
  })

  it('change with daylight saving in the right minute', () => {
    const change = Date.UTC(2024, 2, 31, 1)
    expect(storedLocal(change - 1, oslo)).toBe('2024-03-31T01:59:59.999')
    expect(storedLocal(change, oslo)).toBe('2024-03-31T03:00:00')
  })
})
