// `tidemark contract`: what the upstream says about itself, what of it the records contradict, and what of it changed.

import { sourceOfEnvironment } from '../config/environment.ts'
import { typesIn } from '../openapi/descriptions.ts'
import { differencesOf, isContradiction, readFieldsBeside } from '../openapi/differences.ts'
import { readDescriptionChanges, readUnusableDescriptions, storedDescriptions } from '../openapi/stored.ts'
import { pickStreams, relatedBeside } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, flag, json, oneOf, option } from './command.ts'
import { descriptionTold, differencesTold, formats, historyTold, tell } from './contract-formats.ts'
import { showLists } from './contract-streams.ts'
import { type ExitCode, exitCodes, worst } from './exit.ts'
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
  run,
}

async function run(call: Call): Promise<ExitCode> {
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
  const wanted = pickStreams(positionals, [...call.catalogue, ...relatedBeside(call.catalogue)]).map(
    ({ name }) => name,
  )
  let code: ExitCode = exitCodes.done
  const read = await readMirror(call, async (pool) => {
    const descriptions = await storedDescriptions(pool, { source: sourceOfEnvironment(call.environment) })
    const types = typesIn(descriptions, call.catalogue)
    if (values.diff) {
      const differences = differencesOf(await readFieldsBeside(pool, wanted), types)
      if (differences.some(isContradiction)) code = exitCodes.failed
      return tell(call, format, differencesTold(differences))
    }
    const unusable = await readUnusableDescriptions(pool)
    const isNamed = positionals.length > 0
    tell(call, format, descriptionTold({ descriptions, unusable, types, streams: wanted, isNamed }))
  })
  return worst([read, code])
}
