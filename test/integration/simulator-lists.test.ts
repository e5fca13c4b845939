// The switches of lists, over HTTP: order, inclusivity, sorting, filtering, paging and the looks of records.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { initialBehaviour } from '../../src/simulator/behaviour.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Caller, openCaller } from '../support/simulator-caller.ts'

const count = 60
let simulator: Simulator
let caller: Caller
/** Ids in the order of their row versions. */
let byVersion: number[]
const byId = Array.from({ length: count }, (_, index) => index + 1)

beforeAll(async () => {
  simulator = await startSimulator({ assignments: count, notes: 5, trackers: 3 })
  caller = await openCaller(simulator)
  byVersion = await ids('PageSize=1000&Sorts=RowVersion')
})
beforeEach(() => {
  Object.assign(simulator.behaviour, initialBehaviour({}, 'plain'))
})
afterAll(() => simulator.close())

const changes = (query: string, since: bigint | number = 0) =>
  caller.list(`/api/Assignment/neworchanged/${since}?${query}`)
async function ids(query: string, since: bigint | number = 0): Promise<number[]> {
  return (await changes(query, since)).map(({ AssignmentId }) => Number(AssignmentId))
}
const versionOf = (id: number) => simulator.source.versionOf('assignment', id) ?? 0n

describe('order', () => {
  it('is that of row versions, ids, falling row versions, or another each time', async () => {
    expect(byVersion).not.toEqual(byId)
    expect(await ids('PageSize=1000')).toEqual(byVersion)
    simulator.behaviour.order = 'id'
    expect(await ids('PageSize=1000')).toEqual(byId)
    simulator.behaviour.order = 'descending'
    expect(await ids('PageSize=1000')).toEqual([...byVersion].reverse())
    simulator.behaviour.order = 'unstable'
    const [once, twice] = [await ids('PageSize=1000'), await ids('PageSize=1000')]
    expect(once).not.toEqual(twice)
    expect([...once].sort((a, b) => a - b)).toEqual(byId)
  })

  it.each(['row-version', 'id', 'descending'] as const)('%s pages through everything', async (order) => {
    simulator.behaviour.order = order
    const pages = [1, 2, 3, 4].map((page) => ids(`Page=${page}&PageSize=17`))
    const whole = await ids('PageSize=1000')
    expect((await Promise.all(pages)).flat()).toEqual(whole)
    expect(await ids('Page=5&PageSize=17')).toEqual([])
    expect(await ids('Page=2147483647&PageSize=2147483647')).toEqual([])
  })

  it.each(['row-version', 'id', 'descending', 'unstable'] as const)(
    '%s starts above the row version, or at it when inclusive',
    async (order) => {
      simulator.behaviour.order = order
      const since = versionOf(byVersion[20] ?? 0)
      expect(new Set(await ids('PageSize=1000', since))).toEqual(new Set(byVersion.slice(21)))
      simulator.behaviour.inclusive = true
      expect(new Set(await ids('PageSize=1000', since))).toEqual(new Set(byVersion.slice(20)))
    },
  )
})

describe('Sorts', () => {
  beforeEach(() => {
    simulator.behaviour.order = 'id'
  })

  it('is honoured for row versions, any field, several, and in any case', async () => {
    expect(await ids('PageSize=1000&Sorts=RowVersion')).toEqual(byVersion)
    expect(await ids('PageSize=1000&sorts=-rowversion')).toEqual([...byVersion].reverse())
    expect(await ids('PageSize=1000&Sorts=-AssignmentId')).toEqual([...byId].reverse())
    const sorted = await changes('PageSize=1000&Sorts=City,-RowVersion')
    const expected = [...sorted].sort(
      (a, b) =>
        (String(a.City) < String(b.City) ? -1 : String(a.City) > String(b.City) ? 1 : 0) ||
        Number(b.RowVersion) - Number(a.RowVersion),
    )
    expect(sorted).toEqual(expected)
    expect(new Set(sorted.map(({ City }) => City)).size).toBeGreaterThan(1)
  })

  it('is ignored or refused when switched', async () => {
    simulator.behaviour.sorts = 'ignored'
    expect(await ids('PageSize=1000&Sorts=RowVersion')).toEqual(byId)
    simulator.behaviour.sorts = 'refused'
    expect((await caller.assignment('GET /api/Assignment/neworchanged/0?Sorts=RowVersion')).status).toBe(400)
    expect(await ids('PageSize=1000')).toEqual(byId)
  })

  it('with an unknown name switches paging off, when switched', async () => {
    expect((await ids('PageSize=5&Sorts=Nonsense')).length).toBe(5)
    simulator.behaviour.unknownNames = 'whole-list'
    expect((await ids('PageSize=5&Sorts=Nonsense')).length).toBe(count)
    expect((await ids('PageSize=5&Sorts=RowVersion')).length).toBe(5)
    simulator.behaviour.sortableFields = ['AssignmentId']
    expect((await ids('PageSize=5&Sorts=RowVersion')).length).toBe(count)
  })
})

describe('Filters', () => {
  it('is honoured or ignored', async () => {
    const all = simulator.source.records('assignment')
    const wanted = all.filter(({ Status, City }) => Number(Status) >= 3 && City === 'Oslo')
    const query = `PageSize=1000&Filters=${encodeURIComponent('Status>=3,City==Oslo')}`
    expect((await ids(query)).sort((a, b) => a - b)).toEqual(wanted.map(({ AssignmentId }) => AssignmentId))
    expect(wanted.length).toBeGreaterThan(0)
    simulator.behaviour.filters = 'ignored'
    expect((await ids(query)).length).toBe(count)
  })

  it('sees what changed since it was asked last', async () => {
    const query = `/api/AssignmentNote?Filters=${encodeURIComponent('Text==only this')}`
    expect(await caller.list(query)).toEqual([])
    const { id } = simulator.source.insert('assignment_note', { Text: 'only this' })
    expect((await caller.list(query)).length).toBe(1)
    simulator.source.remove('assignment_note', id)
    expect(await caller.list(query)).toEqual([])
  })
})

describe('paging', () => {
  it('answers at once far behind the end, also in an order with ties', async () => {
    simulator.behaviour.order = 'heap'
    const startedMs = performance.now()
    expect(await ids('Sorts=RowVersion&Page=400000000&PageSize=1')).toEqual([])
    expect(performance.now() - startedMs).toBeLessThan(2_000)
  })

  it('caps the page with the arithmetic that is switched on', async () => {
    simulator.behaviour.pageCap = 10
    expect(await ids('Page=2&PageSize=25')).toEqual(byVersion.slice(25, 35))
    simulator.behaviour.pageCapArithmetic = 'clamped'
    expect(await ids('Page=2&PageSize=25')).toEqual(byVersion.slice(10, 20))
  })

  it('has a default size, or none, or is ignored', async () => {
    simulator.behaviour.defaultPageSize = 7
    expect((await ids('')).length).toBe(7)
    simulator.behaviour.defaultPageSize = null
    expect((await ids('')).length).toBe(count)
    simulator.behaviour.pagingIgnored = true
    expect((await ids('Page=3&PageSize=5')).length).toBe(count)
  })
})

describe('records', () => {
  it('are Pascal or camel case', async () => {
    expect(Object.keys((await changes('PageSize=1'))[0] ?? {})).toContain('StatusName')
    simulator.behaviour.casing = 'camel'
    const [record] = await changes('PageSize=1')
    expect(record).toMatchObject({
      assignmentId: expect.any(Number),
      uid: expect.any(String),
      sysUpdatedDateUTC: expect.stringMatching(/\.\d{7}Z$/),
    })
    for (const name of Object.keys(record ?? {})) expect(name).toMatch(/^[a-z]/)
    const extended = await caller.assignment('GET /api/Assignment/extended/Id/1')
    expect(extended.json()).toMatchObject({ customer: { customerId: expect.any(Number) } })
  })

  it('have row versions as numbers or strings, under one name or the other', async () => {
    const first = String(versionOf(byVersion[0] ?? 0))
    simulator.behaviour.rowVersions = 'string'
    expect((await changes('PageSize=1'))[0]).toMatchObject({ RowVersion: first, SysRowVersion: first })
    simulator.behaviour.rowVersionField = 'SysRowVersion'
    expect((await changes('PageSize=1'))[0]).not.toHaveProperty('RowVersion')
    simulator.behaviour.rowVersionField = 'RowVersion'
    expect((await changes('PageSize=1'))[0]).not.toHaveProperty('SysRowVersion')
    simulator.behaviour.rowVersionField = 'none'
    expect(Object.keys((await changes('PageSize=1'))[0] ?? {}).join()).not.toMatch(/RowVersion/)
  })

  it('have row versions beyond 2^53 to the last digit, at the distance that is switched', async () => {
    const firstRowVersion = 2n ** 60n + 1n
    await using other = await startSimulator({
      assignments: 3,
      firstRowVersion,
      behaviour: { rowVersionStep: 3 },
    })
    const its = await openCaller(other)
    const versions = other.source
      .ids('assignment')
      .map((id) => other.source.versionOf('assignment', id) ?? 0n)
    for (const version of versions) {
      expect((version - firstRowVersion) % 3n).toBe(0n)
      const reply = await its.assignment(`GET /api/Assignment/neworchanged/${version - 1n}?PageSize=1`)
      expect(reply.text).toContain(`"RowVersion":${version},`)
    }
  })

  it('come in an object when switched', async () => {
    simulator.behaviour.listWrapper = 'items'
    const wrapped = (await caller.assignment('GET /api/Assignment?PageSize=2')).json() as { items: unknown[] }
    expect(wrapped.items.length).toBe(2)
    expect((await caller.assignment('GET /api/Assignment?Page=99')).text).toBe('{"items":[]}')
  })

  it('are compressed for those who can read it, when switched', async () => {
    const gzip = { 'accept-encoding': 'gzip' }
    const plain = await caller.assignment('GET /api/Assignment?PageSize=50', { headers: gzip })
    expect(plain.headers.get('content-encoding')).toBeNull()
    simulator.behaviour.gzip = true
    const packed = await caller.assignment('GET /api/Assignment?PageSize=50', { headers: gzip })
    expect(packed.headers.get('content-encoding')).toBe('gzip')
    expect(packed.text).toBe(plain.text)
    expect(Number(packed.headers.get('content-length'))).toBeLessThan(plain.text.length / 2)
    const refusing = await caller.assignment('GET /api/Assignment', {
      headers: { 'accept-encoding': 'identity' },
    })
    expect(refusing.headers.get('content-encoding')).toBeNull()
  })
})

describe('a list too long to be held', () => {
  it('is streamed whole, compressed or not', async () => {
    await using large = await startSimulator({ assignments: 25_000, behaviour: { defaultPageSize: null } })
    const other = await openCaller(large)
    const all = await other.list('/api/Assignment')
    expect(all.length).toBe(25_000)
    large.behaviour.gzip = true
    expect((await other.list('/api/Assignment/neworchanged/0')).length).toBe(25_000)
  })
})
