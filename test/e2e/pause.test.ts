// Pausing a stream by hand.

import { describe, expect, it } from 'vitest'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { runTidemark } from '../support/program.ts'

describe.skipIf(!hasPostgres)('a stream', () => {
  const database = createTestDatabase()
  it('is paused with a reason, shown as paused, and resumed', async () => {
    const tidemark = (...words: string[]) => runTidemark(words, { DATABASE_URL: database.url })
    const paused = await tidemark('pause', 'assignment', '--reason', 'an upgrade')
    expect(paused).toMatchObject({ code: 0, stdout: expect.stringContaining('assignment is paused') })
    expect((await tidemark('status', 'assignment')).stdout).toMatch(/paused +since .+ by .+@.+: an upgrade/)
    expect((await tidemark('resume', 'assignment')).stdout).toContain('assignment is read again')
  })
})
