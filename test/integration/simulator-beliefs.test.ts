// A switch for each thing that a reader may believe of its upstream and that need not be so. Each is thrown while the
// stand-in runs, and seen to act.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Behaviour } from '../../src/simulator/behaviour.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Caller, openCaller } from '../support/simulator-caller.ts'

const count = 60
const otherGuid = 'c2a7e9b4-58d1-4c36-8b7f-7d20f4a69e02'
let simulator: Simulator
let caller: Caller

beforeEach(async () => {
  simulator = await startSimulator({
    look: 'recorded',
    assignments: count,
    notes: 5,
    trackers: 3,
    otherClients: [{ guid: otherGuid, assignments: 4 }],
  })
  caller = await openCaller(simulator)
})
afterEach(() => simulator.close())

const flip = (changes: Partial<Behaviour>) => Object.assign(simulator.behaviour, changes)
const list = '/api/Assignment'
const changes = (since: bigint | number = 0) => `/api/Assignment/neworchanged/${since}`
const idsOf = (records: readonly Record<string, unknown>[]) =>
  records.map(({ assignmentId }) => Number(assignmentId))
const ids = async (path: string) => idsOf(await caller.list(path))
const one = async (id: number) =>
  (await caller.assignment(`GET /api/Assignment/Id/${id}`)).json() as Record<string, unknown>
const sorted = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b)
const all = Array.from({ length: count }, (_, index) => index + 1)
const versionOf = (id: number) => simulator.source.versionOf('assignment', id) ?? 0n

describe('an answer without a record', () => {
  it.each([
    ['envelope', 200, '{"success":false,"data":[]}'],
    ['null', 200, 'null'],
    ['no-content', 204, ''],
    ['empty', 200, '[]'],
  ] as const)('is %s: status %i, %j', async (lists, status, text) => {
    flip({ lists })
    for (const path of [list, changes(), '/api/AssignmentNote', '/api/Webhooks']) {
      const reply = await caller.assignment(`GET ${path}`)
      expect([path, reply.status, reply.text]).toEqual([path, status, text])
    }
    expect(await one(7)).toMatchObject({ assignmentId: 7 })
    flip({ lists: 'right' })
    expect(await ids(list)).toHaveLength(count)
  })

  it.each([
    ['no-lists', 200],
    ['reads-404', 404],
    ['reads-403', 403],
  ] as const)('is what somebody with lost rights gets (%s: a record is a %i)', async (rights, status) => {
    flip({ rights })
    expect(await ids(list)).toEqual([])
    expect(await ids(changes())).toEqual([])
    expect((await caller.assignment('GET /api/Assignment/Id/7')).status).toBe(status)
    flip({ rights: 'all' })
    expect(await ids(changes())).toHaveLength(count)
  })
})

describe('another client', () => {
  it('has records of its own under the same sign-in, with ids that nobody else has', async () => {
    const headers = { clientId: otherGuid }
    const reply = await caller.assignment(`GET ${list}`, { headers })
    const theirs = idsOf(reply.json() as Record<string, unknown>[])
    expect(sorted(theirs)).toEqual([61, 62, 63, 64])
    expect((await caller.assignment('GET /api/Assignment/Id/61')).status).toBe(404)
    expect((await caller.assignment('GET /api/Assignment/Id/61', { headers })).status).toBe(200)
    simulator.sourceOf(otherGuid).change('assignment', 61)
    expect(simulator.sourceOf(otherGuid).highestVersion('assignment')).toBeGreaterThan(
      simulator.source.highestVersion('assignment'),
    )
  })
})

describe('an answer that is old', () => {
  it('comes from a cache until its time is over', async () => {
    flip({ cachedForMs: 300 })
    const before = await ids(changes())
    const { id } = simulator.source.insert('assignment')
    expect(await ids(changes())).toEqual(before)
    // Another query is another answer.
    expect(await ids(`${changes()}?Sorts=sysRowVersion`)).toContain(id)
    await expect.poll(() => ids(changes())).toContain(id)
  })

  it('comes from a replica that lags', async () => {
    flip({ replicaLagMs: 400 })
    const version = versionOf(7)
    simulator.source.change('assignment', 7, { AssignmentName: 'new' })
    const { id } = simulator.source.insert('assignment')
    simulator.source.remove('assignment', 9, 'hard')
    expect(await ids(`${changes(version)}?Filters=assignmentId==${id}`)).toEqual([])
    expect((await one(7)).sysRowVersion).toBe(Number(version))
    expect((await caller.assignment('GET /api/Assignment/Id/9')).status).toBe(200)
    await expect.poll(() => ids(changes(version))).toContain(id)
    expect((await one(7)).assignmentName).toBe('new')
    expect((await caller.assignment('GET /api/Assignment/Id/9')).status).toBe(404)
    expect(sorted(await ids(list))).toEqual(sorted([...all.filter((each) => each !== 9), id]))
  })

  it('comes from such a replica for a share of the reads only', async () => {
    flip({ replicaLagMs: 60_000, replicaShare: 0.5 })
    const { id } = simulator.source.insert('assignment')
    const seen = new Set<boolean>()
    for (let read = 0; read < 40; read++) seen.add((await ids(list)).includes(id))
    expect(seen).toEqual(new Set([true, false]))
    flip({ replicaLagMs: null })
    expect(await ids(list)).toContain(id)
  })

  it('comes from a restored backup, with the counter or without it', async () => {
    const backup = simulator.source.takeBackup()
    const [before, highest] = [await one(5), simulator.source.highestVersion('assignment')]
    for (let write = 0; write < 10; write++)
      simulator.source.change('assignment', 5, { AssignmentName: `x${write}` })
    const reached = simulator.source.highestVersion('assignment')
    simulator.source.restoreBackup(backup, { keepsCounter: true })
    expect(await one(5)).toEqual(before)
    expect(simulator.source.change('assignment', 6).version).toBeGreaterThan(reached)
    simulator.source.restoreBackup(backup)
    expect(simulator.source.change('assignment', 6).version).toBeLessThanOrEqual(reached)
    expect(simulator.source.highestVersion('assignment')).toBeGreaterThan(highest)
  })

  it('comes when a write was rolled back: one record falls', async () => {
    const version = versionOf(8)
    simulator.source.change('assignment', 8)
    simulator.source.change('assignment', 8, null, { version })
    expect((await one(8)).sysRowVersion).toBe(Number(version))
  })

  it('comes of some changes by itself, while that is switched on', async () => {
    flip({ fallBacks: 1, lateDelayMs: 200 })
    const [before, version] = [await one(8), versionOf(8)]
    simulator.source.change('assignment', 8, { AssignmentName: 'for a moment' })
    expect((await one(8)).assignmentName).toBe('for a moment')
    await expect.poll(() => versionOf(8)).toBe(version)
    expect(await one(8)).toEqual(before)
  })
})

describe('a page', () => {
  const paged = (page: number, query = 'Sorts=assignmentId') => `${list}?PageSize=10&Page=${page}&${query}`

  it('loses records that rights hide after it was cut, down to an empty one', async () => {
    flip({ hideAfterPaging: 4 })
    expect(await ids(paged(1))).toEqual([1, 2, 3, 5, 6, 7, 9, 10])
    expect(await ids(paged(2))).toHaveLength(7)
    flip({ hideAfterPaging: 1 })
    expect(await ids(paged(2))).toEqual([])
    expect(await one(4)).toMatchObject({ assignmentId: 4 })
  })

  it('is cut before it is sorted', async () => {
    flip({ cutBeforeSort: 20 })
    const shown = await ids(`${changes()}?Sorts=sysRowVersion`)
    expect(sorted(shown)).toEqual(all.slice(0, 20))
    const versions = shown.map((id) => Number(versionOf(id)))
    expect(versions).toEqual(sorted(versions))
    // A filter leaves others to be cut.
    expect(sorted(await ids(`${changes()}?Filters=assignmentId>30`))).toEqual(all.slice(30, 50))
  })

  it('skips by the size that was asked for, though it is capped', async () => {
    flip({ pageCap: 5 })
    expect(await ids(`${list}?PageSize=8&Page=2&Sorts=assignmentId`)).toEqual([9, 10, 11, 12, 13])
    expect(await ids(`${list}?Sorts=assignmentId`)).toHaveLength(count)
  })

  it('orders what a sort leaves open anew for each page, and in the same way when it is asked for again', async () => {
    const pages = (
      await Promise.all([1, 2, 3, 4, 5, 6].map((page) => ids(paged(page, 'Sorts=processed'))))
    ).flat()
    expect(new Set(pages).size).toBeLessThan(count)
    const again = (
      await Promise.all([1, 2, 3, 4, 5, 6].map((page) => ids(paged(page, 'Sorts=processed'))))
    ).flat()
    expect(again).toEqual(pages)
    const whole = (
      await Promise.all([1, 2, 3, 4, 5, 6].map((page) => ids(paged(page, 'Sorts=processed,assignmentId'))))
    ).flat()
    expect(sorted(whole)).toEqual(all)
  })

  it('without a sort comes from the heap: a row that was written is elsewhere', async () => {
    const before = await ids(`${list}?PageSize=10`)
    simulator.source.change('assignment', before[0] ?? 0)
    const after = await ids(`${list}?PageSize=10`)
    expect(after.slice(0, 9)).toEqual(before.slice(1))
    for (const id of all) simulator.source.change('assignment', 1 + ((id * 7) % count))
    const order = await ids(list)
    const versions = order.map((id) => Number(versionOf(id)))
    expect(versions).not.toEqual(sorted(versions))
    expect(sorted(order)).toEqual(all)
  })

  it('is the whole list for a name that nothing is known by, or a 500', async () => {
    expect(await ids(`${list}?PageSize=5&Sorts=nosuch`)).toHaveLength(count)
    expect(await ids(`${list}?PageSize=5&Filters=nosuch==1`)).toHaveLength(count)
    expect(await ids(`${list}?PageSize=5&Filters=assignmentId<=7&Sorts=nosuch`)).toHaveLength(7)
    flip({ unknownNames: 'error' })
    expect((await caller.assignment(`GET ${list}?Sorts=nosuch`)).status).toBe(500)
    flip({ unknownNames: 'ignored' })
    expect(await ids(`${list}?PageSize=5&Sorts=nosuch`)).toHaveLength(5)
  })
})

describe('a list and what changed', () => {
  it('need not show the same records', async () => {
    flip({ changesOmit: 10 })
    expect(sorted(await ids(changes()))).toEqual(all.filter((id) => id % 10 !== 0))
    expect(await ids(list)).toHaveLength(count)
  })

  it('need not show what is marked deleted', async () => {
    simulator.source.remove('assignment', 3, 'soft')
    expect(await ids(list)).toContain(3)
    flip({ hideDeleted: true })
    expect(await ids(list)).not.toContain(3)
    expect(await ids(changes())).not.toContain(3)
    expect((await caller.assignment('GET /api/Assignment/Id/3')).status).toBe(404)
  })

  it('lose a record without a trace when it is deleted for good', async () => {
    flip({ deletes: 'hard' })
    expect((await caller.assignment('DELETE /api/Assignment/Id/3')).status).toBe(204)
    expect(await ids(list)).toHaveLength(count - 1)
    expect((await caller.assignment('GET /api/Assignment/Id/3')).status).toBe(404)
  })
})

describe('a record', () => {
  it('has a field that differs at each read, at the same version', async () => {
    flip({ volatileField: true })
    const [first, second] = [await one(1), await one(1)]
    expect(first.downloadUrl).toMatch(/^https:\/\/files\.example\/.*signature=/)
    expect(second.downloadUrl).not.toBe(first.downloadUrl)
    expect({ ...second, downloadUrl: null }).toEqual({ ...first, downloadUrl: null })
    const inLists = (await caller.list(list))
      .concat(await caller.list(list))
      .map(({ downloadUrl }) => downloadUrl)
    expect(new Set(inLists).size).toBe(2 * count)
    flip({ volatileField: false })
    expect(await one(1)).not.toHaveProperty('downloadUrl')
  })

  it('changes without a new version', async () => {
    flip({ silentChanges: 1 })
    const version = versionOf(2)
    const body = { assignmentId: 2, assignmentName: 'silently' }
    expect((await caller.assignment('PUT /api/Assignment', { body })).status).toBe(204)
    expect(await one(2)).toMatchObject({ assignmentName: 'silently', sysRowVersion: Number(version) })
    flip({ silentChanges: 0 })
    simulator.source.change('assignment', 2, { AssignmentName: 'by hand' }, { keepsVersion: true })
    expect(await one(2)).toMatchObject({ assignmentName: 'by hand', sysRowVersion: Number(version) })
    simulator.source.change('assignment', 2)
    expect(versionOf(2)).toBeGreaterThan(version)
  })

  it('has a twin with the same key, on the same page or on the next', async () => {
    flip({ twins: 10 })
    const records = await caller.list(`${list}?Sorts=assignmentId`)
    expect(records).toHaveLength(count + 6)
    const twins = records.filter(({ assignmentId }) => assignmentId === 10)
    expect(twins).toHaveLength(2)
    expect(twins[0]?.uid).not.toBe(twins[1]?.uid)
    expect(await ids(`${list}?Sorts=assignmentId&PageSize=10&Page=1`)).toContain(10)
    expect(await ids(`${list}?Sorts=assignmentId&PageSize=10&Page=2`)).toContain(10)
    flip({ twins: null })
    const { version } = simulator.source.insertTwin('assignment', 20)
    const both = await caller.list(`${changes()}?Filters=assignmentId==20&Sorts=sysRowVersion`)
    expect(both.map(({ sysRowVersion }) => sysRowVersion)).toEqual([Number(versionOf(20)), Number(version)])
  })

  it.each([
    ['string', (version: bigint) => String(version)],
    ['number', (version: bigint) => Number(version)],
    [
      'base64',
      (version: bigint) => Buffer.from(version.toString(16).padStart(16, '0'), 'hex').toString('base64'),
    ],
  ] as const)('has its version as %s', async (rowVersions, written) => {
    flip({ rowVersions })
    expect((await one(1)).sysRowVersion).toBe(written(versionOf(1)))
    const [first] = await caller.list(`${changes()}?Sorts=-sysRowVersion&PageSize=1`)
    expect(first?.sysRowVersion).toBe(written(simulator.source.highestVersion('assignment')))
  })

  it('has both version fields, and the older one means nothing', async () => {
    const records = await caller.list(list)
    expect(records.filter(({ rowVersion }) => rowVersion !== null).length).toBeLessThan(count / 4)
    expect(await ids(`${list}?Sorts=rowVersion&PageSize=60`)).not.toEqual(
      await ids(`${list}?Sorts=sysRowVersion&PageSize=60`),
    )
    flip({ rowVersionField: 'RowVersion' })
    expect((await one(1)).rowVersion).toBe(Number(versionOf(1)))
    expect(await one(1)).not.toHaveProperty('sysRowVersion')
    expect(await ids(`${list}?Sorts=sysRowVersion&PageSize=5`)).toHaveLength(count)
    expect(await ids(`${list}?Sorts=rowVersion&PageSize=5`)).toHaveLength(5)
  })
})

describe('the service', () => {
  it('switches the extended read off', async () => {
    const path = 'GET /api/Assignment/extended/Id/1'
    expect((await caller.assignment(path)).json()).toMatchObject({ assignment: { assignmentId: 1 } })
    flip({ extendedOff: true })
    expect((await caller.assignment(path)).status).toBe(404)
  })

  it('hands out tokens that end before they say', async () => {
    flip({ tokenLifetimeMs: 50, tokenClockSkewMs: null, tokenShownLifetimeMs: 900_000, tokenCache: 'none' })
    const { subjectId, apiKey } = simulator.credentials
    const response = await fetch(`${simulator.authUrl}/Token/GenerateAccessTokenFromCache`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ clientId: 3, subjectId, apiKey }),
    })
    const { accessToken, expiresIn } = (await response.json()) as { accessToken: string; expiresIn: number }
    expect(expiresIn).toBe(900)
    const headers = { authorization: `Bearer ${accessToken}` }
    const status = async () => (await caller.assignment('GET /api/Assignment/Id/1', { headers })).status
    await expect.poll(status).toBe(401)
  })

  it('takes its time', async () => {
    flip({ latencyMs: 120 })
    const startedAtMs = performance.now()
    await one(1)
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(115)
  })

  it('describes itself as it serves, or not at all', async () => {
    type Described = {
      readonly paths: Record<string, unknown>
      readonly components: {
        readonly schemas: Record<string, { readonly properties: Record<string, unknown> }>
      }
    }
    const described = async () => (await caller.assignment('GET /openapi/v1.json')).json() as Described
    const fieldsOf = ({ components }: Described) =>
      Object.keys(components.schemas.TblAssignment?.properties ?? {})
    expect(fieldsOf(await described())).toEqual(Object.keys(await one(1)))
    flip({ rowVersionField: 'SysRowVersion' })
    expect(fieldsOf(await described())).toEqual(Object.keys(await one(1)))
    expect((await described()).paths).not.toHaveProperty('/api/Customer')
    flip({ moreLists: true })
    expect((await described()).paths).toHaveProperty('/api/Customer')
    flip({ openApiOff: true })
    expect((await caller.assignment('GET /openapi/v1.json')).status).toBe(404)
  })

  it('has lists that the interface does not name', async () => {
    expect((await caller.assignment('GET /api/Customer')).status).toBe(404)
    flip({ moreLists: true })
    const customers = await caller.list('/api/Customer?Sorts=-customerId&PageSize=2')
    expect(customers.map(({ customerId }) => customerId)).toEqual([200, 199])
    const [first] = await caller.list('/api/Employee/neworchanged/0?Sorts=sysRowVersion&PageSize=1')
    expect(await caller.list(`/api/Employee/neworchanged/${first?.sysRowVersion}`)).toHaveLength(39)
  })
})

describe('the control', () => {
  const origin = () => new URL(simulator.assignmentUrl).origin
  const tell = (path: string, body: unknown = {}) =>
    fetch(`${origin()}/simulator${path}`, { method: 'POST', body: JSON.stringify(body) })

  it('flips switches from outside, and shows them', async () => {
    expect((await tell('/behaviour', { lists: 'null', pageCap: 5, volatileField: true })).status).toBe(204)
    expect((await caller.assignment(`GET ${list}`)).text).toBe('null')
    const shown = (await (await fetch(`${origin()}/simulator`)).json()) as { behaviour: Behaviour }
    expect(shown.behaviour).toEqual(simulator.behaviour)
    expect(shown.behaviour.pageCap).toBe(5)
  })

  it('refuses what is no switch, and values that do not fit, and flips none of them', async () => {
    const response = await tell('/behaviour', {
      lists: 'maybe',
      pageCap: -1,
      twins: 3,
      nosuch: 1,
      gzip: 'yes',
    })
    expect(response.status).toBe(400)
    const { errors } = (await response.json()) as { errors: Record<string, string[]> }
    expect(Object.keys(errors).sort()).toEqual(['gzip', 'lists', 'nosuch', 'pageCap'])
    expect(simulator.behaviour.twins).toBeNull()
  })

  it('keeps backups and restores them', async () => {
    expect((await tell('/backups/monday')).status).toBe(204)
    const reached = simulator.source.change('assignment', 1).version
    expect((await tell('/backups/monday/restore?keepCounter=true')).status).toBe(204)
    expect(versionOf(1)).toBeLessThan(reached)
    expect(simulator.source.change('assignment', 1).version).toBe(reached + 1n)
    expect((await tell('/backups/tuesday/restore')).status).toBe(400)
  })
})
