// What changed in the rows of all streams: each column with its values before and after and the run that wrote them, page by page.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type ChangesAsked, readChanges, type StreamChange } from '../../src/store/book/changes.ts'
import type { Stream } from '../../src/streams/catalog.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const [assignment, note, object] = [
  streamOf('assignment'),
  streamOf('assignment_note'),
  streamOf('assignment_object'),
]

describe.skipIf(!hasPostgres)('what changed', () => {
  const database = createTestDatabase()
  let upstream: Simulator
  let context: SyncContext
  const read = async (...streams: readonly Stream[]) => {
    const runs: (string | null)[] = []
    for (const stream of streams) runs.push((await context.read(stream, 'incremental', { signal })).runId)
    return runs
  }
  const ask = (more: Partial<ChangesAsked> = {}) =>
    readChanges(database.pool, [assignment, note, object], {
      ...{ stream: null, column: '', after: null, limit: 1_000 },
      ...more,
    })
  const shortly = ({ stream, key, runId, fields }: StreamChange) => [stream, key, runId, fields]

  beforeAll(async () => {
    upstream = await startSimulator({
      assignments: 250,
      notes: 30,
      objects: 5,
      behaviour: { deletes: 'hard' },
    })
    context = await openTestContext(database, upstream, { HISTORY: 'assignment,assignment_note' })
    await read(assignment, note, object)
  })
  afterAll(async () => {
    await context?.[Symbol.asyncDispose]()
    await upstream?.close()
  })

  it('is nothing while rows only came, and of streams without a past', async () => {
    upstream.source.change('assignment_object', 1, { Name: 'another' })
    await read(object)
    expect(await ask()).toEqual({
      changes: [],
      next: null,
      isCut: false,
      kept: ['assignment', 'assignment_note'],
      ended: [],
    })
  })

  it('tells columns before and after, the run, and what was deleted; by stream, column and time', async () => {
    upstream.source.change('assignment', 7, { Subject: 'one', City: 'Bergen' })
    const [first] = await read(assignment)
    upstream.source.change('assignment', 7, { Subject: 'two' })
    upstream.source.change('assignment_note', 3, { Text: 'a <b>' })
    const [second, third] = await read(assignment, note)
    const { changes } = await ask()
    expect(changes.map(shortly)).toEqual([
      ['assignment_note', '3', third, [expect.objectContaining({ column: 'text', after: 'a <b>' })]],
      ['assignment', '7', second, [{ column: 'subject', before: 'one', after: 'two' }]],
      [
        'assignment',
        '7',
        first,
        [
          expect.objectContaining({ column: 'city', after: 'Bergen' }),
          expect.objectContaining({ column: 'subject', after: 'one' }),
        ],
      ],
    ])
    expect((await ask({ stream: 'assignment_note' })).changes).toEqual(changes.slice(0, 1))
    const ofCity = (await ask({ column: 'CIT' })).changes
    expect(ofCity.map(({ fields }) => fields.map(({ column }) => column))).toEqual([['city']])
    const at = new Date(changes[1]?.at ?? '')
    const near = { from: new Date(at.getTime()), to: new Date(at.getTime() + 1) }
    expect((await ask(near)).changes).toEqual([changes[1]])
    expect((await ask({ to: new Date(0) })).changes).toEqual([])

    upstream.source.remove('assignment', 9, 'hard')
    await reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 })
    const [gone] = (await ask()).changes
    expect(gone).toMatchObject({ stream: 'assignment', key: '9', isDeleted: true, fields: [] })
  })

  it('is the same page by page, also where many rows changed in one transaction', async () => {
    for (let id = 10; id <= 30; id++) {
      upstream.source.change('assignment', id, { Subject: `row ${id}` })
      upstream.source.change('assignment_note', id, { Text: `row ${id}` })
    }
    await read(assignment, note)
    const whole = (await ask()).changes
    const paged: StreamChange[] = []
    for (let after: ChangesAsked['after'] = null, pages = 0; ; pages++) {
      const { changes, next, isCut } = await ask({ after, limit: 7 })
      expect([changes.length <= 7, isCut, pages < 20]).toEqual([true, false, true])
      paged.push(...changes)
      if (next === null) break
      after = next
    }
    expect(paged.map(({ stream, key, at }) => `${stream} ${key} ${at}`)).toEqual(
      whole.map(({ stream, key, at }) => `${stream} ${key} ${at}`),
    )
    expect(whole.filter(({ runId }) => runId === null).map(({ isDeleted }) => isDeleted)).toEqual([true])
  })

  it('says of which stream rows were written later than its past tells (P18)', async () => {
    await using without = await openTestContext(database, upstream, { HISTORY: 'assignment' })
    upstream.source.change('assignment_note', 5, { Text: 'unseen' })
    const { changes: before } = await ask()
    await without.read(note, 'incremental', { signal })
    const { changes, kept, ended } = await ask()
    expect([changes, kept]).toEqual([before, ['assignment', 'assignment_note']])
    expect(ended.map(({ stream }) => stream)).toEqual(['assignment_note'])
    expect((await ask({ stream: 'assignment' })).ended).toEqual([])
  })

  it('is shown once, also where the time is up before a stream was looked through', async () => {
    upstream.source.change('assignment_note', 7, { Text: 'before many others' })
    await read(note)
    for (let id = 1; id <= 250; id++)
      if (id !== 9) upstream.source.change('assignment', id, { Subject: `many ${id}` })
    await read(assignment)
    const inOne = { column: 'text', limit: 1_000 }
    const whole = (await ask(inOne)).changes
    expect(whole.map(({ stream }) => stream)).toContain('assignment_note')
    const paged: StreamChange[] = []
    const cut: boolean[] = []
    for (let after: ChangesAsked['after'] = null; ; ) {
      const { changes, next, isCut } = await ask({ ...inOne, after, enoughMs: 0 })
      paged.push(...changes)
      cut.push(isCut)
      if (next === null) break
      after = next
    }
    expect(cut.slice(0, 2)).toEqual([true, true])
    expect(paged.map(shortly)).toEqual(whole.map(shortly))
  })

  it('takes any place to go on from that an address may name', async () => {
    const all = (await ask()).changes.length
    for (const key of ["'; drop", '', '99999999999999999999999', 'x\n'])
      expect(
        (await ask({ after: { micros: '9'.repeat(16), stream: 'assignment', key } })).changes,
      ).toHaveLength(all)
    const before = { micros: '0', stream: 'zzz', key: '1' }
    expect((await ask({ after: before })).changes).toEqual([])
  })
})
