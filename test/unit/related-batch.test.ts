// How much of a backlog one batch reads (P10).

import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { relatedStreams } from '../../src/streams/catalog.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { readFamilies } from '../../src/sync/related/batch.ts'
import { neverAborted as signal } from '../support/context.ts'

const run = {
  state: { versionField: null },
  keyFields: { of: async () => 'AttachmentId', keep: async () => {} },
  backlog: { linked: async () => [], othersWith: async () => [] },
}
const wanted = Array.from({ length: 50 }, (_, index) => ({
  assignmentId: String(index + 1),
  hash: '',
  version: null,
  isGone: false,
}))

/** Each answer holds so many bytes. */
async function readWith(bytes: number) {
  const seen = { atOnce: 0, mostAtOnce: 0 }
  const lookup: Source['lookup'] = async () => {
    seen.mostAtOnce = Math.max(seen.mostAtOnce, ++seen.atOnce)
    await new Promise(setImmediate)
    seen.atOnce -= 1
    return { found: { Attachment: [] }, bytes }
  }
  const streams = relatedStreams.filter(({ name }) => name === 'attachment')
  const source = { lookup } as unknown as Source
  const budget = { mostBytes: 1_000, largestBytes: 0 }
  const batch = await readFamilies({ source, streams, signal, budget }, run, wanted)
  return { ...seen, asked: batch.askedCount, shown: batch.shown.length }
}

describe('an assignment whose files are too long to be read', () => {
  it('is read but for them: what is known of its files stays, and it waits to be read again', async () => {
    const leftOut = { field: 'FileData', problem: 'too long' }
    const lookup: Source['lookup'] = async () => ({ found: { Attachment: [{ AttachmentId: 7 }] }, leftOut })
    const streams = relatedStreams.filter(({ name }) => name.startsWith('attachment'))
    const source = { lookup } as unknown as Source
    const budget = { mostBytes: 1_000, largestBytes: 0 }
    const [due] = wanted
    if (!due) throw new Error('unreachable')
    const batch = await readFamilies({ source, streams, signal, budget }, run, [due])
    expect(batch.families).toEqual([{ due, children: [{ stream: 'attachment', keys: ['7'] }] }])
    expect(batch.aside).toEqual([])
    expect(batch.incomplete).toEqual([{ due, problem: 'too long' }])
  })

  it('says nothing of the files of others: the last one that is gone somewhere else is believed', async () => {
    const leftOut = { field: 'FileData', problem: 'too long' }
    const lookup: Source['lookup'] = async (id) =>
      id === '1' ? { found: { Attachment: [] } } : { found: { Attachment: [{ AttachmentId: id }] }, leftOut }
    const streams = relatedStreams.filter(({ name }) => name === 'attachment_data')
    const source = { lookup } as unknown as Source
    const budget = { mostBytes: 1_000, largestBytes: 0 }
    const [due] = wanted
    if (!due) throw new Error('unreachable')
    const linked = async () => [{ assignmentId: '1', stream: 'attachment_data', key: '7' }]
    const backlog = { linked, othersWith: async () => ['2', '3', '4'] }
    const batch = await readFamilies({ source, streams, signal, budget }, { ...run, backlog }, [due])
    expect(batch.aside).toEqual([])
    expect(batch.families).toEqual([{ due, children: [{ stream: 'attachment_data', keys: [] }] }])
  })
})

describe('an answer that is older than the row of its assignment', () => {
  it('is not believed, wherever the fields of the assignment stand in it (P11)', async () => {
    const [due] = wanted
    if (!due) throw new Error('unreachable')
    const streams = relatedStreams.filter(({ name }) => name === 'attachment')
    const asideWith = async (found: Record<string, JsonObject | number>) => {
      const source = { lookup: async () => ({ found: { ...found, attachment: [] } }) } as unknown as Source
      const state = { versionField: 'SysRowVersion' }
      const budget = { mostBytes: 1_000, largestBytes: 0 }
      const known = { ...due, version: '10' }
      const batch = await readFamilies({ source, streams, signal, budget }, { ...run, state }, [known])
      return batch.aside.map(({ problem }) => problem)
    }
    const old = ['the answer shows version 9 of the assignment, and version 10 is known']
    expect(await asideWith({ assignment: { sysRowVersion: 9, rowVersion: 12 } })).toEqual(old)
    expect(await asideWith({ SysRowVersion: 9 })).toEqual(old)
    expect(await asideWith({ assignment: { sysRowVersion: 10 } })).toEqual([])
    expect(await asideWith({ SysRowVersion: 11 })).toEqual([])
    expect(await asideWith({ assignment: {} })).toEqual([])
  })
})

describe('a group whose first records show no key', () => {
  const streams = relatedStreams.filter(({ name }) => ['customer', 'employee'].includes(name))
  const two = wanted.slice(0, 2)
  const readTwo = async (found: readonly JsonObject[]) => {
    const kept: string[] = []
    const keep = async (group: string, field: string) => void kept.push(`${group} ${field}`)
    const lookup: Source['lookup'] = async (id) => ({ found: found[Number(id) - 1] ?? {} })
    const source = { lookup } as unknown as Source
    const given = { ...run, keyFields: { of: async () => null, keep } }
    const budget = { mostBytes: 1_000, largestBytes: 0 }
    return { kept, ...(await readFamilies({ source, streams, signal, budget }, given, two)) }
  }

  it('takes the key of most of them, and sets the others apart (P5)', async () => {
    const customers = [{ CustomerId: 1 }, { CustomerId: null }, { CustomerId: 2 }]
    const batch = await readTwo([
      { Customer: customers, Employee: [] },
      { Customer: [], Employee: [] },
    ])
    expect(batch.kept).toEqual(['customer CustomerId'])
    expect(batch.failure).toBeNull()
    expect(batch.pages.map(({ records }) => [records.rows.length, records.rejected.length])).toEqual([[2, 1]])
  })

  it('keeps no other group and no other assignment from being read', async () => {
    const batch = await readTwo([
      { Customer: { CustomerId: null, Name: 'nobody' }, Employee: [{ EmployeeId: 8 }] },
      { Customer: null, Employee: [{ EmployeeId: 9 }] },
    ])
    expect(batch.kept).toEqual(['employee EmployeeId'])
    expect(String(batch.failure?.error)).toContain('Set KEY_CUSTOMER')
    expect(batch.pages.map(({ stream, records }) => [stream.name, records.rows.length])).toEqual([
      ['employee', 2],
    ])
    expect(batch.families.map(({ due }) => due.assignmentId)).toEqual(['2'])
    expect(batch.aside.map(({ due, problem }) => [due.assignmentId, problem.slice(0, 7)])).toEqual([
      ['1', 'None of'],
    ])
  })
})

describe('P10: a batch of related records', () => {
  it('ends when its answers hold as much as they may, and leaves the others to the next', async () => {
    expect(await readWith(10)).toEqual({ atOnce: 0, mostAtOnce: 4, asked: 50, shown: 50 })
    expect(await readWith(100)).toMatchObject({ asked: 10, shown: 10 })
  })

  it('holds one answer that is longer than that, besides those that were under way', async () => {
    expect(await readWith(5_000)).toMatchObject({ mostAtOnce: 4, asked: 4, shown: 4 })
  })
})
