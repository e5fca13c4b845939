// Runs: who may write, what a run leaves in the ledger, and what the next one finds.

import { beforeEach, describe, expect, it } from 'vitest'
import type { Run } from '../../src/sync/ports/store.ts'
import { never } from '../support/cutting-proxy.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { openProxiedPool } from '../support/proxied-pool.ts'
import { assignments, begin, done, failed, storeOf } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('a run', () => {
  const database = createTestDatabase()

  beforeEach(async () => {
    await database.pool.query(`
      truncate mirror.assignment, tidemark.run, tidemark.lease, tidemark.checkpoint, tidemark.quarantine;
      update tidemark.stream set position = 0, position_reached_at = null, last_success_at = null, read_through_at = null, last_lookback_at = null`)
  })

  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const ledger = () =>
    query(
      'select status, polls, position_from, position_to, inserted, updated, unchanged, error, note from tidemark.run order by id',
    )
  const position = async () =>
    (await query(`select position from tidemark.stream where name = 'assignment'`))[0].position

  it('commits rows and the position they justify together, and keeps the history (P1)', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
    await run.pages.commit(assignments({ AssignmentId: 2, RowVersion: 9 }), 9n)
    await run.finish(done)
    expect(await position()).toBe('9')
    expect(await query('select position, reason from tidemark.checkpoint order by id')).toEqual([
      { position: '5', reason: null },
      { position: '9', reason: null },
    ])
    expect(await ledger()).toMatchObject([
      { status: 'done', position_from: '0', position_to: '9', inserted: '2' },
    ])
  })

  it('never moves the position down (P2)', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 9 }), 9n)
    await run.pages.commit(assignments({ AssignmentId: 2, RowVersion: 5 }), 5n)
    await run.finish(done)
    expect(await position()).toBe('9')
  })

  it('moves the position in the incremental run only (P6)', async () => {
    const run = await begin(storeOf(database), 'assignment', 'reconcile')
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 9 }), 9n)
    await run.finish(done)
    expect(await position()).toBe('0')
  })

  it('keeps a second run of its kind out and says who it is, but not one of another kind', async () => {
    const store = storeOf(database)
    const run = await begin(store)
    expect(await store.openRun('incremental', 'assignment')).toEqual({
      busy: expect.stringContaining(`process ${process.pid}`),
    })
    const lookback = await begin(store, 'assignment', 'lookback')
    await lookback.finish(done)
    await run.finish(done)
    await (await begin(store)).finish(done)
  })

  it('writes nothing more once another run has its lease (P2)', async () => {
    const store = storeOf(database)
    const zombie = await begin(store)
    await zombie.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
    await loseLock()
    const successor = await begin(store)
    await expect(zombie.pages.commit(assignments({ AssignmentId: 2, RowVersion: 7 }), 7n)).rejects.toThrow(
      'lost its turn',
    )
    await expect(zombie.pages.commit(assignments({ AssignmentId: 3, RowVersion: 8 }), 8n)).rejects.toThrow(
      'lost its turn',
    )
    await successor.pages.commit(assignments({ AssignmentId: 4, RowVersion: 6 }), 6n)
    await Promise.all([zombie.finish(failed), successor.finish(done)])
    expect(await query('select assignment_id from mirror.assignment order by 1')).toEqual([
      { assignment_id: '1' },
      { assignment_id: '4' },
    ])
    expect(await position()).toBe('6')
  })

  it('is told as failed by its successor when its program was ended (P8)', async () => {
    const ended = await begin(storeOf(database))
    await loseLock()
    const successor = await begin(storeOf(database))
    await successor.finish(done)
    expect(await ledger()).toMatchObject([
      { status: 'failed', error: 'its program was killed or lost its connection' },
      { status: 'done' },
    ])
    await ended.finish(failed)
  })

  it('ends in the ledger before the next begins, also where several are killed one after the other (P2, P8)', async () => {
    const killed: Awaited<ReturnType<typeof begin>>[] = []
    for (let run = 0; run < 3; run++) {
      killed.push(await begin(storeOf(database)))
      if (run === 0) await killed[0]?.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
      await loseLock()
    }
    await (await begin(storeOf(database))).finish(done)
    expect(
      await query(
        `select one.id, other.id from tidemark.run as one join tidemark.run as other on one.id < other.id and other.started_at < one.finished_at`,
      ),
    ).toEqual([])
    expect(await ledger()).toHaveLength(4)
    await Promise.all(killed.map((run) => run.finish(failed)))
  })

  it('commits no page after one that failed (P6)', async () => {
    await query(`
      create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$;
      create trigger refuse before insert on mirror.assignment for each row when (new.assignment_id = 2) execute function refuse()`)
    const run = await begin(storeOf(database))
    const writes = await Promise.allSettled(
      [1, 2, 3, 4].map((id) =>
        run.pages.commit(assignments({ AssignmentId: id, RowVersion: id }), BigInt(id)),
      ),
    )
    await run.finish(failed)
    await query('drop trigger refuse on mirror.assignment; drop function refuse')
    expect(writes.map((write) => write.status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected'])
    expect(await position()).toBe('1')
    expect(await query('select assignment_id from mirror.assignment')).toEqual([{ assignment_id: '1' }])
  })

  it('that changes nothing shares a line with those before it, and 1,000 of them take less than 1 MB (P10)', async () => {
    const size = async () =>
      Number(
        (
          await query(
            `select sum(pg_total_relation_size(oid)) as size from pg_class where relnamespace = 'tidemark'::regnamespace and relkind = 'r'`,
          )
        )[0].size,
      )
    const store = storeOf(database)
    const before = await size()
    for (let poll = 0; poll < 1_000; poll++) await (await begin(store)).finish(done)
    expect((await size()) - before).toBeLessThan(1_000_000)
    expect(await query('select polls, requests from tidemark.run')).toEqual([
      { polls: 1_000, requests: '1000' },
    ])
  })

  it('that changes nothing takes at most five statements', async () => {
    const { proxy, pool } = await openProxiedPool(database, never)
    const store = storeOf({ pool })
    // What the first ones find out is noted.
    for (let run = 0; run < 2; run++) await (await begin(store)).finish(done)
    const before = proxy.statementCount()
    await (await begin(store)).finish(done)
    expect(proxy.statementCount() - before).toBeLessThanOrEqual(5)
    await pool.end()
    await proxy.close()
  })

  it('begins a line of its own after a run that changed something, failed or said something else', async () => {
    const store = storeOf(database)
    const ends = [done, done, failed, done, { ...done, note: 'held' }, { ...done, note: 'held' }]
    for (const end of ends) await (await begin(store)).finish(end)
    expect(await ledger()).toMatchObject([
      { status: 'done', polls: 2 },
      { status: 'failed', polls: 1 },
      { status: 'done', polls: 1 },
      { note: 'held', polls: 2 },
    ])
  })

  it('that failed over a text that Postgres cannot hold says so all the same', async () => {
    await (await begin(storeOf(database))).finish({ ...failed, error: 'fields seen: a\0b' })
    expect(await ledger()).toMatchObject([{ status: 'failed', error: 'fields seen: a\\0b' }])
  })

  it('tells how fresh its stream is', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
    await run.finish(done)
    const [begun] = await query('select started_at from tidemark.run')
    const [fresh] = await query(`select * from tidemark.freshness where stream = 'assignment'`)
    expect(fresh).toMatchObject({
      read_through_version: '5',
      read_through_time: begun.started_at,
      last_success_at: expect.any(Date),
    })
    await (await begin(storeOf(database))).finish(failed)
    expect(await query(`select * from tidemark.freshness where stream = 'assignment'`)).toEqual([fresh])
  })

  it('of the look-back run tells the next one when the recent past was last read whole', async () => {
    const store = storeOf(database)
    const trail = async (end: typeof done | (Omit<typeof done, 'isComplete'> & { isComplete: false })) => {
      const run = await begin(store, 'assignment', 'lookback')
      await run.finish(end)
      return { known: run.state.lastLookbackAt, begunAt: run.state.startedAt }
    }
    const first = await trail(done)
    const cutShort = await trail({ ...done, isComplete: false })
    const last = await trail(done)
    expect([first.known, cutShort.known, last.known]).toEqual([null, first.begunAt, first.begunAt])
    expect((await trail(done)).known).toEqual(last.begunAt)
  })

  it('goes back to where it began when told, and records why', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
    await run.position.retreat('the order was not what it seemed', run.position.start)
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 3n)
    await run.finish(done)
    expect(await query('select position, reason from tidemark.checkpoint order by id')).toEqual([
      { position: '5', reason: null },
      { position: '0', reason: 'the order was not what it seemed' },
      { position: '3', reason: null },
    ])
    expect(await position()).toBe('3')
  })

  it('leaves what it learnt to the next one', async () => {
    const store = storeOf(database)
    const first = await begin(store)
    const at = new Date('2024-05-01T00:00:00Z')
    await first.findings.learn([{ name: 'sorting', value: 'proven', evidence: 'three looks', testedAt: at }])
    await first.findings.setLookback(1_200_000, 'twice the worst', null)
    await first.findings.recordLateArrivals([{ key: '1', version: 4n, distance: 3n, lateMs: 1_500.4 }])
    await first.finish(done)
    const second = await begin(store)
    const later = new Date('2024-05-02T00:00:00Z')
    await second.findings.learn([{ name: 'sorting', value: 'refused', evidence: 'a 400', testedAt: later }])
    await second.finish(done)
    expect(second.state).toMatchObject({
      lookbackMs: 1_200_000,
      lookbackReason: 'twice the worst',
      beliefs: expect.arrayContaining([
        expect.objectContaining({ name: 'sorting', value: 'proven', evidence: 'three looks', testedAt: at }),
      ]),
    })
    const known = `select value, previous_value, changed_at, first_at from tidemark.belief where name = 'sorting'`
    expect(await query(known)).toEqual([
      { value: 'refused', previous_value: 'proven', changed_at: later, first_at: at },
    ])
    expect(await query('select key, version, distance, late_ms from tidemark.late_arrival')).toEqual([
      { key: '1', version: '4', distance: '3', late_ms: '1500' },
    ])
  })

  it('tells which rows arrived when it was asked to', async () => {
    const run = await begin(storeOf(database), 'assignment', 'lookback')
    await run.pages.commit(
      assignments({ AssignmentId: 1, RowVersion: 5 }, { AssignmentId: 2, RowVersion: 6 }),
      null,
    )
    const { arrivals } = await run.pages.commit(
      assignments(
        { AssignmentId: 1, RowVersion: 5 },
        { AssignmentId: 2, RowVersion: 8 },
        { AssignmentId: 3, RowVersion: 7 },
      ),
      null,
    )
    await run.finish(done)
    expect(arrivals).toMatchObject([
      { key: '2', version: 8n, mirrored: 6n, kind: 'stale', isWritten: true },
      { key: '3', version: 7n, mirrored: null, kind: 'missing', isWritten: true },
    ])
  })

  it('leaves no connection taken, however it ends', async () => {
    const store = storeOf(database)
    const taken = () => database.pool.totalCount - database.pool.idleCount
    const runs: Run[] = [await begin(store), await begin(store, 'assignment', 'lookback')]
    for (const run of runs) await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), null)
    await loseLock()
    for (const run of runs) await run.finish(failed)
    expect(taken()).toBe(0)
  })

  /** As when its program dies or its network breaks: the session that holds the lock ends. */
  async function loseLock(): Promise<void> {
    await query(`select pg_terminate_backend(pid, 5000) from pg_locks
      where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
  }
})
