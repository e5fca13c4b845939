// What an operator says of rows that disappeared from a list too many at once.

import { describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callVerb, runHere } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('blocked deletions', () => {
  const database = createTestDatabase({ forEach: true })
  const deleted = async (stream: string) =>
    (
      await database.pool.query(
        `select count(*)::int as rows from mirror.${stream} where _deleted_at is not null`,
      )
    ).rows[0].rows
  const remove = (simulator: Simulator, stream: 'tracker_object' | 'assignment', ids: readonly number[]) => {
    for (const id of ids) simulator.source.remove(stream, id, 'hard')
  }

  it('are approved by their number, and by no other (P7)', { timeout: 300_000 }, async () => {
    await using simulator = await startSimulator({ trackers: 20 })
    const environment = environmentFor(simulator, database)
    const tidemark = (...words: string[]) => callVerb(words, environment)
    /** As a program of its own. */
    const program = (...words: string[]) => runHere(words, environment)
    await tidemark('sync', 'tracker_object')
    remove(simulator, 'tracker_object', [1, 2, 3, 4, 5, 6, 7, 8])
    await tidemark('sync', 'tracker_object')
    expect((await tidemark('status', 'tracker_object')).stdout).toContain(
      '`tidemark deletions list tracker_object`',
    )
    const shown = await program('deletions')
    expect(shown).toMatchObject({ code: 0, stderr: '' })
    expect(shown.stdout).toMatch(
      /^tracker_object: 8 of 20 rows \(40 %\) are missing from the upstream's list\./,
    )
    expect(shown.stdout).toMatch(/evidence .*list had 12 records, the table has 20 living rows/)
    expect(shown.stdout).toContain('tidemark deletions approve tracker_object --rows 8')
    expect(await program('deletions', 'approve', 'tracker_object')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('then confirm 8.'),
    })
    expect(await program('deletions', 'approve', 'tracker_object', '--rows', '9')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Nothing was marked: 8 deletions .* not 9\./),
    })
    // More are missing by the time of the answer: they were not what was approved.
    remove(simulator, 'tracker_object', [9])
    expect(await tidemark('deletions', 'approve', 'tracker_object', '--rows', '8')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('blocked: 9 rows'),
    })
    expect(await deleted('tracker_object')).toBe(0)
    const approved = await tidemark('deletions', 'approve', 'tracker_object', '--rows', '9', '--json')
    expect(approved).toMatchObject({ code: 0 })
    expect(JSON.parse(approved.stdout)).toMatchObject({ stream: 'tracker_object', complete: true })
    expect(await deleted('tracker_object')).toBe(9)
    expect(await tidemark('deletions')).toMatchObject({ code: 0, stdout: 'No deletions are blocked.\n' })
    // Others vanish. What a person approved is not brought back with them.
    remove(simulator, 'tracker_object', [10, 11, 12])
    await tidemark('sync', 'tracker_object')
    const { stdout: rejected } = await tidemark('deletions', 'reject', 'tracker_object', '--restore')
    expect(rejected).toContain('(3 of 11 rows (27.3 %))')
    expect(await deleted('tracker_object')).toBe(9)
  })

  it('promise looks by key only where a reconcile makes them', async () => {
    await using simulator = await startSimulator()
    const environment = environmentFor(simulator, database)
    const listed = async (stream: string) => {
      await database.pool.query(
        `insert into tidemark.stream (name, blocked_deletions) values ($1, '{"missing": 5, "living": 20, "seen": 15}')
         on conflict (name) do update set blocked_deletions = excluded.blocked_deletions`,
        [stream],
      )
      return (await callVerb(['deletions', 'list', stream], environment)).stdout
    }
    expect(await listed('assignment')).toContain('a reconcile does it')
    const told = await listed('webhook_subscription')
    expect(told).toContain('5 of 20 rows')
    expect(told).not.toContain('a reconcile does it')
  })

  it.each(['assignment', 'tracker_object'] as const)(
    'of %s are rejected until a list lacks other rows (P7)',
    { timeout: 300_000 },
    async (stream) => {
      await using simulator = await startSimulator({ trackers: 20, assignments: 20 })
      const environment = environmentFor(simulator, database)
      const tidemark = (...words: string[]) => callVerb(words, environment)
      const blocked = async () =>
        JSON.parse((await tidemark('deletions', 'list', stream, '--json')).stdout).blocked
      const read = () => (stream === 'assignment' ? tidemark('reconcile', stream) : tidemark('sync', stream))
      await tidemark('sync', stream)
      remove(simulator, stream, [1, 2, 3, 4, 5])
      await read()
      if (stream === 'assignment') {
        const { stdout: told } = await tidemark('deletions', 'list', stream)
        expect(told).toMatch(/5 of 5 looked up by key are gone \(asked on \d{4}-[-\d]+T[:.\d]+Z\)\n/)
        expect(told).toContain('some of them: 1, 2, 3, 4, 5\n')
        expect(told).toMatch(/missing by (year|month|day) of \w+: \d{4}[-\d]* \d of \d+/)
        expect(told).toContain('no run before has found that a row of it had vanished')
      }
      const [before] = await blocked()
      expect(before).toMatchObject({ stream, missing: 5, rejected: null })
      const { stdout, code } = await tidemark('deletions', 'reject', stream, '--reason', 'a lost right')
      expect(stdout).toMatch(/: the rows stay \(5 of 20 rows \(25 %\)\), and its deletions are frozen/)
      expect(code).toBe(0)
      const problems = async () =>
        JSON.parse((await runHere(['status', stream, '--json'], environment)).stdout).streams[0].problems
      const frozen = [
        {
          kind: 'deletions_frozen',
          what: expect.stringMatching(
            /^Deletions of \w+ are frozen since .+, by .+@.+: “a lost right”\. 5 rows that the list lacks stay\. /,
          ),
        },
      ]
      expect(await problems()).toMatchObject(frozen)
      const checked = await tidemark('status', stream, '--check')
      expect(checked).toMatchObject({ code: 1, stdout: expect.stringContaining('deletions frozen') })
      expect(checked.stdout).not.toContain('up to date')
      // Another record is new, but the same rows are missing.
      simulator.source.insert(stream)
      await read()
      await read()
      expect(await blocked()).toMatchObject([
        {
          since: before.since,
          missing: 5,
          rejected: { by: expect.stringContaining('@'), reason: 'a lost right' },
        },
      ])
      expect(await problems()).toMatchObject(frozen)
      expect(await tidemark('deletions', 'undo', stream)).toMatchObject({
        ...{ code: 0, stdout: expect.stringContaining('its deletions are frozen no more') },
      })
      expect((await runHere(['deletions', 'undo', stream], environment)).code).toBe(2)
      expect(await blocked()).toMatchObject([{ missing: 5, rejected: null }])
      const wanted = `select from tidemark.stream where reconcile_wanted_at > last_success_at`
      expect((await database.pool.query(wanted)).rowCount).toBe(1)
      await read()
      expect(await problems()).toMatchObject([{ kind: 'deletions_blocked' }])
      await tidemark('deletions', 'reject', stream)
      remove(simulator, stream, [6])
      await read()
      expect(await blocked()).toMatchObject([{ missing: 6, rejected: null }])
      expect(await problems()).toMatchObject([{ kind: 'deletions_blocked' }])
      expect(await deleted(stream)).toBe(0)
    },
  )

  it('are rejected together with those that were marked before, of the same wave (P7)', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const environment = environmentFor(simulator, database, { HISTORY: 'assignment' })
    const tidemark = (...words: string[]) => callVerb(words, environment)
    const query = async (sql: string) => (await database.pool.query(sql)).rows
    await tidemark('sync', 'assignment')
    remove(simulator, 'assignment', [1, 2])
    await tidemark('reconcile', 'assignment')
    expect(await deleted('assignment')).toBe(2)
    remove(simulator, 'assignment', [3, 4, 5])
    await tidemark('reconcile', 'assignment')
    const { stdout: named } = await tidemark('deletions', 'reject', 'assignment')
    expect(named.replaceAll(/\s+/g, ' ')).toMatch(
      /\(3 of 18 rows \(16\.7 %\)\).* 2 other rows were found gone and marked deleted within the last day, and stay so: `tidemark deletions reject assignment --restore`/,
    )
    // A day later the rows would be few enough to be marked without asking, but somebody keeps them.
    await database.pool.query(`update tidemark.run set started_at = started_at - interval '2 days'`)
    await tidemark('reconcile', 'assignment')
    expect(await deleted('assignment')).toBe(2)
    const { stdout, code } = await tidemark('deletions', 'reject', 'assignment', '--restore')
    expect(code).toBe(0)
    expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(/\(5 of 20 rows \(25 %\)\).* 2 other rows .* live again/)
    const standing = async () => ({
      deleted: await deleted('assignment'),
      shown: await query('select count(*)::int from bi.assignment'),
      lines: await query(
        `select assignment_id::int as id, (array_agg(_deleted_at is null order by _observed_at))[2:] as lives
         from mirror.assignment_history where assignment_id <= 2 group by 1 order by 1`,
      ),
      suspects: await query('select from tidemark.suspect where evidence is not null'),
      damage: await query('select from tidemark.local_change'),
      known: await query(`select deletions_known_at as at from tidemark.stream where name = 'assignment'`),
    })
    const restored = {
      ...{ deleted: 0, shown: [{ count: 20 }], suspects: [], damage: [], known: [{ at: null }] },
      lines: [1, 2].map((id) => ({ id, lives: [false, true] })),
    }
    expect(await standing()).toEqual(restored)
    // The list lacks all five now, and nobody is asked again.
    await tidemark('reconcile', 'assignment')
    expect(await standing()).toEqual(restored)
    expect(JSON.parse((await tidemark('deletions', '--json')).stdout).blocked).toMatchObject([
      { missing: 5, living: 20, rejected: { reason: null } },
    ])
    expect((await tidemark('status', '--check')).code).toBe(1)
  })
})
