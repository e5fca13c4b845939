// The table of assignments, made anew for each test as if there had been none, whose columns are found in what is written.

import { beforeEach } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import type { Written } from '../../src/sync/ports/store.ts'
import { createTestDatabase } from './database.ts'
import { assignments, begin, done, storeOf } from './runs.ts'

export function createGrowingTable() {
  const database = createTestDatabase()
  let version = 1
  /** Higher than any before it. */
  const nextVersion = () => version++

  beforeEach(async () => {
    await database.pool.query(`
      drop view if exists bi.assignment cascade;
      drop table if exists mirror.assignment cascade;
      delete from tidemark.field where stream = 'assignment';
      delete from tidemark.local_change where stream = 'assignment';
      update tidemark.stream set table_oid = null, state_oid = null where name = 'assignment';
      truncate tidemark.quarantine`)
  })

  return {
    database,
    query: async (sql: string) => (await database.pool.query(sql)).rows,
    nextVersion,
    /** One page in a run of its own; of assignment 1 where the records do not say otherwise. */
    async write(...records: JsonObject[]): Promise<Written> {
      const run = await begin(storeOf(database))
      try {
        return await run.pages.commit(
          assignments(
            ...records.map((record) => ({ AssignmentId: 1, RowVersion: nextVersion(), ...record })),
          ),
          null,
        )
      } finally {
        await run.finish(done)
      }
    },
  }
}
