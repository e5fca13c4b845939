// Who goes first and who waits: at once when nobody goes first, until the last of them is done, and never longer than the bound.

import { describe, expect, it } from 'vitest'
import { openPriorityGate } from '../../src/util/waiting.ts'

const signal = new AbortController().signal
const hour = 3_600_000

describe('the right of way', () => {
  it('lets everybody through while nobody has it', async () => {
    const { first, yieldTo } = openPriorityGate({ longestMs: hour })
    await yieldTo(signal)
    await expect(first(() => Promise.reject(new Error('in vain')))).rejects.toThrow('in vain')
    await yieldTo(signal)
  })

  it('is given until the last of those who have it is done', async () => {
    const { first, yieldTo } = openPriorityGate({ longestMs: hour })
    const told: string[] = []
    const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const going = [first(() => one.promise), first(() => two.promise)]
    const waiting = yieldTo(signal).then(() => told.push('the backlog'))
    one.resolve()
    await going[0]
    told.push('the first')
    await first(async () => {})
    told.push('another')
    two.resolve()
    await Promise.all([going[1], waiting])
    expect(told).toEqual(['the first', 'another', 'the backlog'])
  })

  it('is given no longer than the bound, nor after the end', async () => {
    const { first, yieldTo } = openPriorityGate({ longestMs: 1 })
    void first(() => new Promise(() => {}))
    await yieldTo(signal)
    const stopping = new AbortController()
    const patient = openPriorityGate({ longestMs: hour })
    void patient.first(() => new Promise(() => {}))
    const waiting = patient.yieldTo(stopping.signal)
    stopping.abort()
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' })
  })
})
