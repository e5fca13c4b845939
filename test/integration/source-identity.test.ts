// Whose data the mirror holds: settings of another customer, a service that moved, and a client GUID that was renewed.

import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { adoptSource } from '../../src/store/book/sources.ts'
import { serve } from '../../src/worker/serve.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'
import { assignments, begin, failed, storeOf, writeAll } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'
import { runHere } from '../support/verbs.ts'
import { waitedFor } from '../support/waited-for.ts'

const assignment = streamOf('assignment')
const otherGuid = '00000000-0000-4000-8000-000000000000'

describe.skipIf(!hasPostgres)('the rows of one customer', () => {
  const database = createTestDatabase({ forEach: true })
  const rows = async () =>
    (
      await database.pool.query(
        'select assignment_id, row_version, _deleted_at, _synced_at from mirror.assignment order by 1',
      )
    ).rows

  it('are not mixed with those of another, whatever program writes (P5, P7)', async () => {
    await using first = await startSimulator({ assignments: 30, seed: 1 })
    await using second = await startSimulator({
      assignments: 40,
      seed: 2,
      credentials: { clientGuid: otherGuid },
    })
    expect((await runHere(['sync'], environmentFor(first, database))).code).toBe(0)
    const before = await rows()
    const other = environmentFor(second, database)
    for (const words of [['sync'], ['reconcile'], ['verify', '--repair'], ['serve']]) {
      // A worker that ends takes its process with it.
      const run = words[0] === 'serve' ? runTidemark : runHere
      const { code, stderr } = await run(words, { ...other, HTTP_PORT: '0' })
      expect(code, words.join(' ')).toBe(2)
      expect(stderr).toContain(otherGuid)
      expect(stderr).toContain(first.credentials.clientGuid)
      expect(stderr).toContain('tidemark source adopt')
    }
    const adopted = await runHere(['source', 'adopt', '--reason', 'renewed'], other)
    expect(adopted).toMatchObject({ code: 2, stderr: expect.stringContaining('not one source') })
    const probed = await runHere(['probe'], other)
    expect(probed).toMatchObject({ code: 2, stdout: expect.stringContaining('came from') })
    expect(await rows()).toEqual(before)
    const { stdout } = await runHere(['source', '--json'], other)
    expect(JSON.parse(stdout).sources[0]).toMatchObject({
      service: 'assignment',
      account: first.credentials.clientGuid,
    })
  })

  it('are not mixed either where all there is are rows of a list that the settings added, and name no more (P5, P7)', async () => {
    const options = { look: 'recorded', assignments: 30, behaviour: { moreLists: true } } as const
    await using first = await startSimulator({ ...options, seed: 1 })
    await using second = await startSimulator({ ...options, seed: 2, credentials: { clientGuid: otherGuid } })
    const added = { STREAMS: 'client=/api/Customer' }
    expect((await runHere(['sync'], environmentFor(first, database, added))).code).toBe(0)
    const other = environmentFor(second, database, { STREAMS: 'assignment' })
    const { code, stderr } = await runHere(['sync'], other)
    expect(code, stderr).toBe(2)
    expect(stderr).toContain(first.credentials.clientGuid)
  })

  it('go on under a renewed client GUID when a person says so and the records are the same', async () => {
    const options = { assignments: 30, notes: 30, objects: 5, seed: 3 }
    await using before = await startSimulator(options)
    await using after = await startSimulator({ ...options, credentials: { clientGuid: otherGuid } })
    await runHere(['sync'], environmentFor(before, database))
    const renewed = environmentFor(after, database)
    after.source.change('assignment', 3)
    expect(await runHere(['source', 'adopt'], renewed)).toMatchObject({ code: 2 })
    const adopted = await runHere(['source', 'adopt', '--reason', 'the GUID was renewed'], renewed)
    expect(adopted).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('records of assignment are the same'),
    })
    expect((await runHere(['sync'], renewed)).code).toBe(0)
    const { rows: known } = await database.pool.query(
      `select account, reason, adopted_by is not null as by from tidemark.source where service = 'assignment'`,
    )
    expect(known).toEqual([{ account: otherGuid, reason: 'the GUID was renewed', by: true }])
    expect(await runHere(['source', 'adopt', '--reason', 'again'], renewed)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Nothing was changed'),
    })
  })

  it('wait when the service has another address, also that of a proxy on another machine', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const moved = { ASSIGNMENT_BASE_URL: 'https://moved.example/service' }
    {
      await using context = await openTestContext(database, simulator)
      await context.read(streamOf('assignment'), 'incremental', { signal })
    }
    await database.pool.query(`update tidemark.source set base_url = 'https://service.example'`)
    await expect(openTestContext(database, simulator, moved)).rejects.toThrow('https://moved.example/service')
    // A tunnel on this machine may lead anywhere.
    await (await openTestContext(database, simulator))[Symbol.asyncDispose]()
  })

  it('are left alone by a worker that still knows the old source, once somebody said that it is another now', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    await using context = await openTestContext(database, simulator)
    await context.read(streamOf('assignment'), 'incremental', { signal })
    const worker = await serve({
      config: loadConfig(environmentFor(simulator, database, { HTTP_PORT: '0', SCHEDULE_ASSIGNMENT: '1s' })),
      log: quietLog,
    })
    try {
      await worker.live
      await database.pool.query(`update tidemark.source set account = $1`, [otherGuid])
      simulator.source.insert('assignment', {})
      await expect(worker.hopeless).rejects.toThrow(`came from ${simulator.assignmentUrl} (${otherGuid})`)
    } finally {
      await worker.stop()
    }
    await expect(context.read(streamOf('assignment'), 'incremental', { signal })).rejects.toThrow('adopt')
    expect(await rows()).toHaveLength(5)
  })

  it.each(['in progress', 'that was just about to begin'])(
    'are not written by a run %s when somebody said that they are those of another source now (P2, P5)',
    async (which) => {
      const source = {
        ...{ name: '', service: 'assignment', baseUrl: 'http://localhost', account: otherGuid },
      } as const
      const adopt = () =>
        adoptSource(database.pool, { ...source, streams: [assignment] }, { by: 'somebody', reason: 'a test' })
      await writeAll(storeOf(database), 'assignment', assignments({ AssignmentId: 1, RowVersion: 1 }))
      const isOpen = which === 'in progress'
      const run = await begin(storeOf(database, isOpen ? {} : { beforeRun: adopt }))
      try {
        if (isOpen) {
          await run.pages.commit(assignments({ AssignmentId: 2, RowVersion: 2 }), 2n)
          await adopt()
        }
        const before = await rows()
        const next = run.pages.commit(assignments({ AssignmentId: 3, RowVersion: 3 }), 3n)
        await expect(next).rejects.toThrow('lost its turn')
        expect(await rows()).toEqual(before)
      } finally {
        await run.finish(failed)
      }
    },
  )

  it('are not written by a run that begins while somebody is saying so (P2, P5)', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    await using context = await openTestContext(database, simulator)
    await context.read(assignment, 'incremental', { signal })
    const client = await database.pool.connect()
    try {
      await client.query('begin')
      await client.query('update tidemark.source set account = $1', [otherGuid])
      const reading = context.read(assignment, 'incremental', { signal })
      const refused = expect(reading).rejects.toThrow('adopt')
      simulator.source.insert('assignment', {})
      await waitedFor(client)
      await client.query('commit')
      await refused
      expect(await rows()).toHaveLength(5)
    } finally {
      client.release(true)
    }
  })

  describe('when a program with other settings begins before there are any', () => {
    const other = () => startSimulator({ assignments: 5, credentials: { clientGuid: otherGuid } })

    it('are not written by a run of the first one that is still reading (P2, P5)', async () => {
      await using simulator = await startSimulator({ assignments: 5 })
      await using second = await other()
      await using context = await openTestContext(database, simulator)
      const run = await begin(context.store)
      await using later = await openTestContext(database, second)
      try {
        const late = run.pages.commit(assignments({ AssignmentId: 7, RowVersion: 7 }), 7n)
        await expect(late).rejects.toThrow('lost its turn')
      } finally {
        await run.finish(failed)
      }
      // Nor does it take the database back.
      await expect(context.read(assignment, 'incremental', { signal })).rejects.toThrow('came from')
      // The run that was refused gives its lease back a moment later.
      const read = async () => (await later.read(assignment, 'incremental', { signal })).status
      await expect.poll(read).toBe('done')
      expect(await rows()).toHaveLength(5)
    })

    it('stay those of the first one, which is just committing them (P5)', async () => {
      await using simulator = await startSimulator({ assignments: 5 })
      await using second = await other()
      await using context = await openTestContext(database, simulator)
      await (await begin(context.store)).finish(failed)
      const client = await database.pool.connect()
      try {
        await client.query(`
          begin; set local tidemark.writer = 'on';
          insert into mirror.assignment (assignment_id, _hash) values (7, '');
          select from tidemark.lease where stream = 'assignment' for share`)
        const refused = expect(openTestContext(database, second)).rejects.toThrow('came from')
        await waitedFor(client)
        await client.query('commit')
        await refused
      } finally {
        client.release(true)
      }
      expect(await context.read(assignment, 'incremental', { signal })).toMatchObject({ status: 'done' })
    })
  })

  it('may come from any source as long as there are none', async () => {
    await using simulator = await startSimulator({ assignments: 5, credentials: { clientGuid: otherGuid } })
    await (await openTestContext(database, simulator, { CLIENT_GUID: otherGuid.replaceAll('0', '1') }))[
      Symbol.asyncDispose
    ]()
    const adopted = await runHere(
      ['source', 'adopt', '--reason', 'the first one was a mistake'],
      environmentFor(simulator, database),
    )
    expect(adopted).toMatchObject({ code: 0, stderr: expect.not.stringContaining('another database') })
    await using context = await openTestContext(database, simulator)
    expect(await context.read(streamOf('assignment'), 'incremental', { signal })).toMatchObject({
      status: 'done',
    })
    await expect(
      openTestContext(database, simulator, { CLIENT_GUID: otherGuid.replaceAll('0', '1') }),
    ).rejects.toThrow('came from')
  })
})
