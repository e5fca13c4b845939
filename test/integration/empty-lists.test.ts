// What a list says in which nothing stands, because it was narrowed to a stream, an entry or a time: nothing of all the others (P18).

import { beforeAll, describe, expect, it } from 'vitest'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { callVerb } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('P18: an empty list in the terminal', () => {
  const database = createTestDatabase()
  const said = async (...words: string[]) => {
    const { code, stdout } = await callVerb(words, { DATABASE_URL: database.url })
    expect({ words, code }).toEqual({ words, code: 0 })
    return stdout.trim()
  }
  beforeAll(async () => {
    await database.pool.query(
      `insert into tidemark.quarantine (stream, reason, record, fingerprint) values ('assignment', 'no key', '{}', 'x');
       insert into tidemark.backfill (stream, position_from, position_to, position, requested_by) values ('assignment', 0, 9, 0, 'a test');
       insert into tidemark.checkpoint (stream, position) values ('assignment', 9)`,
    )
  })

  it('says nothing of the quarantine of other streams', async () => {
    expect(await said('quarantine', 'list')).toContain('no key')
    expect(await said('quarantine', 'list', 'assignment_note')).toBe(
      'No record of assignment_note is in quarantine.',
    )
    await database.pool.query('update tidemark.quarantine set dropped_at = now()')
    expect(await said('quarantine', 'list')).toBe('The quarantine is empty.')
  })

  it('says nothing of backfills and checkpoints of other streams', async () => {
    expect(await said('backfill', '--list')).toContain('a test')
    expect(await said('backfill', '--list', 'assignment_note')).toBe(
      'There was no backfill of assignment_note yet.',
    )
    expect(await said('checkpoints', 'assignment_note')).toBe(
      'There is no checkpoint of assignment_note yet: `tidemark sync assignment_note` makes the first.',
    )
  })
})
