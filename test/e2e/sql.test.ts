// Questions in SQL: answered as Postgres has them, with how current they are, and unable to change anything.

import { describe, expect, it } from 'vitest'
import { psqlSettings, sql } from '../../src/cli/sql.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readPostgresUrl } from '../../src/util/postgres-url.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { hasTerminal, onTerminal } from '../support/terminal.ts'
import { callCommand, callVerb, runHere } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('tidemark sql', () => {
  const database = createTestDatabase()
  const ask = (...words: readonly string[]) => callCommand(sql, words, { DATABASE_URL: database.url })

  it('prints an aligned table, and how current the streams are that were asked for', async () => {
    await using simulator = await startSimulator({ assignments: 12 })
    await callVerb(['sync', 'assignment'], environmentFor(simulator, database))
    const { stdout } = await ask(
      'select count(*) as rows, $$a$$ as text, 1.50::numeric as n from bi.assignment',
    )
    expect(stdout.split('\n').slice(0, 3)).toEqual([
      ' rows | text |    n',
      '------+------+------',
      '   12 | a    | 1.50',
    ])
    expect(stdout).toMatch(
      /\n1 row, .+\. assignment: not settled yet, deletions (?:not known yet|known through .+ UTC)\.\n$/,
    )
  })

  it('says it of the source that was asked for, and of no other one (P18)', async () => {
    await using simulator = await startSimulator({ assignments: 2 })
    await callVerb(['sync', 'assignment'], environmentFor(simulator, database))
    await database.pool.query(
      `insert into tidemark.stream (name, settled_through_at) values ('acme.assignment', '2026-11-01Z'), ('zeta.assignment', '2026-11-02Z');
       create schema acme; create view acme.assignment as select 1 as assignment_id; create view acme.assignment_versions as select 2`,
    )
    const toldOf = async (from: string) =>
      /\n1 row, [^.]+\.(.*)\n$/s.exec((await ask(`select 1 from ${from} limit 1`)).stdout)?.[1]
    const acme = ' acme.assignment: settled through 2026-11-01 00:00:00 UTC, deletions not known yet.'
    expect(await toldOf('acme.assignment')).toBe(acme)
    expect(await toldOf('acme."assignment_versions"')).toBe(acme)
    expect(await toldOf('bi.assignment')).toMatch(/^ assignment: [^;]+\.$/)
    expect(await toldOf('tidemark.run as assignments')).toBe('')
    await database.pool.query(
      `create schema fleet_some; create view fleet_some.assignment as table acme.assignment`,
    )
    expect(await toldOf('fleet_some.assignment')).toMatch(
      /^ acme\.assignment: .*; assignment: .*; zeta\.assignment: /,
    )
    await database.pool.query(
      `drop schema acme, fleet_some cascade; delete from tidemark.stream where name like '%.%'`,
    )
  })

  it('prints CSV and JSON exactly', async () => {
    const query = `select 9007199254740993 as big, null as nothing, '' as empty, 'a "b",c' as text`
    expect((await ask('--csv', query)).stdout).toBe(
      'big,nothing,empty,text\n9007199254740993,,"","a ""b"",c"\n',
    )
    expect(JSON.parse((await ask('--json', query)).stdout)).toEqual([
      { big: '9007199254740993', nothing: null, empty: '', text: 'a "b",c' },
    ])
  })

  it('hides no column behind another one of the same name in JSON', async () => {
    const query = 'select 1 as a, 2 as a, 3 as b'
    await expect(ask('--json', query)).rejects.toThrow(
      'Several columns are called a, and JSON would hold only one of them. Give each a name of its own with `as`.',
    )
    expect((await ask('--csv', query)).stdout).toBe('a,a,b\n1,2,3\n')
  })

  it('prints no text into CSV that a spreadsheet would run, unless a program asks for it', async () => {
    const query = `select -5 as number, '-5' as text, e'\\t=1' as tab, '=cmd|''/c calc''!A0,"x"' as "@name", 'a=b' as plain`
    expect((await ask('--csv', query)).stdout).toBe(
      `number,text,tab,'@name,plain\n-5,'-5,'\t=1,"'=cmd|'/c calc'!A0,""x""",a=b\n`,
    )
    expect((await ask('--csv', '--raw', query)).stdout).toBe(
      `number,text,tab,@name,plain\n-5,-5,\t=1,"=cmd|'/c calc'!A0,""x""",a=b\n`,
    )
    await expect(ask('--raw', query)).rejects.toThrow('--raw belongs to --csv')
  })

  it.each([
    ['delete from mirror.assignment', /only be read/],
    ['commit; delete from mirror.assignment', /^Write one query at a time\.$/],
    [
      'set session characteristics as transaction read write; delete from mirror.assignment',
      /^Write one query at a time\.$/,
    ],
    ['create table bi.mine (a int)', /only be read/],
    ['selct 1', /Postgres says: syntax error/],
    [
      'select assignment_ids from bi.assignment',
      /Postgres says: column "assignment_ids" does not exist\. Perhaps you meant .+\. `tidemark schema` lists the views and their columns\.$/,
    ],
    [
      'copy (select 1) to stdout',
      /^`tidemark sql` shows what a query answers, and `copy` answers nothing\. Write the query by itself; --csv prints it as CSV\.$/,
    ],
    ['select * from bi.assignments', /"bi.assignments" does not exist\. `tidemark schema` lists the views/],
  ])('refuses %s', async (query, message) => {
    await expect(ask(query)).rejects.toThrow(message)
  })

  it('lets no value move the cursor, and ends with 2 when the query is wrong', async () => {
    expect((await ask(`select e'\\x1b[2J' as value`)).stdout).toContain('\\u{1b}[2J')
    // U+009B is an escape sequence's beginning in one character, and U+202E turns the direction of writing.
    const { stdout } = await ask('--json', `select e'\\x1b[2J \\u009b2J \\u202e' as value`)
    expect(stdout).toContain('"value": "\\u001b[2J \\u009b2J \\u202e"')
    expect(JSON.parse(stdout)).toEqual([{ value: '\x1b[2J \x9b2J \u202e' }])
    const environment = { DATABASE_URL: database.url }
    expect(await runHere(['sql', 'select 1/0'], environment)).toMatchObject({
      code: 2,
      stderr: 'Postgres says: division by zero.\n',
    })
    expect(await runHere(['sql'], environment)).toMatchObject({ code: 2, stdout: '' })
  })
})

describe.skipIf(!hasPostgres || !hasTerminal)('tidemark sql --csv on a terminal', () => {
  const database = createTestDatabase()

  it('lets no value move the cursor', async () => {
    const query = `"select chr(27) || '[2J' as value"`
    const shown = onTerminal(['sql', '--csv', query], 80, { DATABASE_URL: database.url })
    expect(await shown.ended).toBe(0)
    expect(shown.shown()).toContain('\\u{1b}[2J')
    expect(shown.shown()).not.toContain('\x1b')
  })
})

describe('psql, which `tidemark sql` opens,', () => {
  const settingsOf = (url: string, extraCaFile: string | null = null) =>
    psqlSettings(readPostgresUrl(url), extraCaFile)

  it.each([
    ['postgres://u:p@db.example/x', null, { PGSSLMODE: 'verify-full', PGSSLROOTCERT: 'system' }],
    ['postgres://u:p@db.example/x', '/ca.pem', { PGSSLMODE: 'verify-full', PGSSLROOTCERT: '/ca.pem' }],
    ['postgres://u:p@db.example/x?ssl=true', null, { PGSSLMODE: 'require' }],
    [
      'postgres://u:p@db.example/x?sslmode=verify-ca&sslrootcert=/a.pem&sslcert=/b.pem&sslkey=/c.key',
      null,
      { PGSSLMODE: 'verify-ca', PGSSLROOTCERT: '/a.pem', PGSSLCERT: '/b.pem', PGSSLKEY: '/c.key' },
    ],
    ['postgres://u:p@localhost/x', null, { PGSSLMODE: 'prefer', PGUSER: 'u', PGPASSWORD: 'p' }],
    ['postgres://localhost/x?user=u&password=p', null, { PGUSER: 'u', PGPASSWORD: 'p' }],
  ])('connects as Tidemark does, with the same TLS: %s', (url, extraCaFile, settings) => {
    expect(settingsOf(url, extraCaFile)).toMatchObject(settings)
  })
})
