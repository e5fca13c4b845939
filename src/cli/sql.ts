// `tidemark sql`: asks the mirror a question in SQL and says how current the answer is. It can change nothing. Without a query it opens psql
// where there is one, with the same limits.

import { spawn } from 'node:child_process'
import type { Pool, QueryResult } from 'pg'
import { loadMirrorConfig } from '../config/load.ts'
import { readReach } from '../store/book/checkpoints.ts'
import { readMode } from '../store/server/connect.ts'
import { withConnection } from '../store/server/session.ts'
import type { Catalogue } from '../streams/catalog.ts'
import { baseOf, schemasOf, sourceIn } from '../streams/names.ts'
import { settledThrough } from '../streams/settling.ts'
import { csvLine } from '../util/csv.ts'
import { UsageError } from '../util/errors.ts'
import { addressIn, type PostgresUrl, readPostgresUrl } from '../util/postgres-url.ts'
import { formatDuration, plural, visible } from '../util/text.ts'
import { type Call, type Command, flag, json } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { readMirror } from './mirror.ts'
import { utcSecond } from './output.ts'
import { noteLookHere } from './recorded.ts'

const longestSeconds = 30

export const sql: Command = {
  name: 'sql',
  summary: 'run a read-only SQL query on the mirror',
  usage: '["QUERY"] [--csv [--raw] | --json]',
  options: {
    csv: flag(
      'print comma-separated values, with a header; texts that a spreadsheet would run get an apostrophe in front',
    ),
    raw: flag('with --csv, for programs: every text as it is'),
    json,
  },
  examples: [
    'tidemark sql "select assignment_status_id, count(*) from bi.assignment group by 1 order by 2 desc"',
    'tidemark sql --csv "select * from tidemark.freshness"',
    'tidemark sql    # opens psql, where there is one',
  ],
  async run(call) {
    const { positionals, values } = call
    const query = positionals.join(' ').trim()
    if (values.csv && values.json) throw new UsageError('Use either --csv or --json, not both.')
    if (values.raw && !values.csv)
      throw new UsageError('--raw belongs to --csv; nothing is put in front of texts elsewhere.')
    if (query === '') return await openPsql(call)
    return await readMirror(call, async (pool) => {
      await noteLookHere({ pool, log: call.log }, 'A query.')
      const startedAt = performance.now()
      const answer = await ask(pool, query)
      show(call, answer)
      if (values.json || values.csv) return
      const took = formatDuration(performance.now() - startedAt)
      call.stdout.tell(
        `${plural(answer.rows.length, 'row')}, ${took}.${await currency(pool, query, call.catalogue)}`,
      )
    })
  },
}

type Answer = QueryResult<(string | null)[]>

/** One statement alone, in a transaction that only reads: what it would change is refused by Postgres. */
async function ask(pool: Pool, text: string): Promise<Answer> {
  return await withConnection(pool, async (client) => {
    await client.query(`begin read only; set local statement_timeout = '${longestSeconds}s'`)
    try {
      // With the extended protocol Postgres refuses a second statement. All values come as text, exactly as Postgres writes them.
      const types = { getTypeParser: () => (value: string) => value }
      const config = { text, queryMode: 'extended', rowMode: 'array' as const, types }
      const answer = await client.query<(string | null)[]>(config)
      // It comes in another way, which nobody reads here.
      if (answer.command === 'COPY')
        throw new UsageError(
          '`tidemark sql` shows what a query answers, and `copy` answers nothing. Write the query by itself; --csv prints it as CSV.',
        )
      return answer
    } catch (error) {
      throw explained(error)
    } finally {
      await client.query('rollback').catch(() => {})
    }
  })
}

function explained(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : null
  if (code === '57014')
    return new UsageError(
      `The query took longer than ${longestSeconds} s and was ended. Ask for less, or run it in a client of your own, which has no such limit.`,
    )
  if (code === '25006')
    return new UsageError(
      'The mirror can only be read here. What you change in it is noticed and read again.',
    )
  // Only errors about the query itself: its words, its names, its values.
  if (typeof code !== 'string' || !/^(42|22|0A)/.test(code) || !(error instanceof Error)) return error
  if (/multiple commands/.test(error.message)) return new UsageError('Write one query at a time.')
  const hint = 'hint' in error && typeof error.hint === 'string' ? ` ${error.hint}` : ''
  const advice = unknownNames.has(code) ? ' `tidemark schema` lists the views and their columns.' : ''
  return new UsageError(`Postgres says: ${error.message}.${hint}${advice}`)
}

/** Error codes for an unknown schema, table or column. */
const unknownNames: ReadonlySet<string> = new Set(['3F000', '42P01', '42703'])

function show({ values, stdout }: Call, { fields, rows }: Answer): void {
  const names = fields.map(({ name }) => name)
  const areNumbers = fields.map(({ dataTypeID }) => numeric.has(dataTypeID))
  if (values.json) {
    expectDistinct(names)
    stdout.json(rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index] ?? null]))))
  } else if (values.csv) {
    const isRaw = values.raw === true
    // For a file or a program it is exact.
    const write = (line: string) => stdout.write(stdout.isTTY ? visible(line) : line)
    write(csvLine(names, { areNumbers: [], isRaw }, '\n'))
    for (const row of rows) write(csvLine(row, { areNumbers, isRaw }, '\n'))
  } else stdout.say(table(names, rows, areNumbers))
}

function expectDistinct(names: readonly string[]): void {
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated !== undefined)
    throw new UsageError(
      `Several columns are called ${repeated}, and JSON would hold only one of them. Give each a name of its own with \`as\`.`,
    )
}

/** OIDs of int2, int4, int8, float4, float8, numeric and oid. */
const numeric: ReadonlySet<number> = new Set([21, 23, 20, 700, 701, 1700, 26])

/** As psql has it. */
function table(
  names: readonly string[],
  given: readonly (readonly (string | null)[])[],
  areNumbers: readonly boolean[],
): string {
  const rows = given.map((row) => row.map((cell) => visible(cell ?? '').replaceAll(/\s+/g, ' ')))
  const widths = names.map((name, column) =>
    Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  const pad = (text: string, column: number) => {
    const width = widths[column] ?? 0
    return areNumbers[column] ? text.padStart(width) : text.padEnd(width)
  }
  const line = (cells: readonly string[]) => ` ${cells.map(pad).join(' | ')}`.trimEnd()
  const ruler = widths.map((width) => '-'.repeat(width + 2)).join('+')
  return [line(names), ruler, ...rows.map(line)].join('\n')
}

const mostTold = 3

/** How current the streams are that the query names, of whichever source. */
async function currency(pool: Pool, query: string, catalogue: Catalogue): Promise<string> {
  const found = (await readReach(pool, null)).filter(({ stream }) => isNamed(query, stream))
  const through = (what: string, moment: Date | null, none: string) =>
    moment === null ? none : `${what} through ${utcSecond(moment)} UTC`
  const told = found.slice(0, mostTold).map((one) => {
    const kind = catalogue.find(({ name }) => baseOf(name) === baseOf(one.stream))?.kind
    const settled = through('settled', settledThrough(kind, one), 'not settled yet')
    const deletions = through('deletions known', one.deletionsKnownAt, 'deletions not known yet')
    return `${one.stream}: ${settled}, ${deletions}`
  })
  if (found.length > mostTold) told.push(`${found.length - mostTold} more are in tidemark.freshness`)
  return told.length === 0 ? '' : ` ${told.join('; ')}.`
}

/** By a table or a view of its source, or by one over several sources. Without a schema, those of the environment are meant. */
function isNamed(query: string, stream: string): boolean {
  const { tables, views } = schemasOf(sourceIn(stream))
  const schemas = [
    `${tables}\\.`,
    `${views}\\.`,
    'fleet(?:_\\w+)?\\.',
    ...(sourceIn(stream) === '' ? [''] : []),
  ]
  const table = `${baseOf(stream)}(?:_(?:at|versions|changes|history))?`
  return new RegExp(`(?<![\\w.])(?:${schemas.join('|')})${table}(?!\\w)`, 'i').test(query.replaceAll('"', ''))
}

// ── psql ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The password goes by the environment: arguments can be read by everybody on the machine (P9). */
async function openPsql(call: Call): Promise<ExitCode> {
  const { environment, stdout, signal } = call
  if (!stdout.isTTY) throw new UsageError('`tidemark sql` needs a query where there is no terminal.')
  const { databaseUrl, extraCaFile } = loadMirrorConfig(environment)
  return await readMirror(call, async (pool) => {
    await noteLookHere({ pool, log: call.log }, 'A session of psql.')
    const url = readPostgresUrl(databaseUrl ?? pool.options.connectionString ?? '')
    const psql = spawn('psql', [], {
      stdio: 'inherit',
      signal,
      env: { ...environment, ...psqlSettings(url, extraCaFile) },
    })
    const ended = Promise.withResolvers<void>()
    psql.on('error', () =>
      ended.reject(
        new UsageError(
          'psql is not installed here. Give the query as an argument: `tidemark sql "select …"`.',
        ),
      ),
    )
    psql.on('exit', () => ended.resolve())
    await ended.promise
  }).then(() => exitCodes.done)
}

/** As Tidemark connects: by itself libpq would also go to another host without TLS, or to whoever answers there (P9). */
export function psqlSettings(
  target: PostgresUrl,
  extraCaFile: string | null,
): Readonly<Record<string, string>> {
  const { hosts, wish } = target
  const [url] = hosts
  const given = (option: string) => url.searchParams.get(option) ?? ''
  const mode = readMode(target)
  const usual = mode === 'verify-full' ? 'system' : ''
  const authorities = given('sslrootcert') || (mode.startsWith('verify') ? (extraCaFile ?? usual) : '')
  const addresses = hosts.map(addressIn).map((address) => /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [])
  const parts: readonly (readonly [string, string])[] = [
    ['PGHOST', addresses.map(([, host]) => host).join(',')],
    ['PGPORT', addresses.map(([, , port]) => port).join(',')],
    ['PGTARGETSESSIONATTRS', wish ?? ''],
    ['PGUSER', decodeURIComponent(url.username) || given('user')],
    ['PGPASSWORD', decodeURIComponent(url.password) || given('password')],
    ['PGDATABASE', decodeURIComponent(url.pathname.slice(1))],
    ['PGSSLMODE', mode],
    ['PGSSLROOTCERT', authorities],
    ['PGSSLCERT', given('sslcert')],
    ['PGSSLKEY', given('sslkey')],
    ['PGOPTIONS', `-c default_transaction_read_only=on -c statement_timeout=${longestSeconds}s`],
  ]
  return Object.fromEntries(parts.filter(([, value]) => value !== ''))
}
