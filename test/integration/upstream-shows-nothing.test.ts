// What is claimed when the upstream answers 200 with empty lists, as it does for a client that it does not know.

import { describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'

const [assignment, , , object] = streams

describe.skipIf(!hasPostgres)('an upstream that shows nothing any more', () => {
  const database = createTestDatabase()
  const readAs = async (simulator: Simulator, clientGuid: string, kind: 'incremental' | 'lookback') => {
    await using context = await openTestContext(database, simulator, { CLIENT_GUID: clientGuid }, true)
    return await context.read(assignment, kind, { signal })
  }
  const freshness = async (stream: string): Promise<Date> => {
    const { rows } = await database.pool.query(
      'select read_through_time as at from tidemark.freshness where stream = $1',
      [stream],
    )
    return rows[0]?.at
  }
  const hiddenSince = async () =>
    (await readSymptoms(database.pool, ['assignment'], 60_000))[0]?.hiddenSince ?? null

  it('is not taken for one without changes, until it shows something again (P11)', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const { clientGuid } = simulator.credentials
    const stranger = '00000000-0000-4000-8000-000000000000'
    await readAs(simulator, clientGuid, 'incremental')
    await readAs(simulator, clientGuid, 'lookback')
    const { rows } = await database.pool.query(
      `select last_lookback_at as at from tidemark.stream where name = 'assignment'`,
    )
    const lastLookback: Date = rows[0]?.at
    const lastProof = await freshness('assignment')
    expect(lastProof.getTime()).toBeLessThanOrEqual(lastLookback.getTime())
    expect(await hiddenSince()).toBe(null)

    expect(await readAs(simulator, stranger, 'incremental')).toMatchObject({
      status: 'inconclusive',
      isComplete: false,
      note: expect.stringContaining('nothing was proven'),
    })
    expect(await freshness('assignment')).toEqual(lastProof)
    await readAs(simulator, stranger, 'lookback')
    const began = await hiddenSince()
    expect(began).toBeInstanceOf(Date)
    expect(await freshness('assignment')).toEqual(lastProof)
    for (const kind of ['incremental', 'lookback'] as const) await readAs(simulator, stranger, kind)
    expect([await freshness('assignment'), await hiddenSince()]).toEqual([lastProof, began])

    simulator.source.change('assignment', 3)
    await readAs(simulator, clientGuid, 'incremental')
    expect(await freshness('assignment')).toEqual(lastProof)
    await readAs(simulator, clientGuid, 'lookback')
    await readAs(simulator, clientGuid, 'incremental')
    expect(await hiddenSince()).toBe(null)
    expect((await freshness('assignment')).getTime()).toBeGreaterThan(lastProof.getTime())
  })

  it('is not taken for an empty one after a rewind to the beginning, while rows are stored (P11)', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const { clientGuid } = simulator.credentials
    await readAs(simulator, clientGuid, 'incremental')
    const toTheBeginning = { stream: 'assignment', position: 0n, by: 'somebody@here', reason: 'a test' }
    await rewindStream(database.pool, toTheBeginning)
    const before = await freshness('assignment')
    const stranger = '00000000-0000-4000-8000-000000000000'
    expect(await readAs(simulator, stranger, 'incremental')).toMatchObject({
      status: 'inconclusive',
      isComplete: false,
      note: expect.stringContaining('rows are stored'),
    })
    expect(await freshness('assignment')).toEqual(before)
    expect(await readAs(simulator, clientGuid, 'incremental')).toMatchObject({
      status: 'done',
      isComplete: true,
    })
  })

  it('is still not proven by a run that was stopped before it ended (P11)', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    await readAs(simulator, simulator.credentials.clientGuid, 'incremental')
    await readAs(simulator, '00000000-0000-4000-8000-000000000000', 'incremental')
    await using context = await openTestContext(database, simulator)
    const stopped = AbortSignal.abort()
    await context.read(assignment, 'incremental', { signal: stopped })
    const { rows } = await database.pool.query(
      `select inconclusive_runs as runs, inconclusive_since is not null as since from tidemark.stream where name = 'assignment'`,
    )
    expect(rows).toEqual([{ runs: 1, since: true }])
  })

  it('leaves a list complete only through when it was shown (P7)', async () => {
    await using simulator = await startSimulator({ objects: 10 })
    await using context = await openTestContext(database, simulator)
    const poll = () => context.read(object, 'incremental', { signal })
    await poll()
    const shownAt = await freshness('assignment_object')
    for (const id of simulator.source.ids('assignment_object'))
      simulator.source.remove('assignment_object', id, 'hard')
    await poll()
    const held = async () =>
      (await readSymptoms(database.pool, ['assignment_object'], 60_000))[0]?.blockedDeletions?.at ?? null
    const heldSince = await held()
    expect(heldSince).toBeInstanceOf(Date)
    await poll()
    expect(await held()).toEqual(heldSince)
    expect(await freshness('assignment_object')).toEqual(shownAt)
  })
})
