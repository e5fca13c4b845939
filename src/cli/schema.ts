// `tidemark schema`: what is in the mirror, as a dictionary, a diagram or sources for dbt.

import type { Pool } from '../context.ts'
import { readSchemaMap, type ViewMap } from '../store/book/dictionary.ts'
import { confirmedReferences, type Reference, whatHolds } from '../store/book/references.ts'
import { type MirroredStream, pickStreams, relatedStreams } from '../streams/catalog.ts'
import { snakeCased } from '../util/text.ts'
import { type Call, type Command, json, oneOf, option } from './command.ts'
import type { ExitCode } from './exit.ts'
import { readMirror } from './mirror.ts'
import { asDbtSources, asMarkdown, asMermaid } from './schema-formats.ts'

type Print = (
  pool: Pool,
  views: readonly ViewMap[],
  references: readonly Reference[],
) => string | Promise<string>

const formatNames = ['markdown', 'mermaid', 'dbt'] as const
const formats: Readonly<Record<(typeof formatNames)[number], Print>> = {
  markdown: (_pool, views, references) => asMarkdown(views, references),
  mermaid: (_pool, views, references) => asMermaid(views, references),
  dbt: async (pool, views, references) => asDbtSources(views, await whatHolds(pool, views, references)),
}

export const schema: Command = {
  name: 'schema',
  summary: 'describe the tables: as a dictionary, a diagram, or sources for dbt',
  usage: '[stream…] [--format markdown|mermaid|dbt] [--json]',
  options: {
    format: option('FORMAT', 'markdown (the default), mermaid or dbt'),
    json,
  },
  examples: [
    'tidemark schema assignment',
    'tidemark schema --format mermaid > schema.mmd',
    'tidemark schema --format dbt > models/sources.yml',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const print = formats[oneOf(values, 'format', formatNames) ?? 'markdown']
  const known: readonly MirroredStream[] = [...call.catalogue, ...relatedStreams]
  const wanted = pickStreams(positionals, known)
  return await readMirror(call, async (pool) => {
    const all = await readSchemaMap(pool, known)
    const views = all.filter(({ stream }) => wanted.some(({ name }) => name === stream))
    const references = (await confirmedReferences(pool, all)).filter(({ from }) =>
      views.some(({ name }) => name === from),
    )
    if (values.json) stdout.json(asJson(views, references))
    else if (views.length === 0) stdout.say('Nothing is mirrored yet: `tidemark sync` reads the upstream.')
    else stdout.write(await print(pool, views, references))
  })
}

const asJson = (views: readonly ViewMap[], references: readonly Reference[]) =>
  views.map(({ name, columns, unplaced }) => ({
    view: `bi.${name}`,
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
