// The file of sources, judged: each source is an environment of its own, whose keys are the variables in lower case. A file with mistakes says
// nothing.

import { createHash } from 'node:crypto'
import { environmentSource, mostInUnion } from '../streams/names.ts'
import type { Environment } from './environment.ts'
import { ConfigError, readVariable, unsetPlaceOf, webhookMasterVariable } from './environment.ts'
import { loadConfig } from './load.ts'
import { environmentOf } from './of-source.ts'
import {
  asVariables,
  type File,
  type NamedSource,
  parseSourcesYaml,
  type SourceSettings,
  withFrom,
} from './sources-yaml.ts'
import { catalogueIn, variablesOfStreams } from './stream-variables.ts'
import type { Variable } from './variable.ts'
import { isOfSource, sourceVariables } from './variables.ts'
import { FileError, notKnown, readYamlFile } from './yaml-file.ts'

const secretNames = [
  ...['API_KEY', 'TRACKING_API_KEY', 'MASK_KEY', 'WEBHOOK_SECRET', 'WEBHOOK_SIGNING_SECRET'],
]

export type SourcesFile = {
  readonly file: string
  /** A file with a lower number than one that was applied before is refused. */
  readonly generation: number
  readonly sources: ReadonlyMap<string, NamedSource>
  /** The sources of each group of views. */
  readonly unions: ReadonlyMap<string, readonly string[]>
}

const mostSources = 1_000
const namePattern = /^[a-z][a-z0-9_]{0,23}$/
const takenNames = [
  ...['mirror', 'bi', 'tidemark', 'bullmq', 'public', 'fleet', 'information_schema', environmentSource],
]

/** Why a source cannot be called that; null: it can. A name is for ever: it is that of schemas. */
export function whyNotNamed(name: string): string | null {
  if (!namePattern.test(name))
    return 'is no name for a source: use up to 24 letters in lower case, digits and _, and begin with a letter'
  if (takenNames.includes(name) || /^(?:pg|fleet)_/.test(name))
    return 'is a name that Postgres or Tidemark uses'
  return /_(?:mirror|past)$/.test(name) ? 'ends like the schemas of another source' : null
}

export const readSourcesFile = (file: string, environment: Environment): SourcesFile =>
  parseSourcesFile(file, readYamlFile(file), environment)

/** `environment`: that of the process, whose settings for all sources count. */
export function parseSourcesFile(file: string, bytes: Uint8Array, environment: Environment): SourcesFile {
  const parsed = parseSourcesYaml(file, bytes)
  const { generation = 0, defaults, sources } = parsed.value
  const names = Object.keys(sources)
  if (names.length > mostSources)
    parsed.complain(
      ['sources'],
      `names ${names.length} sources, and a deployment serves up to ${mostSources}`,
    )
  parsed.finish()
  expectKeys(parsed, ['defaults'], Object.keys(defaults), Object.keys(keysOf(environment)))
  const read = new Map(
    names.map((name): [string, NamedSource] => {
      const why = whyNotNamed(name)
      if (why !== null) parsed.complain(['sources', name], why)
      const given = withFrom(parsed, sources, name)
      return [
        name,
        { settings: { ...asVariables(defaults), ...asVariables(given.settings) }, tags: given.tags },
      ]
    }),
  )
  parsed.finish()
  expectSources(parsed, environment, read)
  expectDifferent(parsed, environment, read)
  const unions = new Map(
    Object.keys(parsed.value.unions).map((name) => [name, unionMembers(parsed, name, read)]),
  )
  parsed.finish()
  return { file, generation, sources: read, unions }
}

const unionPattern = /^[a-z][a-z0-9_]{0,23}$/
/** By their tags, by their names, or both. */
function unionMembers(
  { value, complain }: File,
  name: string,
  known: SourcesFile['sources'],
): readonly string[] {
  const { tags: wanted = [], sources: named = [] } = value.unions[name] ?? {}
  const names = [...known.keys(), environmentSource]
  if (!unionPattern.test(name))
    complain(
      ['unions', name],
      'is no name for a group: use up to 24 letters in lower case, digits and _, and begin with a letter',
    )
  for (const [index, one] of named.entries())
    if (!names.includes(one))
      complain(['unions', name, 'sources', index], `is ${notKnown('source', one, names)}`)
  const tagged = [...known].flatMap(([source, { tags: own }]) =>
    own.some((one) => wanted.includes(one)) ? [source] : [],
  )
  const members = [...new Set([...named, ...tagged])].toSorted()
  if (members.length === 0) complain(['unions', name], 'has no source: no source has one of its tags')
  if (members.length > mostInUnion)
    complain(
      ['unions', name],
      `has ${members.length} sources, and a view over sources has at most ${mostInUnion}`,
    )
  return members
}

/** By the key in the file. */
const keysOf = (environment: Environment): Readonly<Record<string, Variable>> =>
  Object.fromEntries(
    Object.entries({ ...sourceVariables, ...variablesOfStreams(catalogueIn(environment)) }).map(
      ([name, variable]) => [name.toLowerCase(), variable],
    ),
  )

function expectKeys(
  { complain }: File,
  path: readonly string[],
  keys: readonly string[],
  known: readonly string[],
): void {
  for (const key of keys)
    if (!known.includes(key)) complain([...path, key], `is ${notKnown('setting', key, known)}`)
}

const secretForm = /^(?:env:[A-Za-z_]\w*|file:\S.*)$/

/** A mistake in the defaults is that of every source that goes by them: it is told once. */
function expectSources(parsed: File, environment: Environment, sources: SourcesFile['sources']): void {
  const mistakes: { source: string; path: Parameters<File['complain']>[0]; problem: string }[] = []
  for (const [source, { settings }] of sources) {
    const complain: File['complain'] = (path, problem) => mistakes.push({ source, path, problem })
    expectSource({ ...parsed, complain }, environment, source, settings)
  }
  const alike = Map.groupBy(mistakes, ({ path, problem }) => JSON.stringify([path, problem]))
  for (const [first, ...others] of alike.values()) {
    if (!first) continue
    const { path, problem } = first
    const named = new Set([first, ...others].map(({ source }) => source))
    const isOfSome = path[0] === 'defaults' && named.size < goingByDefault(parsed, sources, path[1])
    parsed.complain(path, isOfSome ? `${problem} (in ${fewOf([...named])})` : problem)
  }
}

/** How many sources have the value that the defaults give this setting. */
function goingByDefault({ value }: File, sources: SourcesFile['sources'], key: string | number = ''): number {
  const variable = String(key).toUpperCase()
  const given = asVariables(value.defaults)[variable]
  return [...sources.values()].filter(({ settings }) => settings[variable] === given).length
}

const mostNamed = 5
const fewOf = (names: readonly string[]): string =>
  `${names.slice(0, mostNamed).join(', ')}${names.length > mostNamed ? ` and ${names.length - mostNamed} more` : ''}`

/** The same checks as for an environment. Whether a secret is there is another question: it may be there on another worker. */
function expectSource(parsed: File, environment: Environment, name: string, settings: SourceSettings): void {
  const given = parsed.value.sources[name] ?? {}
  const place = (key: string) =>
    key in given
      ? ['sources', name, key]
      : key in parsed.value.defaults
        ? ['defaults', key]
        : ['sources', name]
  const own = Object.keys(given).filter((key) => key !== 'from' && key !== 'tags')
  expectKeys(parsed, ['sources', name], own, Object.keys(keysOf(settings)))
  const shown: Record<string, string> = { ...settings }
  for (const secret of secretNames) {
    const value = settings[secret]
    if (value === undefined) continue
    if (!secretForm.test(value))
      parsed.complain(
        place(secret.toLowerCase()),
        'must be env:NAME or file:PATH: a secret does not stand in this file',
      )
    shown[secret] = placeholder
  }
  try {
    loadConfig(environmentOf(name, { ...processVariables(environment), ...shown }))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) {
      const [, variable = '', rest = problem] = /^([A-Z][A-Z_]+) (.*)$/s.exec(problem) ?? []
      const key = variable.toLowerCase()
      const isMissing = rest.startsWith('is not set')
      const path = place(key)
      const text =
        path.at(-1) === key ? rest : isMissing ? `lacks ${key}${rest.slice('is not set'.length)}` : problem
      parsed.complain(path, text)
    }
  }
}

/** Stands for a secret while the file is read. */
const placeholder = createHash('sha256').update('a secret of a source').digest('hex')

function expectDifferent(
  parsed: File,
  environment: Environment,
  sources: ReadonlyMap<string, NamedSource>,
): void {
  const identityOf = ({ ASSIGNMENT_BASE_URL: url = '', CLIENT_GUID: client = '' }: Environment) =>
    `${url.trim().replace(/\/$/, '')} ${client.trim()}`.toLowerCase()
  const seen = new Map([[identityOf(environment), 'the source that the environment describes']])
  for (const [name, { settings }] of sources) {
    const identity = identityOf(settings)
    const other = seen.get(identity)
    if (other !== undefined)
      parsed.complain(
        ['sources', name],
        `has the client_guid and the address of ${other}: its rows would be there twice`,
      )
    seen.set(identity, name)
  }
}

/** Said once, for the whole deployment. */
const ofEnvironmentOnly = ['SOURCES_FILE', 'PUBLIC_URL', 'ALERTS', 'WEBHOOK_REQUIRE_SIGNATURE']

const isOfOneSource = (name: string): boolean => {
  const bare = name === 'SOURCES_FILE' ? name : name.replace(/_FILE$/, '')
  return [bare, name].some(isOfSource) || ofEnvironmentOnly.includes(bare)
}

/** What the environment says for all sources: where Postgres is, and the way to the upstream. */
const processVariables = (environment: Environment): Environment =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !isOfOneSource(name)))

/** With the secrets that this process can read; those that it cannot are not set. */
export function environmentOfSource(
  environment: Environment,
  name: string,
  settings: SourceSettings,
): Environment {
  const own = Object.entries(settings).map(([variable, value]) => {
    if (!secretNames.includes(variable)) return [variable, value]
    return value.startsWith('file:')
      ? [`${variable}_FILE`, value.slice('file:'.length)]
      : [variable, environment[value.slice('env:'.length)]]
  })
  const unset = own.flatMap(([variable = '', value]) =>
    value === undefined ? [[unsetPlaceOf(variable), settings[variable]?.slice('env:'.length)]] : [],
  )
  const master = environment[webhookMasterVariable] ?? readVariable(environment, 'WEBHOOK_SECRET', [])
  return environmentOf(name, {
    ...processVariables(environment),
    [webhookMasterVariable]: master,
    ...Object.fromEntries([...own, ...unset]),
  })
}

/** The environment that `--source` names. */
export function environmentNamed(environment: Environment, name: string): Environment {
  const file = environment.SOURCES_FILE?.trim()
  if (!file)
    throw new ConfigError(`  --source ${name} needs SOURCES_FILE: the file that says which sources there are`)
  try {
    const { sources } = readSourcesFile(file, environment)
    const found = sources.get(name)
    if (found) return environmentOfSource(environment, name, found.settings)
    throw new ConfigError(`  --source ${name} is ${notKnown('source', name, [...sources.keys()])}`)
  } catch (error) {
    if (!(error instanceof FileError)) throw error
    throw new ConfigError(error.message.replaceAll(/^/gm, '  '), { cause: error })
  }
}
