// What an operator says about a list that shrank too much to be believed.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'

describe.skipIf(!hasPostgres)('a list that lost more than a fifth', () => {
  const database = createTestDatabase()
  it('is blocked until it is approved, and believed then (P7)', async () => {
    await using simulator = await startSimulator({ trackers: 20 })
    const environment = environmentFor(simulator, database)
    const tidemark = (...words: string[]) => runTidemark(words, environment)
    const deleted = async () =>
      (
        await database.pool.query(
          'select count(*)::int as rows from mirror.tracker_object where _deleted_at is not null',
        )
      ).rows[0].rows
    await tidemark('sync', 'tracker_object')
    for (let id = 1; id <= 8; id++) simulator.source.remove('tracker_object', id, 'hard')
    await tidemark('sync', 'tracker_object')
    expect((await tidemark('status', 'tracker_object')).stdout).toMatch(
      /8 of \d+ rows of tracker_object disappeared .*`tidemark deletions list tracker_object`/,
    )
    expect(await deleted()).toBe(0)
    const approved = await tidemark('reconcile', '--release', 'tracker_object')
    expect(approved).toMatchObject({ code: 0 })
    expect(await deleted()).toBe(8)
    expect((await tidemark('status', 'tracker_object')).stdout).not.toContain('blocked')
  })
})
