// The mirror as BI tools read it: through an ODBC driver, where types must arrive as what they are.

import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, storeOf, writeAll } from '../support/runs.ts'

// Debian's own Python; another one on the PATH does not have Debian's packages.
const python = '/usr/bin/python3'
const hasOdbc = hasPostgres && findOdbc()

describe.skipIf(!hasOdbc)('through ODBC', () => {
  const database = createTestDatabase({ forEach: true })

  it('numbers, booleans and timestamps arrive as such, not as text', async () => {
    const record = {
      AssignmentId: 7,
      RowVersion: 9_007_199_254_740_991,
      Price: JSON.rawJSON('12345678901234567890.12'),
      Hours: 1.25,
      IsLocked: true,
      PlannedStart: '2024-03-31T02:30:00.1234567+02:00',
      UID: '3f2504e0-4f89-41d3-9a0c-0305e82c3301',
      Name: 'Ærø ✓',
    }
    await writeAll(storeOf(database), 'assignment', assignments(record))
    const row = await readThroughOdbc(database.url, 'select * from bi.assignment')
    expect(row).toMatchObject({
      assignment_id: ['int', '7'],
      row_version: ['int', '9007199254740991'],
      price: ['Decimal', '12345678901234567890.12'],
      hours: ['Decimal', '1.25'],
      is_locked: ['bool', 'True'],
      planned_start: ['datetime', '2024-03-31 00:30:00.123456'],
      uid: ['str', '3F2504E0-4F89-41D3-9A0C-0305E82C3301'],
      name: ['str', 'Ærø ✓'],
      _synced_at: ['datetime', expect.any(String)],
    })
  })

  it('the freshness of streams arrives as numbers and timestamps', async () => {
    await writeAll(storeOf(database), 'assignment', assignments({ AssignmentId: 7, RowVersion: 1 }))
    const row = await readThroughOdbc(
      database.url,
      `select * from tidemark.freshness where stream = 'assignment'`,
    )
    expect(row).toMatchObject({
      stream: ['str', 'assignment'],
      read_through_time: ['datetime', expect.any(String)],
    })
  })
})

/** The type and the text of each column of the first row. */
async function readThroughOdbc(
  url: string,
  sql: string,
): Promise<{ readonly [column: string]: readonly [string, string] }> {
  const { hostname, port, username, password, pathname } = new URL(url)
  const connection = {
    Driver: '{PostgreSQL Unicode}',
    Server: hostname,
    Port: port || '5432',
    Database: pathname.slice(1),
    Uid: decodeURIComponent(username),
    Pwd: `{${decodeURIComponent(password)}}`,
    // The driver's own default turns booleans into text.
    BoolsAsChar: '0',
    ConnSettings: "{set time zone 'UTC'}",
  }
  const script = `
import json, os, sys, pyodbc
cursor = pyodbc.connect(os.environ['ODBC_CONNECTION']).cursor()
row = cursor.execute(sys.argv[1]).fetchone()
print(json.dumps({column[0]: [type(value).__name__, str(value)] for column, value in zip(cursor.description, row)}))`
  const text = Object.entries(connection)
    .map(([name, value]) => `${name}=${value}`)
    .join(';')
  const { stdout } = await promisify(execFile)(python, ['-c', script, sql], {
    env: { ODBC_CONNECTION: text },
  })
  return JSON.parse(stdout)
}

function findOdbc(): boolean {
  try {
    const drivers = execFileSync(python, ['-c', 'import pyodbc; print(pyodbc.drivers())'], {
      encoding: 'utf8',
      stdio: 'pipe',
    })
    if (drivers.includes('PostgreSQL Unicode')) return true
  } catch {
    // Told below.
  }
  const message = 'there is no ODBC driver for the tests: apt-get install odbc-postgresql python3-pyodbc'
  if (process.env.CI) throw new Error(message)
  process.stderr.write(`\n*** SKIPPED: ${message} ***\n\n`)
  return false
}
