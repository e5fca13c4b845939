// How few lines tell how streams were, and that they tell it (P18).

import { describe, expect, it } from 'vitest'
import type { MinuteState } from '../../src/store/book/watch.ts'
import { openStreamMinutes } from '../../src/worker/minutes.ts'

const noon = Date.UTC(2026, 10, 1, 12)

/** Looks twice a minute. Returns the lines as people read them: when each begins, how long it is, what it says and the worst age. */
function watched(states: readonly MinuteState[], ages: (minute: number) => number, beginMinute = 0) {
  const minutes = openStreamMinutes()
  const clock = (minute: number) => new Date(noon + (beginMinute + minute) * 60_000)
  const lines = states.flatMap((state, minute) =>
    [0.1, 0.6].flatMap((part) =>
      minutes.saw(
        [{ stream: 'a', state, readAge: ages(minute), settledAge: null, deletionsAge: null }],
        clock(minute + part),
      ),
    ),
  )
  const all = [...lines, ...minutes.end(clock(states.length - 0.4))]
  const last = new Map(all.map((line) => [`${line.at.getTime()} ${line.minutes}`, line]))
  return [...last.values()].map(({ at, minutes: long, state, readAge }) => [
    (at.getTime() - noon) / 60_000,
    long,
    state,
    readAge,
  ])
}
const lasts = (state: MinuteState, minutes: number) => new Array<MinuteState>(minutes).fill(state)

describe('the states of a stream', () => {
  it('are one line for five minutes while they last, with the worst age', () => {
    expect(watched(lasts('up to date', 13), (minute) => (minute === 7 ? 60 : minute))).toEqual([
      // So that there is a line at all.
      [0, 1, 'up to date', 0],
      [0, 5, 'up to date', 4],
      [5, 5, 'up to date', 60],
      [10, 3, 'up to date', 12],
    ])
  })

  it('are a line a minute while something is wrong, and from the minute in which that begins', () => {
    const states = [...lasts('up to date', 7), ...lasts('behind', 2), ...lasts('up to date', 3)]
    expect(watched(states, () => 1)).toEqual([
      [0, 1, 'up to date', 1],
      [0, 5, 'up to date', 1],
      [5, 2, 'up to date', 1],
      [7, 1, 'behind', 1],
      [8, 1, 'behind', 1],
      [9, 1, 'up to date', 1],
      [10, 2, 'up to date', 1],
    ])
  })

  it('are noted for each minute until the next five begin', () => {
    expect(watched(lasts('paused', 6), () => 1, 3)).toEqual([
      [3, 1, 'paused', 1],
      [4, 1, 'paused', 1],
      [5, 4, 'paused', 1],
    ])
  })
})
