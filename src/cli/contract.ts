// `tidemark contract`: what the upstream says about itself, what of it the records contradict, and what of it changed.

import { ConfigError, sourceOfEnvironment } from '../config/environment.ts'
import { type Config, loadConfig } from '../config/load.ts'
import { openConfiguredUpstream } from '../configured.ts'
import { withRelated } from '../documents/document.ts'
import { changeText } from '../openapi/changes.ts'
import { type DescribedField, type RecordType, saidOf } from '../openapi/description.ts'
import { typesIn } from '../openapi/descriptions.ts'
import {
  type Difference,
  differenceInWords,
  differencesOf,
  isContradiction,
  readFieldsBeside,
} from '../openapi/differences.ts'
import { type ListOffered, listsOffered } from '../openapi/lists.ts'
import {
  type ChangeLine,
  readDescriptionChanges,
  readUnusableDescriptions,
  type StoredDescription,
  storedDescriptions,
  type UnusableDescription,
} from '../openapi/stored.ts'
import { addedStream, pickStreams } from '../streams/catalog.ts'
import { countRecords } from '../sync/lists/count-records.ts'
import { withPageEnds } from '../sync/lists/page-ends.ts'
import type { Upstream } from '../upstream/client.ts'
import { openSource } from '../upstream/stream-source.ts'
import { UsageError } from '../util/errors.ts'
import { count, plural } from '../util/text.ts'
import { type Call, type Command, flag, json, oneOf, option } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { readMirror } from './mirror.ts'
import { alignedTable, markdownTable, oneLine } from './output.ts'

export const contract: Command = {
  name: 'contract',
  summary: 'show the description that the upstream publishes, and where its records differ from it',
  usage: '[history | streams | stream…] [--diff] [--format text|markdown|json] [--json]',
  options: {
    diff: flag(
      'compare with the records: fields without a value, fields that are not described, other types',
    ),
    format: option('FORMAT', 'text (the default), markdown or json'),
    json,
  },
  examples: [
    'tidemark contract',
    'tidemark contract assignment --format markdown',
    'tidemark contract --diff',
    'tidemark contract history',
    'tidemark contract streams',
  ],
  async run(call) {
    const { positionals, values } = call
    const format = values.json ? 'json' : (oneOf(values, 'format', formats) ?? 'text')
    const [first, ...rest] = positionals
    if (first === 'history' || first === 'streams') {
      if (rest.length > 0 || values.diff)
        throw new UsageError(`\`tidemark contract ${first}\` takes --format only.`)
      if (first === 'streams') return await showLists(call, format)
      return await readMirror(call, async (pool) =>
        tell(
          call,
          format,
          historyTold(await readDescriptionChanges(pool, { limit: 1_000 }), call.stdout.plain),
        ),
      )
    }
    const wanted = pickStreams(positionals, withRelated(call.catalogue)).map(({ name }) => name)
    return await readMirror(call, async (pool) => {
      const descriptions = await storedDescriptions(pool, { source: sourceOfEnvironment(call.environment) })
      const types = typesIn(descriptions, call.catalogue)
      if (values.diff) {
        const differences = differencesOf(await readFieldsBeside(pool, wanted), types)
        tell(call, format, differencesTold(differences))
        return differences.some(isContradiction) ? exitCodes.failed : exitCodes.done
      }
      const unusable = await readUnusableDescriptions(pool)
      const isNamed = positionals.length > 0
      tell(call, format, descriptionTold({ descriptions, unusable, types, streams: wanted, isNamed }))
      return exitCodes.done
    })
  },
}

/** The lists that the upstream describes, counted as during a first load. */
async function showLists(call: Call, format: Format): Promise<ExitCode> {
  const { signal, environment, log } = call
  const config = configOrNull(environment)
  return await readMirror(call, async (pool) => {
    const [stored] = await storedDescriptions(pool, { source: sourceOfEnvironment(environment) })
    const lists = stored ? listsOffered(stored.description, call.catalogue, config?.related ?? []) : []
    const upstream = config && openConfiguredUpstream({ config, log }, 'assignment')
    try {
      const sized: Sized[] = []
      for (const one of lists)
        sized.push({ ...one, records: upstream && (await countList(upstream, one, signal)) })
      tell(call, format, listsTold(sized))
    } finally {
      upstream?.close()
    }
  })
}

function configOrNull(environment: Call['environment']): Config | null {
  try {
    return loadConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return null
    throw error
  }
}

/** Null: it cannot be counted. */
async function countList(
  upstream: Upstream,
  { type, path }: ListOffered,
  signal: AbortSignal,
): Promise<number | null> {
  const { source } = withPageEnds(openSource(upstream, addedStream({ name: type, path })))
  try {
    const counted = await countRecords(source, signal)
    if (counted !== null) return counted.records
    const { records } = await source.list({ page: 1, pageSize: 1 }, signal)
    // Without pages, or with an upstream that ignores them, this answer is all there is.
    return records.length > 1 || !source.listHasPages ? records.length : null
  } catch (error) {
    if (signal.aborted) throw error
    return null
  }
}

// ── as text, as Markdown and as JSON ─────────────────────────────────────────────────────────────────────────────

/** `records`: how many it has, where it hides none; null: that cannot be told. */
type Sized = ListOffered & { readonly records: number | null }

/** What was read, and whose records it describes. */
type Shown = {
  readonly descriptions: readonly StoredDescription[]
  readonly unusable: readonly UnusableDescription[]
  readonly types: ReadonlyMap<string, RecordType>
  /** Those that were asked for. */
  readonly streams: readonly string[]
  /** Each was named, so all of it is wanted. */
  readonly isNamed: boolean
}

const formats = ['text', 'markdown', 'json'] as const
type Format = (typeof formats)[number]

/** What is printed, in each format. */
type Told = {
  readonly json: unknown
  /** Said instead of text where there is nothing to tell. */
  readonly none: string | null
  readonly text: readonly string[]
  readonly markdown: readonly string[]
}

function tell({ stdout }: Call, format: Format, { json, none, ...told }: Told): void {
  if (format === 'json') stdout.json(json)
  else if (none !== null) stdout.say(none)
  else stdout.write(`${told[format].join('\n')}\n`)
}

const described = ({ streams, types }: Shown): readonly (readonly [string, RecordType])[] =>
  streams.flatMap((name) => {
    const type = types.get(name)
    return type ? [[name, type] as const] : []
  })

const moment = (time: Date): string => time.toISOString().slice(0, 16).replace('T', ' ')

function serviceLine({ service, location, description, lastReadAt }: StoredDescription): string {
  const { title, version, openApi, operations } = description
  const what = `${oneLine(title)}, version ${oneLine(version)} (OpenAPI ${openApi})`
  return `${service} service: ${what}, ${plural(operations.length, 'operation')}, read ${moment(lastReadAt)} from ${location}`
}

const serviceLines = ({ descriptions, unusable }: Shown): readonly string[] => [
  ...descriptions.map(serviceLine),
  ...unusable.map(({ service, problem }) => `${service} service: ${oneLine(problem)}`),
]

const nothingRead =
  'The upstream has not described itself here: `tidemark probe` says whether it does, `tidemark migrate` reads it.'

export const descriptionTold = (shown: Shown): Told => ({
  json: asJson(shown),
  none: shown.descriptions.length === 0 && shown.unusable.length === 0 ? nothingRead : null,
  text: asText(shown),
  markdown: asMarkdown(shown),
})

function asText(shown: Shown): readonly string[] {
  const width = Math.max(10, ...shown.streams.map((name) => name.length))
  const lines = described(shown).flatMap(([stream, type]) => [
    `  ${stream.padEnd(width)}  ${type.name}, ${plural(type.fields.length, 'field')}`,
    ...(shown.isNamed ? fieldLines(type.fields) : []),
  ])
  const others = shown.streams.filter((name) => !shown.types.has(name))
  return [
    ...serviceLines(shown),
    ...lines,
    ...(others.length > 0 ? [`  not described: ${others.join(', ')}`] : []),
    ...shown.descriptions.flatMap(({ description }) =>
      description.remarks.map((remark) => `! ${oneLine(remark)}`),
    ),
  ]
}

function fieldLines(fields: readonly DescribedField[]): readonly string[] {
  const width = Math.max(...fields.map(({ name }) => name.length), 0)
  return fields.map((field) => {
    const words = field.describe === null ? '' : `  ${oneLine(field.describe)}`
    return `    ${oneLine(field.name).padEnd(width)}  ${oneLine(saidOf(field))}${words}`
  })
}

/** Escapes a cell, so that nothing in it is Markdown. */
const cell = (text: string): string => oneLine(text).replaceAll(/[\\`*{}[\]<>#+!|~&]/g, '\\$&')

function asMarkdown(shown: Shown): readonly string[] {
  const parts = described(shown).flatMap(([stream, { name, describe, fields }]) => [
    ...[`## ${stream}`, '', `${cell(name)}${describe === null ? '' : `: ${cell(describe)}`}`, ''],
    ...markdownTable(
      ['field', 'what it is', 'what it means'],
      fields.map((field) => [cell(field.name), cell(saidOf(field)), cell(field.describe ?? '')]),
    ),
    '',
  ])
  return [...serviceLines(shown).map((line) => `- ${cell(line)}`), '', ...parts]
}

const asJson = (shown: Shown) => ({
  services: shown.descriptions.map(({ service, location, description, firstReadAt, lastReadAt }) => ({
    service,
    location,
    title: description.title,
    version: description.version,
    openapi: description.openApi,
    first_read_at: firstReadAt,
    last_read_at: lastReadAt,
    remarks: description.remarks,
    operations: description.operations.map(({ method, path, summary, takes, answers }) => ({
      method,
      path,
      summary,
      takes,
      answers,
    })),
  })),
  unusable: shown.unusable,
  streams: shown.streams.map((stream) => {
    const type = shown.types.get(stream)
    return { stream, type: type?.name ?? null, fields: (type?.fields ?? []).map(fieldAsJson) }
  }),
})

const fieldAsJson = ({ name, says, isNullable, isRequired, bounds, values, describe }: DescribedField) => ({
  name,
  says,
  nullable: isNullable,
  required: isRequired,
  bounds,
  values,
  description: describe,
})

const differenceText = (one: Difference): string => oneLine(differenceInWords(one))

const differencesTold = (differences: readonly Difference[]): Told => ({
  json: { differences },
  none: differences.length === 0 ? 'All records match the description.' : null,
  text: differences.map((one) => `${one.stream}.${oneLine(one.field)}: ${differenceText(one)}`),
  markdown: markdownTable(
    ['stream', 'field', 'difference'],
    differences.map((one) => [one.stream, cell(one.field), cell(differenceText(one))]),
  ),
})

function historyTold(changes: readonly ChangeLine[], plain: (text: string) => string): Told {
  const lines = changes.map((change) => {
    const stream = change.stream === null ? '' : ` ${change.stream}:`
    return plain(`${moment(change.foundAt)}${stream} ${changeText(change)}`)
  })
  return {
    json: { changes },
    none: changes.length === 0 ? 'The description has not changed so far.' : null,
    text: lines,
    markdown: lines.map((line) => `- ${line}`),
  }
}

function listsTold(lists: readonly Sized[]): Told {
  const rows = lists.map(({ path, type, hasChanges, stream, setting, records }) => [
    path,
    type,
    hasChanges ? 'changes' : 'whole list',
    records === null ? 'size not known' : count(records),
    stream === null ? (setting === null ? '' : `STREAMS=…,${setting}`) : `mirrored as ${stream}`,
  ])
  const head = ['list', 'records', 'read by', 'about how many', 'to mirror it']
  return {
    json: { lists: lists.map(({ records, ...one }) => ({ ...one, records: sizeJson(records) })) },
    none: lists.length === 0 ? 'The description of the upstream names no list: `tidemark contract`.' : null,
    text: [alignedTable(head, rows)],
    markdown: markdownTable(head, rows),
  }
}

/** At least `from` and fewer than `below`. */
const sizeJson = (records: number | null) => (records === null ? null : { from: records, below: records + 1 })
