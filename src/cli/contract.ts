// `tidemark contract`: what the upstream says about itself, what of it the records contradict, and what of it changed.

import { ConfigError, sourceOfEnvironment } from '../config/environment.ts'
import { type Config, loadConfig } from '../config/load.ts'
import { openConfiguredUpstream } from '../configured.ts'
import { withRelated } from '../documents/document.ts'
import { typesIn } from '../openapi/descriptions.ts'
import { differencesOf, isContradiction, readFieldsBeside } from '../openapi/differences.ts'
import { type ListOffered, listsOffered } from '../openapi/lists.ts'
import { readDescriptionChanges, readUnusableDescriptions, storedDescriptions } from '../openapi/stored.ts'
import { addedStream, pickStreams } from '../streams/catalog.ts'
import { countRecords } from '../sync/lists/count-records.ts'
import { withPageEnds } from '../sync/lists/page-ends.ts'
import type { Upstream } from '../upstream/client.ts'
import { openSource } from '../upstream/stream-source.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, flag, json, oneOf, option } from './command.ts'
import {
  descriptionTold,
  differencesTold,
  type Format,
  formats,
  historyTold,
  listsTold,
  type Sized,
  tell,
} from './contract-formats.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { readMirror } from './mirror.ts'

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
