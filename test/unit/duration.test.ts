import { describe, expect, it } from 'vitest'
import { formatDuration, parseDuration } from '../../src/util/text.ts'

describe('durations', () => {
  it('are read as people write them', () => {
    expect(['500ms', '30s', '1.5m', ' 2 H ', '7d'].map(parseDuration)).toEqual([
      500, 30_000, 90_000, 7_200_000, 604_800_000,
    ])
    expect(['', '30', 's', '-1s', '1w', '1s2m'].map(parseDuration)).toEqual([
      null,
      null,
      null,
      null,
      null,
      null,
    ])
  })

  it('are told in the two largest units that say something', () => {
    expect([0, 999, 1400, 59_600, 65_000, 3_600_000, 90_061_000].map(formatDuration)).toEqual([
      '0 ms',
      '999 ms',
      '1.4 s',
      '60 s',
      '1 m 5 s',
      '1 h',
      '1 d 1 h',
    ])
  })
})
