// The memory that all answers of a process share (P10).

import { describe, expect, it } from 'vitest'
import { answerBytesFor, openAnswerMemory } from '../../src/upstream/http/answer-memory.ts'

const noSignal = new AbortController().signal
const isSettled = (promise: Promise<unknown>) =>
  Promise.race([promise.then(() => true), new Promise((resolve) => setImmediate(() => resolve(false)))])

describe('P10: the memory for answers', () => {
  it('follows what the machine or its container has, within bounds', () => {
    const megabyte = 1024 * 1024
    expect(answerBytesFor(128 * megabyte)).toBe(48 * megabyte)
    expect(answerBytesFor(256 * megabyte)).toBe(48 * megabyte)
    expect(answerBytesFor(512 * megabyte)).toBe(176 * megabyte)
    expect(answerBytesFor(64 * 1024 * megabyte)).toBe(256 * megabyte)
  })

  it('lets an answer wait until another gives its share back', async () => {
    const memory = openAnswerMemory(100)
    const first = memory.open()
    const second = memory.open()
    expect(first.take(70)).toBe(true)
    expect(second.take(40)).toBe(false)
    const waiting = second.wait(40, 60_000, noSignal)
    expect(await isSettled(waiting)).toBe(false)
    first.leave()
    expect(await waiting).toBe(true)
    expect(memory.open().take(61)).toBe(false)
    second.leave()
    second.leave()
    expect(memory.open().take(100)).toBe(true)
  })

  it('gives one alone as much as it wants: that is bounded elsewhere', () => {
    const memory = openAnswerMemory(100)
    const only = memory.open()
    expect(only.take(150)).toBe(true)
    expect(memory.open().take(1)).toBe(false)
  })

  it('refuses the last of those that would wait for each other for ever', async () => {
    const memory = openAnswerMemory(100)
    const [first, second] = [memory.open(), memory.open()]
    expect(first.take(50) && second.take(50)).toBe(true)
    const waiting = first.wait(60, 60_000, noSignal)
    expect(await isSettled(waiting)).toBe(false)
    expect(await second.wait(60, 60_000, noSignal)).toBe(false)
    second.leave()
    expect(await waiting).toBe(true)
  })

  it('keeps nothing for one that was given up while it waited', async () => {
    const memory = openAnswerMemory(100)
    const [first, second] = [memory.open(), memory.open()]
    first.take(100)
    const waiting = second.wait(50, 60_000, noSignal)
    second.leave()
    expect(await waiting).toBe(false)
    first.leave()
    expect(memory.open().take(100)).toBe(true)
    const aborted = AbortSignal.abort(new Error('stop'))
    memory.open().take(1)
    await expect(memory.open().wait(100, 60_000, aborted)).rejects.toThrow('stop')
  })

  it('lets nobody wait for ever: who holds the rest may be waiting for this answer', async () => {
    const memory = openAnswerMemory(100)
    const [first, second] = [memory.open(), memory.open()]
    first.take(100)
    expect(await second.wait(50, 20, noSignal)).toBe(false)
    first.leave()
    expect(second.take(100)).toBe(true)
  })
})
