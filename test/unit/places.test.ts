// Places for many people, of which one asks for very much.

import { describe, expect, it } from 'vitest'
import { openPlaces } from '../../src/util/places.ts'

const here = new AbortController().signal
const limits = { inAll: 3, ofOne: 2, waitingInAll: 5, waitingOfOne: 2, longestWaitMs: 60_000 }

describe('places', () => {
  it('are given to others while one person waits for their own, and to those who came first', async () => {
    const places = openPlaces(limits)
    const order: string[] = []
    const take = async (who: string, name: string) => {
      const leave = await places.take(who, here)
      order.push(leave === null ? `${name} refused` : name)
      return leave ?? (() => {})
    }
    const [a1, a2] = [await take('a', 'a1'), await take('a', 'a2')]
    const a3 = take('a', 'a3')
    const a4 = take('a', 'a4')
    await take('a', 'a5')
    const b1 = await take('b', 'b1')
    const b2 = take('b', 'b2')
    expect(order).toEqual(['a1', 'a2', 'a5 refused', 'b1'])
    // The place of `b` goes to `b`: the others already have as many as one may have.
    b1()
    b1()
    await b2
    a1()
    a2()
    await Promise.all([a3, a4])
    expect(order.slice(4)).toEqual(['b2', 'a3', 'a4'])
  })

  it('go to whoever has least, however long the queue of others is', async () => {
    const places = openPlaces({ ...limits, inAll: 4 })
    const [a] = await Promise.all(['a', 'a', 'b', 'b'].map((who) => places.take(who, here)))
    const order: string[] = []
    const waiting = ['a', 'a', 'b', 'b', 'c'].map(async (who) => {
      await places.take(who, here)
      order.push(who)
    })
    a?.()
    await waiting[4]
    expect(order).toEqual(['c'])
  })

  it('are waited for by few, not for long, and by nobody who has gone', async () => {
    const places = openPlaces({ ...limits, inAll: 1, longestWaitMs: 20 })
    const leave = await places.take('a', here)
    expect(await places.take('b', here)).toBeNull()
    const going = new AbortController()
    const gone = places.take('c', going.signal)
    going.abort()
    expect(await gone).toBeNull()
    const waits = Array.from({ length: 6 }, (_, index) => places.take(index, here))
    expect(await waits.at(-1)).toBeNull()
    leave?.()
    expect(await waits[0]).toBeTypeOf('function')
  })
})
