// The verbs that only look: they change nothing, and say what is missing to look at.

import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { DatabaseError } from '../../src/util/errors.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { inFreshDirectory, runTidemark, startTidemark } from '../support/program.ts'
import { callVerb } from '../support/verbs.ts'

const reading: readonly (readonly string[])[] = [
  ['status'],
  ['checkpoints'],
  ['quarantine', 'list'],
  ['deletions', 'list'],
  ['schema'],
  ['backfill', '--list'],
]

describe.skipIf(!hasPostgres)('a verb that only reads', () => {
  const database = createTestDatabase({ isMigrated: false, forEach: true })
  const environment = () => ({ DATABASE_URL: database.url })
  const schemas = async () =>
    (
      await database.pool.query(
        `select nspname from pg_namespace where nspname in ('tidemark', 'mirror', 'bi')`,
      )
    ).rows

  /** Each in the process of the test, and one of them as the program itself. */
  async function areRefused(message: RegExp): Promise<void> {
    for (const words of reading) {
      const { error, stdout, logged } = await callVerb(words, environment())
      expect({ words, stdout, logged }).toEqual({ words, stdout: '', logged: '' })
      expect(error, words.join(' ')).toBeInstanceOf(DatabaseError)
      expect(error).toMatchObject({ message: expect.stringMatching(message) })
    }
    const { code, stdout, stderr } = await runTidemark(['status'], environment())
    expect({ code, stdout, lines: stderr.trimEnd().split('\n').length }).toEqual({
      code: 4,
      stdout: '',
      lines: 1,
    })
    expect(stderr.trimEnd()).toMatch(message)
  }

  it('makes no tables in an empty database, and says how they are made', async () => {
    const message =
      /^The database \S+ holds no mirror yet\. `tidemark sync` makes one; `tidemark migrate` .+$/
    await areRefused(message)
    await using simulator = await startSimulator()
    const explained = await callVerb(['explain', 'assignment', '1'], environmentFor(simulator, database))
    expect(explained.error).toMatchObject({ message: expect.stringMatching(message) })
    expect(await schemas()).toEqual([])
  })

  it('leaves an older schema as it is, and names the verb that updates it', async () => {
    await callVerb(['migrate'], environment())
    const newest = 'select id from tidemark.migration order by created_at desc limit 1'
    await database.pool.query(`delete from tidemark.migration where id = (${newest})`)
    const before = await database.pool.query('select * from tidemark.migration')
    await areRefused(/older version of Tidemark: one migration is due\. Run `tidemark migrate`/)
    expect((await database.pool.query('select * from tidemark.migration')).rows).toEqual(before.rows)
  })

  it('needs no right to write, and names the grants that it needs to read', async () => {
    await callVerb(['migrate'], environment())
    const role = `reader_${database.name}`
    await database.pool.query(`create role ${role} login password 'a password of the tests'`)
    try {
      const url = new URL(database.url)
      url.username = role
      url.password = 'a password of the tests'
      const { error } = await callVerb(['status'], { DATABASE_URL: url.href })
      const told = error instanceof DatabaseError ? error.message : ''
      expect(told).toMatch(
        new RegExp(`^The role ${role} lacks a right in Postgres at \\S+ \\(permission denied`),
      )
      await database.pool.query(/grant .+$/.exec(told)?.[0] ?? '')
      for (const words of reading)
        expect({ words, ...(await callVerb(words, { DATABASE_URL: url.href })) }).toMatchObject({
          words,
          code: 0,
          logged: '',
        })
      expect(await runTidemark(['actions', 'verify'], { DATABASE_URL: url.href })).toMatchObject({ code: 0 })
    } finally {
      await database.pool.query(`drop owned by ${role}; drop role ${role}`)
    }
  })

  it('starts no Postgres where there is no mirror', async () => {
    expect(await inFreshDirectory().run(['status'], {})).toEqual({
      code: 2,
      stdout: '',
      stderr:
        'There is no mirror in this directory. `tidemark sync` makes one; to use another, set DATABASE_URL.\n',
    })
  })

  it('prints one document with --json, whatever happens', async () => {
    const failing = [['status'], ['status', 'nothing'], ['status', '--jsno'], ['nothing']]
    const ended = await Promise.all(failing.map((words) => runTidemark([...words, '--json'], environment())))
    expect(ended.map(({ code }) => code)).toEqual([4, 2, 2, 2])
    for (const { code, stdout, stderr } of ended)
      expect(JSON.parse(stdout)).toEqual({ error: stderr.trimEnd(), exit_code: code })
    await callVerb(['migrate'], environment())
    for (const words of reading) {
      const { code, stdout } = await callVerb([...words, '--json'], environment())
      expect({ words, code, told: JSON.parse(stdout) }).toMatchObject({ words, code: 0 })
    }
  })

  it('ends at Ctrl-C, also while Postgres does not answer (130)', { timeout: 60_000 }, async () => {
    const isAsked = Promise.withResolvers<void>()
    const silent = createServer(() => isAsked.resolve())
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const program = startTidemark(['status'], {
      DATABASE_URL: `postgres://nobody@127.0.0.1:${port}/none?sslmode=disable`,
    })
    await isAsked.promise
    const toldAt = performance.now()
    program.child.kill('SIGINT')
    expect(await program.ended).toMatchObject({ code: 130, stdout: '', stderr: 'Interrupted.\n' })
    expect(performance.now() - toldAt).toBeLessThan(5_000)
    silent.close()
  })
})
