// Related records between the stand-in and a real mirror: what is read when, and that the children equal the source's.

import type { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { mildMix } from '../../src/simulator/faults.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { readRelatedProgress } from '../../src/store/book/related.ts'
import { readOverview } from '../../src/store/book/streams.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { seededRandom } from '../support/random.ts'
import { childDifferences } from '../support/related-children.ts'
import { openCaller } from '../support/simulator-caller.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
async function progress(pool: Pool) {
  const [overview] = await readOverview(pool, ['assignment'])
  return overview?.related
}
const extendedReads = (simulator: Simulator) =>
  simulator.requests.entries.filter(({ path }) => path.includes('/extended/')).length
const head = (context: SyncContext) => context.read(assignment, 'incremental', { signal })
const related = (context: SyncContext) => context.readRelated({ signal })

describe.skipIf(!hasPostgres)('related records', () => {
  describe('of assignments that change often', () => {
    const database = createTestDatabase()
    it('are read once for each assignment that changed, however often it did', async () => {
      await using simulator = await startSimulator({ assignments: 30 })
      simulator.requests.start()
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await head(context)
      expect(await related(context)).toMatchObject({ status: 'done', isComplete: true })
      expect(extendedReads(simulator)).toBe(30)
      expect(await childDifferences(database.pool, simulator)).toEqual([])
      const before = extendedReads(simulator)
      expect(await context.isRelatedDue()).toBe(false)
      await head(context)
      expect(await context.isRelatedDue()).toBe(false)
      await related(context)
      expect(await progress(database.pool)).toEqual({ read: 30, waiting: 0, setAside: 0, quarantined: 0 })
      for (let change = 0; change < 10; change++) simulator.source.change('assignment', 7)
      await head(context)
      expect(await context.isRelatedDue()).toBe(true)
      expect(await progress(database.pool)).toEqual({ read: 29, waiting: 1, setAside: 0, quarantined: 0 })
      // Of a large table only what changed lately is looked up.
      await database.pool.query('analyze mirror.assignment, tidemark.related_fetch')
      expect(await readRelatedProgress(database.pool, 'assignment', 20)).toEqual({
        read: 29,
        waiting: 1,
        setAside: 0,
        quarantined: 0,
      })
      expect((await related(context)).tally.requests).toBe(1)
      await related(context)
      expect(extendedReads(simulator)).toBe(before + 1)
      expect(await readRelatedProgress(database.pool, 'assignment', 20)).toMatchObject({
        read: 30,
        waiting: 0,
      })
      // P15: pages go on until the next run makes it again.
      await database.pool.query('drop table mirror.assignment cascade')
      expect(await readRelatedProgress(database.pool)).toBeNull()
    })
  })

  describe('of assignments that change', () => {
    const database = createTestDatabase()
    let simulator: Simulator
    beforeAll(async () => {
      simulator = await startSimulator({ assignments: 30 })
    })
    afterAll(() => simulator.close())

    it('know their assignment, and BI finds who takes part in which', async () => {
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await (await openCaller(simulator)).assignment('PUT /api/Assignment/5/participant/add/9')
      simulator.source.change('assignment', 5)
      await head(context)
      await related(context)
      const { rows } = await database.pool.query(
        'select employee_id::int as id from bi.assignment_employee where assignment_id = 5 order by 1',
      )
      expect(rows.map(({ id }) => id)).toContain(9)
      const orphans = await database.pool.query(
        `select from mirror.attachment where assignment_id is null or assignment_id <> owner_id`,
      )
      expect(orphans.rowCount).toBe(0)
      const types = await database.pool.query(
        `select column_name, data_type from information_schema.columns where table_schema = 'mirror'
         and table_name = 'attachment' and column_name in ('file_size', 'uid', 'reg_time', 'file_name', 'file_data') order by 1`,
      )
      expect(types.rows.map((row) => Object.values(row))).toEqual([
        ['file_name', 'text'],
        ['file_size', 'bigint'],
        ['reg_time', 'timestamp with time zone'],
        ['uid', 'uuid'],
      ])
    })

    it('are marked deleted once two answers in a row lack them, and come back (P7)', async () => {
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      const product = simulator.source.insert('assignment_product', { AssignmentId: 3 })
      const changed = async () => {
        simulator.source.change('assignment', 3)
        await head(context)
        return await related(context)
      }
      await changed()
      const state = async () =>
        (
          await database.pool.query(
            'select _deleted_reason as reason from mirror.assignment_product where assignment_product_id = $1',
            [product.id],
          )
        ).rows[0]?.reason
      expect(await state()).toBe(null)
      simulator.source.remove('assignment_product', product.id, 'hard')
      expect((await changed()).tally.requests).toBe(2)
      expect(await state()).toBe('absent')
      simulator.source.insert('assignment_product', { AssignmentId: 3 }, { id: product.id })
      await changed()
      expect(await state()).toBe(null)
    })

    it('go with an assignment that was deleted', async () => {
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      const living = async () =>
        (await database.pool.query('select from bi.attachment where assignment_id = 4')).rowCount
      const { id } = simulator.source.insert('attachment', { OwnerId: 4 })
      simulator.source.change('assignment', 4)
      await head(context)
      await related(context)
      expect(await living()).toBeGreaterThan(0)
      await database.pool.query(
        `update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent' where assignment_id = 4`,
      )
      await related(context)
      expect(await living()).toBe(0)
      simulator.source.remove('attachment', id, 'hard')
    })

    it('go with it also while their group is switched off (P7)', async () => {
      const living = async () =>
        (await database.pool.query('select from bi.attachment where assignment_id = 5')).rowCount
      {
        await using all = await openTestContext(database, simulator, { RELATED: 'true' })
        simulator.source.insert('attachment', { OwnerId: 5 })
        simulator.source.change('assignment', 5)
        await head(all)
        await related(all)
        expect(await living()).toBeGreaterThan(0)
      }
      await using fewer = await openTestContext(database, simulator, { RELATED: 'customer' })
      await database.pool.query(
        `update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent' where assignment_id = 5`,
      )
      await related(fewer)
      expect(await living()).toBe(0)
      simulator.source.remove('assignment', 5, 'hard')
    })

    it('that another assignment shares by now stay, while their group is switched off (P7)', async () => {
      const customerOf = async (id: number) =>
        (await database.pool.query('select customer_id from bi.assignment where assignment_id = $1', [id]))
          .rows[0].customer_id
      {
        await using all = await openTestContext(database, simulator, { RELATED: 'true' })
        const { id } = simulator.source.insert('customer', {})
        simulator.source.change('assignment', 6, { CustomerId: id })
        await head(all)
        await related(all)
      }
      const shared = await customerOf(6)
      await using fewer = await openTestContext(database, simulator, { RELATED: 'attachment' })
      simulator.source.change('assignment', 7, { CustomerId: Number(shared) })
      await head(fewer)
      await related(fewer)
      await database.pool.query(
        `update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent' where assignment_id = 6`,
      )
      await related(fewer)
      const { rowCount } = await database.pool.query('select from bi.customer where customer_id = $1', [
        shared,
      ])
      expect(rowCount).toBe(1)
      simulator.source.remove('assignment', 6, 'hard')
    })

    it('are read again when they are older than RELATED_REFRESH', async () => {
      await using context = await openTestContext(database, simulator, {
        RELATED: 'true',
        RELATED_REFRESH: '1h',
      })
      await head(context)
      await related(context)
      await database.pool.query(
        `update tidemark.related_fetch set fetched_at = now() - interval '2 hours' where assignment_id in (8, 9)`,
      )
      expect(await context.isRelatedDue()).toBe(true)
      expect((await related(context)).tally.requests).toBe(2)
      expect(await context.isRelatedDue()).toBe(false)
    })
  })

  describe('with the bytes of files', () => {
    const database = createTestDatabase()
    it('keep those in a table of their own, and read again what was read without them', async () => {
      await using simulator = await startSimulator({ assignments: 20 })
      const files = async (variables: Record<string, string>) => {
        await using context = await openTestContext(database, simulator, variables)
        await head(context)
        return (await related(context)).tally.requests
      }
      expect(await files({ RELATED: 'attachment' })).toBe(20)
      expect(await files({ RELATED: 'attachment' })).toBe(0)
      expect(await files({ RELATED: 'attachment', ATTACHMENT_DATA: 'true' })).toBe(20)
      const { rows } = await database.pool.query(
        `select convert_from(decode(file_data, 'base64'), 'UTF8') as text
         from bi.attachment join bi.attachment_data using (attachment_id, assignment_id)`,
      )
      expect(rows.length).toBeGreaterThan(0)
      for (const { text } of rows) expect(text).toMatch(/^picture number \d+$/)
    })
  })

  describe('with the bytes of a file that goes and comes back', () => {
    const database = createTestDatabase()
    it('show no bytes of a file that the source marks as deleted, until it is back', async () => {
      await using simulator = await startSimulator({ assignments: 20 })
      await using context = await openTestContext(database, simulator, {
        RELATED: 'attachment',
        ATTACHMENT_DATA: 'true',
      })
      const file = simulator.source.insert('attachment', { OwnerId: 4, FileData: 'QUJD' }).id
      const shown = async () => {
        await head(context)
        await related(context)
        const { rows } = await database.pool.query(
          `select (select count(*)::int from bi.attachment where attachment_id = $1) as files,
             (select count(*)::int from bi.attachment_data where attachment_id = $1) as bytes`,
          [file],
        )
        return rows[0]
      }
      const mark = (SysDeleted: boolean) => {
        simulator.source.change('attachment', file, { SysDeleted })
        for (const id of simulator.source.ids('assignment')) simulator.source.change('assignment', id)
      }
      expect(await shown()).toEqual({ files: 1, bytes: 1 })
      mark(true)
      expect(await shown()).toEqual({ files: 0, bytes: 0 })
      mark(false)
      expect(await shown()).toEqual({ files: 1, bytes: 1 })
    })
  })

  describe('that cannot be read', () => {
    const database = createTestDatabase()
    it('are set aside without stopping the others, and tried again later', async () => {
      await using simulator = await startSimulator({ assignments: 20 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await head(context)
      simulator.faults.add({ kind: 400, while: ({ path }) => path.endsWith('/extended/Id/6') })
      expect(await related(context)).toMatchObject({
        status: 'done',
        note: '1 assignment could not be read and will be tried again later',
      })
      expect((await related(context)).tally.requests).toBe(0)
      expect(await progress(database.pool)).toEqual({ read: 19, waiting: 1, setAside: 1, quarantined: 0 })
      await database.pool.query('analyze mirror.assignment, tidemark.related_fetch')
      expect(await readRelatedProgress(database.pool, 'assignment', 0)).toMatchObject({
        waiting: 1,
        setAside: 1,
      })
      simulator.faults.clear()
      await database.pool.query(
        'update tidemark.related_fetch set retry_at = now() where retry_at is not null',
      )
      expect((await related(context)).tally.requests).toBe(1)
      expect(await childDifferences(database.pool, simulator)).toEqual([])
    })

    it('end the run with a reason when there is no end to them', async () => {
      await using simulator = await startSimulator({ assignments: 20 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      simulator.source.bulkUpdate('assignment')
      await head(context)
      simulator.faults.add({ kind: 404, path: 'extended' })
      expect((await related(context)).error?.message).toContain('extended reads are switched off')
    })
  })

  describe('under churn with faults', () => {
    const database = createTestDatabase()
    it('equal the source once it is quiet (P8)', { timeout: 180_000 }, async () => {
      await using simulator = await startSimulator({ assignments: 150, faults: mildMix })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      const random = seededRandom(8)
      const made: number[] = []
      const stopChanging = simulator.onRequest(() => {
        const id = 1 + random.integer(150)
        made.push(simulator.source.insert('assignment_product', { AssignmentId: id }).id)
        const gone = made[random.integer(made.length)]
        if (
          gone !== undefined &&
          random.integer(2) === 0 &&
          simulator.source.record('assignment_product', gone)
        ) {
          const parent = Number(simulator.source.record('assignment_product', gone)?.AssignmentId)
          simulator.source.remove('assignment_product', gone, 'hard')
          simulator.source.change('assignment', parent)
        }
        simulator.source.change('assignment', id)
      })
      for (let round = 0; round < 6; round++) {
        await head(context)
        await related(context)
      }
      expect(simulator.faults.struck).toBeGreaterThan(0)
      stopChanging()
      simulator.faults.clear()
      await database.pool.query(
        'update tidemark.related_fetch set retry_at = now() where retry_at is not null',
      )
      await head(context)
      await context.read(assignment, 'lookback', { signal })
      expect(await related(context)).toMatchObject({ status: 'done', isComplete: true })
      expect(await childDifferences(database.pool, simulator)).toEqual([])
    })
  })
})
