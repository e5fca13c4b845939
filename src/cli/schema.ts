// `tidemark schema`: what is in the mirror, as a dictionary, or as files for the tools that read it.

import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sourceOfEnvironment } from '../config/environment.ts'
import { loadMirrorConfig } from '../config/load.ts'
import type { Pool } from '../context.ts'
import { readSchemaMap, type ViewMap } from '../store/book/dictionary.ts'
import { readOverrides } from '../store/book/overrides.ts'
import { confirmedReferences, type Reference } from '../store/book/references.ts'
import { type MirroredStream, pickStreams, relatedBeside } from '../streams/catalog.ts'
import { viewName } from '../streams/names.ts'
import { UsageError } from '../util/errors.ts'
import { asUnwritable, makeFolder } from '../util/files.ts'
import { readPostgresUrl } from '../util/postgres-url.ts'
import { plural, snakeCased } from '../util/text.ts'
import { type Call, type Command, flag, json, oneOf, option, textOf } from './command.ts'
import type { ExitCode } from './exit.ts'
import { asDbt } from './exports/dbt.ts'
import { type Facts, type Files, factsOf } from './exports/facts.ts'
import { asMarkdown } from './exports/markdown-dictionary.ts'
import { asPbids, asPowerBi } from './exports/powerbi.ts'
import { asSuperset } from './exports/superset.ts'
import { readMirror } from './mirror.ts'
import { asDictionary, checkDictionary } from './schema-dictionary.ts'

const exportNames = ['dbt', 'superset', 'powerbi', 'pbids'] as const

/** Made of facts alone, so that equal schemas give equal files. */
const exporters: Readonly<Record<(typeof exportNames)[number], (facts: Facts) => Files>> = {
  dbt: asDbt,
  superset: asSuperset,
  powerbi: asPowerBi,
  pbids: asPbids,
}
/** To be read as they are. */
const printers: Readonly<Record<'markdown' | 'dictionary', (pool: Pool, of: Shown) => Promise<string>>> = {
  markdown: async (_, { views, references }) => asMarkdown(views, references),
  dictionary: (pool, { views }) => asDictionary(pool, views),
}
type Shown = { readonly views: readonly ViewMap[]; readonly references: readonly Reference[] }
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
  run,
}

async function run(call: Call): Promise<ExitCode> {
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
  const known: readonly MirroredStream[] = [...call.catalogue, ...relatedBeside(call.catalogue)]
  const wanted = pickStreams(positionals, known)
  return await readMirror(call, async (pool) => {
    const all = await readSchemaMap(pool, known)
    const views = all.filter(({ stream }) => wanted.some(({ name }) => name === stream))
    const references = (await confirmedReferences(pool, all)).filter(({ from }) =>
      views.some(({ name }) => name === from),
    )
    if (values.json) return stdout.json(asJson(views, references))
    if (views.length === 0) return stdout.say('Nothing is mirrored yet: `tidemark sync` reads the upstream.')
    if (isPrinted) return stdout.write(await printers[format](pool, { views, references }))
    if (folder === null) return
    const overrides = await readOverrides(pool, source)
    const facts = factsOf(call, { views, references, overrides, address: await readAddress(call, pool) })
    const written = await writeFiles(folder, exporters[format](facts))
    stdout.say(`Wrote ${plural(written, 'file')} to ${folder}.`)
  })
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
