// Pausing a stream by hand.

import { hostname, userInfo } from 'node:os'
import { describe, expect, it } from 'vitest'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { runHere } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('a stream', () => {
  const database = createTestDatabase()
  it('is paused with a reason, shown as paused, and resumed', async () => {
    const tidemark = (...words: string[]) => runHere(words, { DATABASE_URL: database.url })
    const paused = await tidemark('pause', 'assignment', '--reason', 'an upgrade')
    expect(paused).toMatchObject({ code: 0, stdout: expect.stringContaining('assignment is paused') })
    expect((await tidemark('status', 'assignment')).stdout).toMatch(/paused +since .+ by .+@.+: an upgrade/)
    expect((await tidemark('resume', 'assignment')).stdout).toContain('assignment is read again')
  })

  it('is moved back with a reason; who did what at the terminal is recorded, what was refused too', async () => {
    const tidemark = (...words: string[]) => runHere(words, { DATABASE_URL: database.url })
    await database.pool.query(`update tidemark.stream set position = 70 where name = 'assignment'`)
    expect(await tidemark('rewind', 'assignment', '--to-version', '90', '--reason', 'a slip')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('would skip everything in between'),
    })
    expect(await tidemark('rewind', 'assignment', '--to-version', '50', '--reason', 'a drill')).toMatchObject(
      {
        code: 0,
        stdout: expect.stringContaining('the position moved from 70 to 50'),
      },
    )
    expect((await tidemark('backfill', '--cancel', '17')).code).toBe(2)
    const { rows } = await database.pool.query(
      `select who, door, address, action, target, reason, result, before ->> 'position' as before, after ->> 'position' as after
       from tidemark.action where action not in ('pause', 'resume') order by id`,
    )
    const here = { who: userInfo().username, door: 'terminal', address: hostname() }
    const rewinds = { ...here, action: 'rewind', target: 'assignment', before: '70' }
    expect(rows).toEqual([
      { ...rewinds, reason: 'a slip', result: 'refused', after: '70' },
      { ...rewinds, reason: 'a drill', result: 'done', after: '50' },
      {
        ...here,
        ...{
          action: 'cancelBackfill',
          target: '17',
          reason: null,
          result: 'refused',
          before: null,
          after: null,
        },
      },
    ])
  })
})
