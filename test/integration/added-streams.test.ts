// Lists of the upstream that no code knows: mirrored by a line of the settings, as what they are found to be.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { api } from '../../src/cli/api.ts'
import { contract } from '../../src/cli/contract.ts'
import { probe } from '../../src/cli/probe.ts'
import { sync } from '../../src/cli/sync.ts'
import { scheduleOf } from '../../src/config/dynamic-settings.ts'
import { loadConfig } from '../../src/config/load.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callCommand } from '../support/verbs.ts'

const settings = { STREAMS: 'assignment,client=/api/Customer,hook=/api/Webhooks' }

describe.skipIf(!hasPostgres)('a list that the settings add', () => {
  const database = createTestDatabase({ forEach: true })
  let simulator: Simulator
  beforeAll(async () => {
    simulator = await startSimulator({ look: 'recorded', assignments: 60, behaviour: { moreLists: true } })
  })
  afterAll(() => simulator.close())

  const rowsOf = async (sql: string) => (await database.pool.query(sql)).rows

  it('becomes a changes stream where it has a twin that shows what changed, and a list stream otherwise', async () => {
    await using context = await openTestContext(database, simulator, settings)
    const [, client, hook] = context.streams
    expect([client?.name, client?.kind, hook?.name, hook?.kind]).toEqual([
      'client',
      'changes',
      'hook',
      'list',
    ])
    if (!client || !hook) throw new Error('no streams')
    expect([client.keyFields, hook.keyFields]).toEqual([['customerId'], ['webhookDefinitionId']])
    for (const stream of [client, hook]) {
      const outcome = await context.read(stream, 'incremental', { signal: neverAborted })
      expect(outcome).toMatchObject({ status: 'done', tally: { quarantined: 0, rescued: 0 } })
      expect(outcome.tally.inserted).toBeGreaterThan(0)
    }
    const [{ count, position }] = await rowsOf(
      "select (select count(*)::int from bi.client) as count, position::text from tidemark.stream where name = 'client'",
    )
    expect(count).toBe(simulator.source.count('customer'))
    expect(BigInt(position)).toBeGreaterThan(0n)
    const again = await context.read(client, 'incremental', { signal: neverAborted })
    expect(again).toMatchObject({ status: 'done', tally: { inserted: 0, updated: 0, requests: 1 } })
  })

  it('says that STREAMS names it, where the upstream has no such list', async () => {
    const environment = environmentFor(simulator, database, { STREAMS: 'foo=/api/Nope' })
    const { code, stdout } = await callCommand(sync, [], environment)
    expect(code).toBe(3)
    expect(stdout).toContain(
      'api/Nope: status 404: the upstream has no such list, or does not show it to this user. STREAMS names it (foo=/api/Nope): correct its path there, or take it out. `tidemark contract streams` shows the lists that the upstream describes.',
    )
    const probed = await callCommand(probe, [], environment)
    expect(probed.code).toBe(3)
    expect(probed.stdout).toContain('STREAMS names it (foo=/api/Nope)')
  })

  it('loses its rows by a look through the list, where no record can be asked for by its id', async () => {
    await using context = await openTestContext(database, simulator, settings)
    const client = context.streams.find(({ name }) => name === 'client')
    if (client?.kind !== 'changes') throw new Error('no changes stream')
    await context.read(client, 'incremental', { signal: neverAborted })
    const [gone = 0] = simulator.source.ids('customer')
    simulator.source.remove('customer', gone, 'hard')
    const reconciled = await reconcileStream({
      ...context.contextOf(client),
      signal: neverAborted,
      approved: 0,
    })
    expect(reconciled).toMatchObject({ status: 'done', findings: { missing: 1, marked: 1, unclear: 0 } })
    expect(
      await rowsOf('select customer_id::int as id from mirror.client where _deleted_at is not null'),
    ).toEqual([{ id: gone }])
    // A list that shows nothing whatever is asked, or heeds no filter, proves nothing.
    const { lookup } = context.sourceOf(client)
    simulator.behaviour.rights = 'no-lists'
    expect(await lookup?.('999999', neverAborted)).toBe('unclear')
    simulator.behaviour.rights = 'all'
    simulator.behaviour.filters = 'ignored'
    expect(await lookup?.('999999', neverAborted)).toBe('unclear')
    simulator.behaviour.filters = 'honoured'
    expect(await lookup?.('999999', neverAborted)).toBe('gone')
  })

  it('stays what it was found to be, also for programs that ask nobody', async () => {
    {
      await using _first = await openTestContext(database, simulator, settings)
    }
    await using context = await openTestContext(database, simulator, settings)
    expect(context.streams.map(({ kind }) => kind)).toEqual(['changes', 'changes', 'list'])
    const config = loadConfig(environmentFor(simulator, database, settings))
    expect(context.streams.slice(1).map((stream) => scheduleOf(config.dynamic.now(), stream))).toEqual([
      { everyMs: 30_000 },
      { everyMs: 3_600_000 },
    ])
  })

  it('is refused under the name of another one, whose rows its table has', async () => {
    {
      await using _first = await openTestContext(database, simulator, settings)
    }
    const moved = { STREAMS: 'assignment,client=/api/Webhooks' }
    await expect(openTestContext(database, simulator, moved)).rejects.toThrow(
      'mirror.client holds the rows of /api/Customer, and client=/api/Webhooks would add those of another list. Choose another name for /api/Webhooks.',
    )
  })

  it('is refused another key than the number by which its changes are read', async () => {
    {
      await using _first = await openTestContext(database, simulator, settings)
    }
    const openWith = async (KEY_CLIENT: string) => {
      await using context = await openTestContext(database, simulator, { ...settings, KEY_CLIENT })
      return context.streams.map(({ name }) => name)
    }
    await expect(openWith('CustomerName')).rejects.toThrow(
      'KEY_CLIENT is CustomerName, and mirror.client goes by customerId since it was first read. Remove the setting, or give the list another name in STREAMS.',
    )
    expect(await openWith('customerid')).toContain('client')
  })

  it('that an older program found is known by its path from then on', async () => {
    {
      await using _first = await openTestContext(database, simulator, settings)
    }
    await database.pool.query("update tidemark.stream set found_out = found_out - 'path'")
    await using _context = await openTestContext(database, simulator, settings)
    expect(
      await rowsOf("select found_out->>'path' as path from tidemark.stream where name = 'client'"),
    ).toEqual([{ path: '/api/Customer' }])
  })

  it('has its columns and comments from what the upstream says about itself', async () => {
    await using _context = await openTestContext(database, simulator, { ...settings, CONTRACT: '' })
    const [{ words }] = await rowsOf(
      "select col_description('bi.client'::regclass, attnum) as words from pg_attribute where attrelid = 'bi.client'::regclass and attname = 'credit_limit'",
    )
    expect(words).toBe('field creditLimit: Credit limit.')
  })

  it('is offered by what the upstream says about itself, with the line that mirrors it and a guess of its size', async () => {
    await using _context = await openTestContext(database, simulator, { ...settings, CONTRACT: '' })
    const described = { STREAMS: 'assignment,client=/api/Customer', CONTRACT: '' }
    const environment = environmentFor(simulator, database, described)
    const { stdout } = await callCommand(contract, ['streams', '--json'], environment)
    const { lists }: { lists: { path: string }[] } = JSON.parse(stdout)
    const customers = simulator.source.count('customer')
    expect(lists.find(({ path }) => path === '/api/Customer')).toMatchObject({
      stream: 'client',
      hasChanges: true,
    })
    expect(lists.find(({ path }) => path === '/api/Employee')).toMatchObject({
      ...{ stream: null, setting: 'employee=/api/Employee', type: 'TblEmployee', hasChanges: true },
    })
    const { records } = lists.find(({ path }) => path === '/api/Customer') as unknown as {
      records: { from: number; below: number }
    }
    expect(records.from).toBeLessThanOrEqual(customers)
    expect(records.below).toBeGreaterThan(customers)
    expect(lists.map(({ path }) => path)).toContain('/api/AssignmentObject')
    // What the upstream describes can be called as well, and what is sent is checked against it.
    const called = await callCommand(api, ['GET', '/api/customer?Page=1&PageSize=2'], environment)
    expect(JSON.parse(called.stdout)).toHaveLength(2)
    const file = join(inject('scratch'), 'assignment-body.json')
    await writeFile(file, '{"assignmentId":1,"price":"much"}')
    const written = simulator.source.versionOf('assignment', 1)
    await expect(callCommand(api, ['PUT', '/api/Assignment', '--body', file], environment)).rejects.toThrow(
      /price must be a number/,
    )
    expect(simulator.source.versionOf('assignment', 1)).toBe(written)
  })

  it('that is not there keeps no other stream from being read', async () => {
    await using context = await openTestContext(database, simulator, {
      STREAMS: 'assignment,depot=/api/Depot',
    })
    const [assignment, depot] = context.streams
    if (!assignment || !depot) throw new Error('no streams')
    expect(await context.read(assignment, 'incremental', { signal: neverAborted })).toMatchObject({
      status: 'done',
    })
    expect(await context.read(depot, 'incremental', { signal: neverAborted })).toMatchObject({
      status: 'failed',
    })
  })

  it.each([
    ['assignment=/api/Customer', '"assignment=/api/Customer" is none of them'],
    ['all,client=api/Customer', '"client=api/Customer" is none of them'],
    ['client=/api/A,client=/api/B', 'client is named twice'],
    ['Client=/api/Customer', '"Client=/api/Customer" is none of them'],
    [',', 'without any, leave it out'],
  ])('is refused when it is written wrongly: %s', (value, words) => {
    expect(() => loadConfig(environmentFor(simulator, database, { STREAMS: value }))).toThrow(words)
  })

  it('cannot have the name of related records that are copied', () => {
    const environment = environmentFor(simulator, null, {
      STREAMS: 'all,customer=/api/Customer',
      RELATED: 'true',
    })
    expect(() => loadConfig(environment)).toThrow('STREAMS adds customer')
  })
})
