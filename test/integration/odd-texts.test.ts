// What an upstream says of its failures may hold anything that JSON can: half of a character, or a NUL. Postgres holds neither in JSON, and
// no NUL at all. People are told all the same.

import { describe, expect, it } from 'vitest'
import { noteAction, noteResult } from '../../src/store/book/actions.ts'
import { noteEnd, noteProblem, noteProblems } from '../../src/store/book/problems.ts'
import { noteStandings } from '../../src/store/book/watch.ts'
import { holdableJson } from '../../src/util/text.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'

const odd = 'half \ud83d and \0, \\u0000 \\\ud800'
const held = 'half \ufffd and \ufffd, \\u0000 \\\ufffd'

it('what Postgres cannot hold becomes one sign, in names too, and what only looks like it stays', () => {
  expect(JSON.parse(holdableJson({ [odd]: [odd, '\\\\u0000', '😀'] }))).toEqual({
    [held]: [held, '\\\\u0000', '😀'],
  })
})

describe.skipIf(!hasPostgres)('texts that Postgres cannot hold', () => {
  const database = createTestDatabase()
  const rows = async (sql: string) => (await database.pool.query(sql)).rows

  it('keep no state and no problem of a stream from being noted', async () => {
    const { pool } = database
    await noteStandings(pool, [{ stream: 'assignment', state: 'behind', reason: odd }])
    expect(await rows('select state, reason from tidemark.freshness where stream = $$assignment$$')).toEqual([
      { state: 'behind', reason: held },
    ])
    await noteProblems(pool, [{ key: 'a', kind: 'failing', stream: 'assignment', what: odd, since: null }])
    await noteEnd(pool, { key: 'b', kind: 'part_down', what: odd, since: new Date() })
    await noteProblem(pool, { key: 'c', what: odd })
    expect(await rows('select what from tidemark.problem_history order by key')).toEqual([
      { what: held },
      { what: 'half \ufffd and \\0, \\u0000 \\\ufffd' },
    ])
    expect(await rows('select count(*)::int from tidemark.notice')).toEqual([{ count: 1 }])
  })

  it('keep no action from being recorded', async () => {
    const deed = { who: '', door: 'terminal', address: 'here', action: 'sync', target: 'assignment' } as const
    const noted = { ...deed, stream: 'assignment', reason: null, confirmed: null, before: { odd } }
    const id = await noteAction(database.pool, noted)
    await noteResult(database.pool, id, { result: 'failed', told: odd, after: { odd } })
    expect(await rows(`select result, "after"->>'odd' as odd from tidemark.action`)).toEqual([
      { result: 'failed', odd: held },
    ])
  })
})
