// `tidemark contract`: what the upstream says about itself, what of it the records contradict, and what of it changed.

import { changeText } from '../openapi/changes.ts'
import { typesIn } from '../openapi/descriptions.ts'
import { type Difference, differencesOf, isContradiction, readFieldsBeside } from '../openapi/differences.ts'
import {
  type ChangeLine,
  readDescriptionChanges,
  readUnusableDescriptions,
  storedDescriptions,
} from '../openapi/stored.ts'
import { pickStreams, relatedStreams, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json } from './command.ts'
import {
  asJson,
  asMarkdown,
  asText,
  differencesAsMarkdown,
  differencesAsText,
  type Shown,
} from './contract-formats.ts'
import { showLists } from './contract-streams.ts'
import { type ExitCode, exitCodes, worst } from './exit.ts'
import { readMirror } from './mirror.ts'

const formats = ['text', 'markdown', 'json'] as const
type Format = (typeof formats)[number]

export const contract: Command = {
  name: 'contract',
  summary: 'show the description that the upstream publishes, and where its records differ from it',
  usage: '[history | streams | stream…] [--diff] [--format text|markdown|json] [--json]',
  options: {
    diff: {
      type: 'boolean',
      describe:
        'compare with the records: fields without a value, fields that are not described, other types',
    },
    format: { type: 'string', value: 'FORMAT', describe: 'text (the default), markdown or json' },
    json,
  },
  examples: [
    'tidemark contract',
    'tidemark contract assignment --format markdown',
    'tidemark contract --diff',
    'tidemark contract history',
    'tidemark contract streams',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { positionals, values } = call
  const format = formatOf(call)
  const [first, ...rest] = positionals
  if (first === 'history') {
    if (rest.length > 0 || values.diff)
      throw new UsageError('`tidemark contract history` takes --format only.')
    return await readMirror(call, async (pool) =>
      tellHistory(call, format, await readDescriptionChanges(pool, { limit: 1_000 })),
    )
  }
  const known = [...streams, ...relatedStreams]
  if (first === 'streams') {
    if (rest.length > 0 || values.diff)
      throw new UsageError('`tidemark contract streams` takes --format only.')
    return await showLists(call, format)
  }
  const wanted = pickStreams(positionals, known).map(({ name }) => name)
  let code: ExitCode = exitCodes.done
  const read = await readMirror(call, async (pool) => {
    const descriptions = await storedDescriptions(pool)
    const shown: Shown = {
      descriptions,
      unusable: await readUnusableDescriptions(pool),
      types: typesIn(descriptions),
      ...{ streams: wanted, isNamed: positionals.length > 0 },
    }
    if (!values.diff) return tell(call, format, shown)
    const differences = differencesOf(await readFieldsBeside(pool, wanted), shown.types)
    tellDifferences(call, format, differences)
    if (differences.some(isContradiction)) code = exitCodes.failed
  })
  return worst([read, code])
}

function formatOf({ values }: Call): Format {
  if (values.json) return 'json'
  const format = formats.find((one) => one === (values.format ?? 'text'))
  if (format) return format
  throw new UsageError(`--format must be one of ${formats.join(', ')}, not "${values.format}".`)
}

const nothingRead =
  'The upstream has not described itself here: `tidemark probe` says whether it does, `tidemark migrate` reads it.'

function tell({ stdout }: Call, format: Format, shown: Shown): void {
  if (format === 'json') stdout.json(asJson(shown))
  else if (shown.descriptions.length === 0 && shown.unusable.length === 0) stdout.say(nothingRead)
  else stdout.write(format === 'markdown' ? asMarkdown(shown) : asText(shown))
}

function tellDifferences({ stdout }: Call, format: Format, differences: readonly Difference[]): void {
  if (format === 'json') stdout.json({ differences })
  else if (differences.length === 0) stdout.say('All records match the description.')
  else
    stdout.write(format === 'markdown' ? differencesAsMarkdown(differences) : differencesAsText(differences))
}

function tellHistory({ stdout }: Call, format: Format, changes: readonly ChangeLine[]): void {
  if (format === 'json') stdout.json({ changes })
  else if (changes.length === 0) stdout.say('The description has not changed so far.')
  else for (const change of changes) stdout.say(`${format === 'markdown' ? '- ' : ''}${historyLine(change)}`)
}

function historyLine(change: ChangeLine): string {
  const stream = change.stream === null ? '' : ` ${change.stream}:`
  return `${change.foundAt.toISOString().slice(0, 16).replace('T', ' ')}${stream} ${changeText(change)}`
}
