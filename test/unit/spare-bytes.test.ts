import { describe, expect, it } from 'vitest'
import { newFieldOrder } from '../../src/wire/field-order.ts'
import { scanRecords } from '../../src/wire/scan.ts'
import { openSpareBytes } from '../../src/wire/spare-bytes.ts'

describe('memory that is used again', () => {
  it('serves what is a little longer from the same memory', () => {
    const spare = openSpareBytes(10_000)
    const first = spare.take(1_000)
    spare.giveBack(first)
    expect(spare.take(1_100)).toBe(first)
  })

  it('gives no two users the same memory', () => {
    const spare = openSpareBytes(10_000)
    spare.giveBack(spare.take(1_000))
    expect(spare.take(1_000)).not.toBe(spare.take(1_000))
  })

  it('keeps no more than it may (P10)', () => {
    const spare = openSpareBytes(3_000)
    const all = [spare.take(1_000), spare.take(1_000), spare.take(1_000)]
    for (const bytes of all) spare.giveBack(bytes)
    const kept = all.filter(() => all.includes(spare.take(1_000)))
    expect(kept).toHaveLength(2)
  })
})

describe('a page that was given back', () => {
  const bytesOf = (records: readonly unknown[]) => Buffer.from(JSON.stringify(records))

  it('shows no record of the page that has its memory', () => {
    const order = newFieldOrder()
    const first = scanRecords(bytesOf([{ id: 1 }]), order)
    first?.release()
    const second = scanRecords(bytesOf([{ id: 2 }]), order)
    expect(second?.record(0)).toEqual({ id: 2 })
    expect(() => first?.record(0)).toThrow('the text is not JSON')
  })

  it('gives its memory back once', () => {
    let timesReleased = 0
    const page = scanRecords(bytesOf([{ id: 1 }]), newFieldOrder(), () => {
      timesReleased++
    })
    page?.release()
    page?.release()
    expect(timesReleased).toBe(1)
  })

  it('leaves nothing behind in places of the next one', () => {
    const order = newFieldOrder()
    scanRecords(bytesOf([{ a: 1, b: 2 }, { a: 3 }]), order)?.release()
    const next = scanRecords(bytesOf([{ b: 4 }, {}]), order)
    expect([...(next ?? [])]).toEqual([{ b: 4 }, {}])
    expect(next?.places.valueStarts[1]).toBe(0)
  })
})
