// The in-process hand on the data: what a test does to the source is what a client sees over HTTP.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { malformedKinds } from '../../src/simulator/malformed-records.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Caller, openCaller, signIn } from '../support/simulator-caller.ts'

let simulator: Simulator
let caller: Caller

beforeEach(async () => {
  simulator = await startSimulator({ assignments: 10, notes: 4, trackers: 2 })
  caller = await openCaller(simulator)
})
afterEach(() => simulator.close())

const changes = async (since: bigint | number = 0) =>
  caller.list(`/api/Assignment/neworchanged/${since}?PageSize=1000&Sorts=RowVersion`)
const idsSince = async (since: bigint | number) =>
  (await changes(since)).map(({ AssignmentId }) => AssignmentId)

describe('the truth', () => {
  it('is what is served', async () => {
    const { source } = simulator
    const served = await changes()
    const byId = served.toSorted((a, b) => Number(a.AssignmentId) - Number(b.AssignmentId))
    expect(source.records('assignment')).toEqual(byId)
    expect(source.texts('assignment').map((text) => JSON.parse(text))).toEqual(byId)
    expect(source.record('assignment', 3)).toEqual(byId[2])
    expect(source.ids('assignment')).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(source.highestVersion('assignment')).toBe(
      BigInt(Math.max(...byId.map(({ RowVersion }) => Number(RowVersion)))),
    )
    simulator.behaviour.casing = 'camel'
    expect(source.record('assignment', 3)).toEqual(
      (await caller.assignment('GET /api/Assignment/Id/3')).json(),
    )
  })

  it('follows from the seed', async () => {
    const texts = async (seed: number) => {
      await using other = await startSimulator({ seed, assignments: 50, notes: 20, trackers: 5, objects: 5 })
      return (['assignment', 'assignment_note', 'tracker_object', 'assignment_object'] as const).map((name) =>
        other.source.texts(name),
      )
    }
    expect(await texts(7)).toEqual(await texts(7))
    expect(await texts(7)).not.toEqual(await texts(8))
  })

  it('is about 38 fields and 1.1 KB for an assignment, and ids do not rise with row versions', async () => {
    const records = await changes()
    expect(Object.keys(records[0] ?? {}).length).toBe(39)
    const bytes = simulator.source.texts('assignment').map((text) => Buffer.byteLength(text))
    expect(bytes.reduce((a, b) => a + b) / bytes.length).toBeGreaterThan(1_000)
    expect(bytes.reduce((a, b) => a + b) / bytes.length).toBeLessThan(1_300)
    const ids = records.map(({ AssignmentId }) => Number(AssignmentId))
    expect(ids).not.toEqual([...ids].sort((a, b) => a - b))
  })
})

describe('changes', () => {
  it('insert, change, remove and bring back a record of any resource', async () => {
    const { source } = simulator
    const start = source.highestVersion('assignment')
    const inserted = source.insert('assignment', { Subject: 'hello' })
    source.change('assignment', 2, { Subject: 'changed', NewField: [1, { a: null }] })
    source.change('assignment', 3)
    expect(await idsSince(start)).toEqual([inserted.id, 2, 3])
    expect(source.record('assignment', 2)).toMatchObject({ Subject: 'changed', NewField: [1, { a: null }] })
    source.remove('assignment', 2)
    expect(source.record('assignment', 2)).toBeNull()
    expect((await caller.assignment('GET /api/Assignment/Id/2')).status).toBe(404)
    source.insert('assignment', null, { id: 2 })
    expect((await caller.assignment('GET /api/Assignment/Id/2')).status).toBe(200)
    expect(() => source.change('assignment', 99)).toThrow('no assignment with the id 99')
    expect(() => source.remove('assignment', 99)).toThrow('no assignment with the id 99')
    source.change('tracker_object', 1, { Speed: 88 })
    expect((await caller.tracking('GET /api/TrackerObject')).json()).toMatchObject([{ Speed: 88 }, {}])
    source.insert('assignment_product', { AssignmentId: 3, ProductName: 'mine' })
    expect((await caller.assignment('GET /api/Assignment/extended/Id/3')).text).toContain(
      '"ProductName":"mine"',
    )
  })

  it('delete softly when switched, or when told', async () => {
    const { source, behaviour } = simulator
    const start = source.highestVersion('assignment')
    source.remove('assignment', 4, 'soft')
    behaviour.deletes = 'soft'
    await caller.assignment('DELETE /api/Assignment/Id/5')
    expect(await changes(start)).toMatchObject([
      { AssignmentId: 4, SysDeleted: true },
      { AssignmentId: 5, SysDeleted: true },
    ])
    source.change('assignment', 4, { SysDeleted: false })
    expect(source.record('assignment', 4)).toMatchObject({ SysDeleted: false })
  })

  it('share one row version, or update many in the order of their ids', async () => {
    const { source, behaviour } = simulator
    const version = source.tie('assignment', [9, 1, 5])
    expect(await idsSince(version - 1n)).toEqual([1, 5, 9])
    source.bulkUpdate('assignment', [8, 3, 6], { Priority: 9 })
    expect(await idsSince(version)).toEqual([3, 6, 8])
    source.bulkUpdate('assignment')
    expect((await changes()).map(({ AssignmentId }) => AssignmentId)).toEqual(source.ids('assignment'))
    behaviour.ties = 4
    const before = source.highestVersion('assignment')
    source.bulkUpdate('assignment')
    const versions = (await changes(before)).map(({ RowVersion }) => Number(RowVersion))
    expect(new Set(versions).size).toBe(3)
    const last = source.highestVersion('assignment')
    expect(source.change('assignment', 1).version).toBeGreaterThan(last)
  })

  it('become visible late, below versions that were seen before', async () => {
    const { source } = simulator
    const start = source.highestVersion('assignment')
    const late = source.changeLate('assignment', 1, { Subject: 'late' })
    const lateInsert = source.insertLate('assignment')
    const prompt = source.change('assignment', 2)
    expect(late.version).toBeLessThan(prompt.version)
    expect(await idsSince(start)).toEqual([2])
    expect(source.record('assignment', 1)?.Subject).not.toBe('late')
    late.commit()
    expect(await idsSince(start)).toEqual([1, 2])
    expect(source.commitLate()).toBe(1)
    expect(await idsSince(start)).toEqual([1, lateInsert.id, 2])
    expect(source.commitLate()).toBe(0)
  })

  it('become visible late by chance, and by themselves, when switched', async () => {
    Object.assign(simulator.behaviour, { lateFraction: 1, lateDelayMs: 50 })
    const start = simulator.source.highestVersion('assignment')
    await caller.assignment('PUT /api/Assignment', { body: { AssignmentId: 3, Subject: 'late' } })
    expect(await idsSince(start)).toEqual([])
    await expect.poll(() => idsSince(start)).toEqual([3])
  })

  it('wait for an open transaction on the same record', async () => {
    const { source } = simulator
    source.changeLate('assignment', 1, { Subject: 'first', City: 'Hammerfest' })
    source.change('assignment', 1, { Subject: 'second' })
    expect(source.record('assignment', 1)).toMatchObject({ Subject: 'second', City: 'Hammerfest' })
    expect(source.commitLate()).toBe(0)
  })
})

describe('a backup', () => {
  it('takes everything back, row versions too', async () => {
    const { source } = simulator
    const backup = source.takeBackup()
    const before = source.texts('assignment')
    const then = source.highestVersion('assignment')
    source.bulkUpdate('assignment')
    source.remove('assignment', 1)
    source.insert('assignment_note')
    source.changeLate('assignment', 2)
    source.restoreBackup(backup)
    expect(source.texts('assignment')).toEqual(before)
    expect(source.count('assignment_note')).toBe(4)
    expect(source.commitLate()).toBe(0)
    expect(await idsSince(then)).toEqual([])
    const next = source.change('assignment', 2)
    expect(await idsSince(next.version - 1n)).toEqual([2])
  })
})

describe('raw records', () => {
  it('are served byte for byte, in lists and alone', async () => {
    const { source } = simulator
    const text = '{"AssignmentId":77,  "RowVersion":5,"A":1e400,"A":0.10,"S":"\\ud800\\u0000"}'
    const { version } = source.appendRaw('assignment', text, { id: 77 })
    const reply = await caller.assignment(`GET /api/Assignment/neworchanged/${version - 1n}`)
    expect(reply.text).toBe(`[${text}]`)
    expect((await caller.assignment('GET /api/Assignment/Id/77')).text).toBe(text)
    source.appendRaw('assignment', ({ id, version }) => `{"AssignmentId":${id},"RowVersion":${version}}`)
    source.appendRaw('assignment', new Uint8Array([0x22, 0xff, 0x22]))
    const two = await fetchBytes(`/api/Assignment/neworchanged/${version}`)
    expect(two.subarray(-4)).toEqual(Buffer.from([0x22, 0xff, 0x22, 0x5d]))
    expect(JSON.parse(two.toString())[0]).toEqual({ AssignmentId: 78, RowVersion: Number(version) + 1 })
    expect(source.texts('assignment')).toContain(text)
    source.change('assignment', 77)
    expect(source.record('assignment', 77)).toMatchObject({ AssignmentId: 77, Subject: expect.any(String) })
  })

  async function fetchBytes(path: string): Promise<Buffer> {
    const authorization = `Bearer ${await signIn(simulator)}`
    const headers = { authorization, clientId: simulator.credentials.clientGuid }
    const response = await fetch(`${simulator.assignmentUrl}${path}`, { headers })
    return Buffer.from(await response.arrayBuffer())
  }

  it('can be malformed in every known way, and the page around them stays JSON', async () => {
    const start = simulator.source.highestVersion('assignment')
    for (const kind of malformedKinds) simulator.source.insertMalformed(kind)
    const after = simulator.source.insert('assignment')
    const reply = await caller.assignment(`GET /api/Assignment/neworchanged/${start}?PageSize=1000`)
    const records = reply.json() as unknown[]
    expect(records.length).toBe(malformedKinds.length + 1)
    expect(records.at(-1)).toMatchObject({ AssignmentId: after.id })
    expect(reply.text.length).toBeGreaterThan(5 * 2 ** 20)
    for (const bytes of [
      '1e400',
      '12345678901234567890.12345678901234567890'.slice(10),
      '\\ud83d ',
      '\\u0000',
      '9999-12-31T23:59:59.9999999Z',
    ])
      expect(reply.text).toContain(bytes)
    expect(records.filter((record) => typeof record !== 'object' || record === null).length).toBe(3)
    simulator.source.insertMalformed('invalid-utf8', 'assignment_note')
    const notes = await fetchBytes('/api/AssignmentNote')
    expect(notes.includes(0xff)).toBe(true)
  })
})

describe('acting between two requests', () => {
  it('hooks wait, see each request, and can be taken away', async () => {
    const seen: unknown[] = []
    const remove = simulator.onRequest(async ({ method, path, query }) => {
      await Promise.resolve()
      seen.push([method, path, query])
      simulator.source.change('assignment', 1, { Subject: `seen ${seen.length}` })
    })
    await caller.assignment('GET /api/Assignment?PageSize=1')
    expect(
      ((await caller.assignment('GET /api/Assignment/Id/1')).json() as { Subject: string }).Subject,
    ).toBe('seen 2')
    expect(seen).toEqual([
      ['GET', '/api/Assignment', { PageSize: '1' }],
      ['GET', '/api/Assignment/Id/1', {}],
    ])
    remove()
    await caller.assignment('GET /api/Assignment')
    expect(seen.length).toBe(2)
  })

  it('the log keeps nothing until it is switched on', async () => {
    await caller.assignment('GET /api/Assignment')
    expect(simulator.requests.entries).toEqual([])
    simulator.requests.start()
    await caller.assignment('GET /api/Assignment')
    simulator.requests.stop()
    await caller.assignment('GET /api/Assignment')
    expect(simulator.requests.entries.length).toBe(1)
  })
})

describe('churn', () => {
  it('changes, adds and deletes records, and moves the vehicles', async () => {
    await using busy = await startSimulator({
      assignments: 200,
      notes: 100,
      trackers: 30,
      churnPerSecond: 2_000,
    })
    const { source } = busy
    const start = source.highestVersion('assignment')
    const vehicles = source.texts('tracker_object')
    const notes = source.texts('assignment_note')
    await expect.poll(() => Number(source.highestVersion('assignment') - start)).toBeGreaterThan(400)
    expect(source.texts('tracker_object')).not.toEqual(vehicles)
    expect(source.texts('assignment_note')).not.toEqual(notes)
    const records = source.records('assignment')
    expect(records.some(({ SysDeleted }) => SysDeleted === true)).toBe(true)
    expect(records.some(({ AssignmentId }) => Number(AssignmentId) > 200)).toBe(true)
    expect(source.ids('assignment').filter((id) => id <= 200).length).toBeLessThan(200)
  })
})
