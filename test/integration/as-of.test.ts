// The rows as they were at a moment: the same by the functions of this version and of those before it, and found by the index.

import { beforeEach, describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { showHistory } from '../../src/store/schema/history-views.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { inTransaction, withConnection } from '../../src/store/server/session.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

/** As earlier versions made it. */
const formerBody = (table: string, key: string) => `
         select (latest.kept).* from (
           select distinct on (kept."${key}") kept from mirror."${table}" as kept
           where kept._observed_at <= $1 order by kept."${key}", kept._observed_at desc
         ) as latest where (latest.kept)._deleted_at is null
       `
/** As the version before this one made it, for a list. */
const laterBody = (table: string, key: string) => {
  const newest = `
  select * from (
    select distinct on ("${key}") * from mirror."${table}" where _observed_at <= $1 order by "${key}" desc, _observed_at desc
  ) as latest where _deleted_at is null and (select max(place) from known) > 1000
`
  return `
  with recursive known (key, place) as (select "${key}", 1 from mirror."${table}" limit 1)
  select latest.* from mirror."${table}" as latest where false
  union all${newest}`
}
const formerSql = (name: string, table: string, key: string, body = formerBody(table, key)) =>
  `drop function if exists bi."${name}"(timestamptz);
   create function bi."${name}"(timestamptz) returns setof mirror."${table}" language sql stable as $as_of$${body}$as_of$`

const cases = [
  { stream: 'tracker_object', key: 'tracker_object_id', keys: 40 },
  { stream: 'tracker_object', key: 'tracker_object_id', keys: 1_300 },
  { stream: 'assignment', key: 'assignment_id', keys: 900 },
] as const

describe.skipIf(!hasPostgres)('the rows as they were at a moment', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const migrated = () => migrateDatabase({ database, streams, biRole: null, log: quietLog })
  const bodyOf = async (name: string): Promise<string> =>
    (await query('select prosrc from pg_proc where proname = $1', [name]))[0].prosrc

  beforeEach(async () => {
    await using simulator = await startSimulator({ trackers: 3, assignments: 3 })
    await using context = await openTestContext(database, simulator, { HISTORY: 'assignment,tracker_object' })
    for (const stream of ['assignment', 'tracker_object'] as const)
      await context.read(streamOf(stream), 'incremental', { signal })
  })

  /** Many lines of each key on average, some keys with none for months, some lines of deletions, in three months. */
  const fill = async ({ stream, key, keys }: (typeof cases)[number], lines = 10_000 + 5 * keys) => {
    for (const month of ['2024-01', '2024-02', '2024-03'])
      await query(
        `create table tidemark."${stream}_history_${month.replace('-', '_')}" partition of mirror.${stream}_history
         for values from ('${month}-01') to ('${month}-01'::timestamptz + interval '1 month')`,
      )
    await query(
      `insert into mirror.${stream}_history (${key}, _observed_at, _deleted_at)
       select (random() ^ 3 * $1)::int, at, case when random() < 0.1 then at end
       from (select '2024-01-01'::timestamptz + random() * interval '90 days' as at from generate_series(1, $2::int)) as lines`,
      [keys, lines],
    )
    await query(`analyze mirror.${stream}_history`)
    await query(`update tidemark.stream set history_from = '2023-12-01' where name = $1`, [stream])
    await withConnection(database.pool, (client) =>
      inTransaction(client, () => showHistory(client, streamOf(stream), quietLog)),
    )
  }

  it.each(cases)('are those of the former function, with $keys keys of $stream', async (one) => {
    const { stream, key, keys } = one
    await fill(one)
    // A column that somebody added, and one that somebody took away.
    await query(`alter table mirror.${stream}_history add column theirs text, add column gone text;
      alter table mirror.${stream}_history drop column gone`)
    await query(formerSql('former', `${stream}_history`, key))
    const moments = await query(
      `select ('2023-12-25'::timestamptz + random() * interval '110 days')::text as at from generate_series(1, 12)
       union all (select _observed_at::text from mirror.${stream}_history order by random() limit 5)`,
    )
    for (const { at } of moments)
      for (const where of [
        '',
        `where ${key} = ${Math.floor(Math.random() * keys)}`,
        `where ${key} in (1, 2, 3)`,
      ])
        expect(
          await query(
            `with former as (select ${key}, _observed_at from bi.former($1) ${where}), now as (select ${key}, _synced_at from bi.${stream}_at($1) ${where})
             (table former except all table now) union all (table now except all table former)`,
            [at],
          ),
          `${at} ${where}`,
        ).toEqual([])
    expect((await query(`select from bi.${stream}_at('2024-03-20')`)).length).toBeGreaterThan(keys / 2)
  })

  it.each(cases)('are found by the index for one key, with $keys keys of $stream', async (one) => {
    const { stream, key } = one
    await fill(one)
    const plan = (
      await query(
        `explain (analyze, costs off, timing off, summary off) select * from bi.${stream}_at('2024-02-15') where ${key} = 7`,
      )
    )
      .map((line) => line['QUERY PLAN'])
      .join('\n')
    // Neither sorts nor reads whole months.
    expect(plan).not.toMatch(/Seq Scan(?!.*never executed)/)
    expect(plan).not.toMatch(/Rows Removed by Filter: \d{4,}/)
    expect(plan).toMatch(/Index Cond: .*(= '?7|known\.key)/)
  })

  it('are shown by the function of this version after a migration, unless somebody wrote their own', async () => {
    const [assignments, trackers] = [await bodyOf('assignment_at'), await bodyOf('tracker_object_at')]
    await query(formerSql('assignment_at', 'assignment_history', 'assignment_id'))
    const own = `${formerBody('tracker_object_history', 'tracker_object_id')} and true`
    await query(`drop function bi.tracker_object_at(timestamptz);
      create function bi.tracker_object_at(timestamptz) returns setof mirror.tracker_object_history
      language sql stable as $$${own}$$; revoke execute on function bi.assignment_at from public`)
    await migrated()
    expect(await bodyOf('assignment_at')).toBe(assignments)
    expect(await bodyOf('tracker_object_at')).toBe(own)
    const [table, key] = ['tracker_object_history', 'tracker_object_id']
    await query(formerSql('tracker_object_at', table, key, laterBody(table, key)))
    await migrated()
    expect(await bodyOf('tracker_object_at')).toBe(trackers)
    expect(
      await query(
        `select has_function_privilege('public', 'bi.assignment_at(timestamptz)', 'execute') as may`,
      ),
    ).toEqual([{ may: false }])
  })
})
