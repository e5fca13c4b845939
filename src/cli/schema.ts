// `tidemark schema`: what is in the mirror, as a dictionary, or as files for the tools that read it.

import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sourceOfEnvironment } from '../config/environment.ts'
import { loadDescriptionConfig, loadMirrorConfig } from '../config/load.ts'
import type { Pool } from '../context.ts'
import { withRelated } from '../documents/document.ts'
import { type ColumnMap, readSchemaMap, type ViewMap } from '../store/book/dictionary.ts'
import { findUnfit, type Occurring, readCodes } from '../store/book/meanings.ts'
import { readOverrides } from '../store/book/overrides.ts'
import { confirmedReferences, type Reference } from '../store/book/references.ts'
import { pickStreams } from '../streams/catalog.ts'
import { viewName } from '../streams/names.ts'
import { UsageError } from '../util/errors.ts'
import { asUnwritable, makeFolder } from '../util/files.ts'
import { readPostgresUrl } from '../util/postgres-url.ts'
import { capitalized, count, plural, snakeCased } from '../util/text.ts'
import { type Call, type Command, flag, json, oneOf, option, textOf } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { asDbt } from './exports/dbt.ts'
import { describeColumn, type Facts, type Files, factsOf } from './exports/facts.ts'
import { asPbids, asPowerBi } from './exports/powerbi.ts'
import { asSuperset } from './exports/superset.ts'
import { readMirror } from './mirror.ts'
import { markdownTable, oneLine } from './output.ts'

const exportNames = ['dbt', 'superset', 'powerbi', 'pbids'] as const

/** Made of facts alone, so that equal schemas give equal files. */
const exporters: Readonly<Record<(typeof exportNames)[number], (facts: Facts) => Files>> = {
  dbt: asDbt,
  superset: asSuperset,
  powerbi: asPowerBi,
  pbids: asPbids,
}
const formatNames = ['markdown', 'dictionary', ...exportNames] as const

export const schema: Command = {
  name: 'schema',
  summary: 'describe the tables: as a dictionary, or as files for dbt, Superset and Power BI',
  usage: '[stream…] [--format markdown|dictionary|dbt|superset|powerbi|pbids] [--out DIR] [--check] [--json]',
  options: {
    format: option(
      'FORMAT',
      'markdown (the default), dbt, superset, powerbi, pbids, or dictionary: a file for DICTIONARY to start from',
    ),
    out: option('DIR', 'folder that the files are written to; those with the same names are overwritten'),
    check: flag('compare the file that DICTIONARY names with what is there'),
    json,
  },
  examples: [
    'tidemark schema assignment',
    'tidemark schema --format dbt --out models/tidemark',
    'tidemark schema --format dbt --out models/acme --source acme',
    'tidemark schema --format dictionary > dictionary.yml',
    'tidemark schema --check',
  ],
  async run(call) {
    const { positionals, values, stdout } = call
    if (values.check) return await checkDictionary(call)
    const format = oneOf(values, 'format', formatNames) ?? 'markdown'
    const folder = textOf(values, 'out')
    const isPrinted = format === 'markdown' || format === 'dictionary'
    if (isPrinted && folder !== null)
      throw new UsageError('--out belongs to a --format that writes files, such as dbt.')
    if (!isPrinted && folder === null && !values.json)
      throw new UsageError(`--format ${format} writes files: name a folder for them with --out DIR.`)
    const source = sourceOfEnvironment(call.environment)
    const known = withRelated(call.catalogue)
    const wanted = pickStreams(positionals, known)
    return await readMirror(call, async (pool) => {
      const all = await readSchemaMap(pool, known)
      const views = all.filter(({ stream }) => wanted.some(({ name }) => name === stream))
      const references = (await confirmedReferences(pool, all)).filter(({ from }) =>
        views.some(({ name }) => name === from),
      )
      if (values.json) return stdout.json(asJson(views, references))
      if (views.length === 0)
        return stdout.say('Nothing is mirrored yet: `tidemark sync` reads the upstream.')
      if (format === 'dictionary') return stdout.write(await asDictionary(pool, views))
      if (format === 'markdown') return stdout.write(asMarkdown(views, references))
      if (folder === null) return
      const overrides = await readOverrides(pool, source)
      const facts = factsOf(call, { views, references, overrides, address: await readAddress(call, pool) })
      const written = await writeFiles(folder, exporters[format](facts))
      stdout.say(`Wrote ${plural(written, 'file')} to ${folder}.`)
    })
  },
}

async function writeFiles(folder: string, files: Files): Promise<number> {
  try {
    for (const [path, content] of Object.entries(files)) {
      const target = join(folder, path)
      await makeFolder(dirname(target))
      await writeFile(target, content)
    }
  } catch (error) {
    throw asUnwritable(error, folder)
  }
  return Object.keys(files).length
}

/** What DATABASE_URL says, or where the embedded Postgres is. */
async function readAddress({ environment }: Call, pool: Pool): Promise<URL> {
  const { databaseUrl } = loadMirrorConfig(environment)
  if (databaseUrl !== null) return readPostgresUrl(databaseUrl).hosts[0]
  const { rows } = await pool.query<{ url: string }>(
    `select format('postgres://%s@127.0.0.1:%s/%s?sslmode=disable', current_user, inet_server_port(), current_database()) as url`,
  )
  return new URL(rows[0]?.url ?? 'postgres://127.0.0.1')
}

const asJson = (views: readonly ViewMap[], references: readonly Reference[]) =>
  views.map(({ name, columns, unplaced }) => ({
    view: viewName(name),
    columns: columns.map((column) => ({
      ...snakeCased({ description: null, ...column }),
      ...referenceOf(references.find((one) => one.from === name && one.column === column.name)),
    })),
    fields_without_column: unplaced,
  }))

const referenceOf = (reference: Reference | undefined) => ({
  refers_to: reference?.to ?? null,
  resolved_share: reference?.share ?? null,
})

// ── `--format markdown`: the data dictionary, a table for each view ──────────────────────────────────────────────

/** What it means, and what was seen of it. */
function tellColumn(column: ColumnMap): string {
  const { nullShare, firstSeenAt, rescued, note } = column
  return [
    describeColumn(column) || null,
    nullShare === null || nullShare === 0 ? null : `${percent(nullShare)} empty`,
    firstSeenAt === null ? null : `first seen ${firstSeenAt.slice(0, 10)}`,
    rescued === 0 ? null : `${count(rescued)} values did not fit`,
    note === null ? null : oneLine(note),
  ]
    .filter((part) => part !== null)
    .join('; ')
}

/** Rounded, but 100 % only for a column that is empty in all rows, and 0 % only for one that is filled in all. */
function percent(share: number): string {
  const rounded = Math.round(100 * share)
  if (rounded === 0) return 'below 1 %'
  return rounded === 100 && share < 1 ? 'above 99 %' : `${rounded} %`
}

export function asMarkdown(views: readonly ViewMap[], references: readonly Reference[]): string {
  return views
    .map(({ name, columns, unplaced }) => {
      const rows = columns.map((column) => {
        const reference = references.find(({ from, column: one }) => from === name && one === column.name)
        const role = [column.isKey ? 'key' : null, reference ? referenceText(reference) : null]
          .filter(Boolean)
          .join(', ')
        return [cell(column.name), column.type, role, cell(tellColumn(column))]
      })
      const table = markdownTable(['column', 'type', 'role', 'what it holds'], rows)
      const lines = [`## ${viewName(name)}`, '', ...table, '']
      const others = unplaced.map(
        ({ field, note }) => `- ${cell(oneLine(field))}: ${cell(oneLine(note ?? 'only ever empty'))}`,
      )
      return [...lines, ...(others.length > 0 ? ['Fields without a column:', '', ...others, ''] : [])].join(
        '\n',
      )
    })
    .join('\n')
}

/** The reference, with the share of the column's values that exist there, unless all do. */
const referenceText = ({ to, share }: Reference): string =>
  share === 1 ? `→ ${to}` : `→ ${to} (${percent(share)})`

/** Escapes a cell, so that nothing in it is Markdown. An underscore inside a word is none. */
const cell = (text: string): string =>
  text.replaceAll(/[\\`*{}[\]<>()#+!|~&]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\$&')

// ── `--format dictionary` and `--check`: a file to start from, with the values that occur, and what does not fit in the file ──

/** Exit 1 when something does not fit what is there; a file with mistakes is one of the settings that cannot be used. */
async function checkDictionary(call: Call): Promise<ExitCode> {
  const { dictionary } = loadDescriptionConfig(call.environment)
  const { file } = dictionary
  if (file === null) throw new UsageError('There is no dictionary to check: set DICTIONARY to its file.')
  return await readMirror(call, async (pool) => {
    const findings = await findUnfit(pool, dictionary.now())
    const found = findings.length
    const told = findings.map(
      ({ stream, line, what }) => `${line === null ? '' : `${file}:${line}: `}${stream}: ${what}`,
    )
    const verdict =
      found === 0
        ? `${file} has no mistakes, and fits what is there.`
        : `${file} can be used. Compared with what is there: ${plural(found, 'finding')}.`
    if (call.values.json) call.stdout.json({ file, findings })
    else for (const line of [...told, verdict]) call.stdout.say(line)
    return found === 0 ? exitCodes.done : exitCodes.failed
  })
}

/** Valid as it stands: names are made of those of the fields, and codes without a text are comments. */
async function asDictionary(pool: Pool, views: readonly ViewMap[]): Promise<string> {
  const parts: string[] = [
    '# What the data means. Mend the names, give codes their texts, and set DICTIONARY to this file.',
  ]
  for (const { name, stream, columns } of views) {
    if (name !== stream) continue
    parts.push(`${name}:`, `  label: ${nameInWords(name)}`, '  fields:')
    for (const column of columns)
      if (column.field !== null && !column.isText) parts.push(...(await fieldLines(pool, name, column)))
  }
  return `${parts.join('\n')}\n`
}

async function fieldLines(pool: Pool, view: string, column: ColumnMap): Promise<readonly string[]> {
  const { field, label, unit, texts } = column
  const codes =
    ['bigint', 'text'].includes(column.type) && !column.isKey
      ? await readCodes(pool, view, column.name)
      : null
  const isFew = codes !== null && codes.length > 1 && codes.some(({ rows }) => rows > 1)
  return [
    `    ${scalar(field ?? '')}:`,
    `      label: ${scalar(label ?? nameInWords(column.name))}`,
    ...(unit ? [`      unit: ${scalar(unit)}`] : []),
    ...(isFew || texts ? valueLines(codes ?? [], texts ?? {}) : []),
  ]
}

function valueLines(
  occurring: readonly Occurring[],
  texts: Readonly<Record<string, string>>,
): readonly string[] {
  const rowsOf = new Map(occurring.map(({ code, rows }) => [code, rows]))
  const codes = [...new Set([...Object.keys(texts), ...rowsOf.keys()])].toSorted(
    (one, other) => Number(one) - Number(other) || (one < other ? -1 : 1),
  )
  const mark = Object.keys(texts).length === 0 ? '# ' : ''
  return [
    `      ${mark}values:`,
    ...codes.map((code) => {
      const rows = ` # ${count(rowsOf.get(code) ?? 0)} rows`
      return code in texts
        ? `        ${scalar(code)}: ${scalar(texts[code] ?? '')}${rows}`
        : `      #   ${scalar(code)}:${rows}`
    }),
  ]
}

/** `assignment_status_id` is `Assignment status`. */
const nameInWords = (name: string): string => capitalized(name.replace(/(?<=.)_id$/, '').replaceAll('_', ' '))

const scalar = (text: string): string =>
  /^[\p{L}\p{N}][\p{L}\p{N} _.,()/-]*(?<! )$/u.test(text) ? text : JSON.stringify(text)
