// As whom Tidemark works in the embedded Postgres: no superuser, also where an earlier version made everything as one.

import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startEmbedded } from '../../src/embedded-postgres/server.ts'
import { openLog } from '../../src/log.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { giveOwnership } from '../../src/store/server/ownership.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { quietLog } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

describe('the role in the embedded Postgres', { timeout: 120_000 }, () => {
  let directory = ''
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'tidemark-role-'))
    chmodSync(directory, 0o755)
  })
  afterEach(() => rmSync(directory, { recursive: true, force: true }))
  const open = () => openDatabase({ url: null, directory, log: quietLog })
  /** With a role for BI, as the guide makes it; returns what is warned of. */
  async function migrate(database: Awaited<ReturnType<typeof open>>): Promise<readonly string[]> {
    const stream = new PassThrough()
    const lines: string[] = []
    stream.on('data', (line) => lines.push(String(line)))
    await migrateDatabase({ database, streams, biRole: 'reporting', log: openLog({ level: 'warn', stream }) })
    return lines.filter((line) => line.includes('statements'))
  }
  async function write(
    database: Awaited<ReturnType<typeof open>>,
    id: number,
    more: Record<string, unknown> = {},
  ) {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments({ AssignmentId: id, RowVersion: id, ...more }), BigInt(id))
    await run.finish(done)
  }

  it('gets no shell and no file, and can make and limit a role for BI', async () => {
    const database = await open()
    try {
      for (const attempt of [
        `copy (select 1) to program 'true'`,
        `select pg_read_file('postgresql.conf')`,
        'create role another superuser',
        'grant pg_execute_server_program to current_user',
        'alter role tidemark password null',
        'set role tidemark',
      ])
        await expect(database.pool.query(attempt), attempt).rejects.toThrow(
          /permission denied|must be|may not/,
        )
      await database.pool.query(`create role reporting login password 'secret-of-the-role'`)
      const statements = await migrate(database)
      // Only functions of Postgres itself are not for its owner to close.
      expect(statements).toEqual([expect.stringContaining('revoke execute on function pg_catalog.lo_creat')])
      expect(statements.join()).not.toContain('alter role')
      const { rows } = await database.pool.query(
        `select rolconnlimit as connections, (
           select array(select unnest(setconfig) order by 1) from pg_db_role_setting where setrole = pg_roles.oid
         ) as settings from pg_roles where rolname = 'reporting'`,
      )
      expect(rows).toEqual([
        {
          connections: 50,
          settings: [
            'idle_in_transaction_session_timeout=1min',
            'statement_timeout=1h',
            'temp_file_limit=5GB',
          ],
        },
      ])
    } finally {
      await database.close()
    }
  })

  it('goes on with what an earlier version made as the superuser, and keeps the address that people have', async () => {
    const server = await startEmbedded({ directory, log: quietLog })
    const earlier = await openDatabase({ url: server.adminUrl, log: quietLog })
    try {
      // As it was before there was the role.
      await earlier.pool.query(`alter database tidemark owner to tidemark`)
      await earlier.pool.query(`drop owned by tidemark_worker; drop role tidemark_worker`)
      await earlier.pool.query(`create role reporting login password 'secret-of-the-role'`)
      await migrate(earlier)
      await write(earlier, 1)
    } finally {
      await earlier.close()
      await server.leave()
    }
    // Of programs that start at the same moment, each finds it given.
    const again = await startEmbedded({ directory, log: quietLog })
    const admins = await Promise.all(
      [1, 2, 3].map(() => openDatabase({ url: again.adminUrl, log: quietLog })),
    )
    const given = { schemas: ['bi'], from: ['tidemark'], to: 'tidemark_worker' }
    await Promise.all(admins.map(({ pool }) => giveOwnership(pool, given)))
    for (const { close } of admins) await close()
    await again.leave()
    const [one, two] = [await open(), await open()]
    try {
      await migrate(one)
      await write(two, 2, { NewOfTheDay: 'x' })
      const { rows } = await one.pool.query(
        'select assignment_id::int as id, new_of_the_day from bi.assignment order by 1',
      )
      expect(rows).toEqual([
        { id: 1, new_of_the_day: null },
        { id: 2, new_of_the_day: 'x' },
      ])
      await one.pool.query(`alter role reporting set statement_timeout = '2h'`)
      const url = new URL(readFileSync(join(directory, 'url'), 'utf8').trim())
      expect([url.username, url.href]).toEqual(['tidemark_worker', one.url])
      // Whoever connects as before still can, for what only a superuser may do.
      const { password } = JSON.parse(readFileSync(join(directory, 'postgres/tidemark.json'), 'utf8'))
      const admin = new pg.Client(Object.assign(url, { username: 'tidemark', password }).href)
      await admin.connect()
      expect((await admin.query('select from bi.assignment')).rowCount).toBe(2)
      await admin.end()
    } finally {
      await one.close()
      await two.close()
    }
  })
})
