// Who goes first and who waits: at once when nobody goes first, until the last of them is done, and never longer than the bound.

import { describe, expect, it } from 'vitest'
import { openRightOfWay } from '../../src/util/waiting.ts'

const signal = new AbortController().signal
const hour = 3_600_000

describe('the right of way', () => {
  it('lets everybody through while nobody has it', async () => {
    const { goFirst, giveWay } = openRightOfWay({ longestMs: hour })
    await giveWay(signal)
    await expect(goFirst(() => Promise.reject(new Error('in vain')))).rejects.toThrow('in vain')
    await giveWay(signal)
  })

  it('is given until the last of those who have it is done', async () => {
    const { goFirst, giveWay } = openRightOfWay({ longestMs: hour })
    const told: string[] = []
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const going = [goFirst(() => first.promise), goFirst(() => second.promise)]
    const waiting = giveWay(signal).then(() => told.push('the backlog'))
    first.resolve()
    await going[0]
    told.push('the first')
    await goFirst(async () => {})
    told.push('another')
    second.resolve()
    await Promise.all([going[1], waiting])
    expect(told).toEqual(['the first', 'another', 'the backlog'])
  })

  it('is given no longer than the bound, nor after the end', async () => {
    const { goFirst, giveWay } = openRightOfWay({ longestMs: 1 })
    void goFirst(() => new Promise(() => {}))
    await giveWay(signal)
    const stopping = new AbortController()
    const patient = openRightOfWay({ longestMs: hour })
    void patient.goFirst(() => new Promise(() => {}))
    const waiting = patient.giveWay(stopping.signal)
    stopping.abort()
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' })
  })
})
