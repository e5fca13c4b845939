// Settings that can be changed while workers run: what the environment says, and above it the overrides that Postgres holds. One parser
// reads both, so the same is allowed, and the same is said of what is not.

import { ownValue } from '../json/json.ts'
import type { Stream } from '../streams/catalog.ts'
import type { Override } from '../streams/settings.ts'
import { openDictionary } from './dictionary-in-use.ts'
import { type Environment, readVariable, sourceOfEnvironment } from './environment.ts'
import { everyMisspelt } from './misspelt.ts'
import { byName, type Schedule, schedule } from './parsers.ts'
import { openReader, type PerStream, type Reader, readOne } from './reader.ts'
import { catalogueIn, type StreamVariable, variableOf, variablesOfStreams } from './stream-variables.ts'
import { upstreamVariables } from './upstream-variables.ts'
import type { Values, Variable } from './variable.ts'
import { isOfSource, variables } from './variables.ts'
import { workerVariables } from './worker-variables.ts'

const { LOOKBACK, PAGE_SIZE, LOAD_CONNECTIONS, LOOKUPS_PER_MINUTE, REQUESTS_PER_SECOND } = upstreamVariables
const { SCHEDULE_RECONCILE, SCHEDULE_DELETIONS, STALE_AFTER, DELETIONS_FROZEN_AFTER } = workerVariables
const dynamicVariables = {
  LOOKBACK,
  PAGE_SIZE,
  LOAD_CONNECTIONS,
  LOOKUPS_PER_MINUTE,
  REQUESTS_PER_SECOND,
  SCHEDULE_RECONCILE,
  SCHEDULE_DELETIONS,
  STALE_AFTER,
  DELETIONS_FROZEN_AFTER,
}
/** The dictionary reads them. */
const histories: readonly string[] = ['HISTORY', 'TRACKER_HISTORY']
const families = [
  ...(['SCHEDULE', 'PAGE_SIZE', 'LOOKBACK'] as const),
  ...(['TARGET_READ', 'TARGET_SETTLED', 'TARGET_DELETIONS'] as const),
] satisfies readonly StreamVariable[]

type OfStreams = { readonly [Family in (typeof families)[number]]: PerStream<Family> }
export type DynamicValues = Values<typeof dynamicVariables> & {
  /** What is said of single streams. */
  readonly ofStreams: OfStreams
}
export type DynamicSettings = ReturnType<typeof openDynamicSettings>
type Overrides = Readonly<Record<string, string>>

/** Complains of what the environment says. */
export function openDynamicSettings(environment: Environment, reader: Reader) {
  let seen: Overrides = {}
  let held = { environment, values: valuesIn(environment, reader) }
  const problemOf = (override: Override) => problemIn(environment, override)
  return {
    /** As they are now: a run reads them when it begins. */
    now: () => held.values,
    /** The environment with the overrides that hold. */
    environment: () => held.environment,
    problemOf,
    /** Replaces the overrides that hold. Null: they are the same as before. One that cannot be used changes nothing. */
    takeUp(overrides: readonly Override[]) {
      const given = byName(overrides.map(({ name, value }) => [name, value]))
      if (JSON.stringify(given) === JSON.stringify(seen)) return null
      seen = given
      const judged = overrides.map((one) => ({ ...one, problem: problemOf(one) }))
      const usable = judged.filter(({ problem }) => problem === null)
      const layered = laidOver(environment, usable)
      held = { environment: layered, values: valuesIn(layered, openReader(layered)) }
      return {
        used: byName(usable.map(({ name, value }) => [name, value])),
        problems: judged.flatMap(({ problem }) => problem ?? []),
      }
    },
  }
}

/** What is read elsewhere, because it is the same as long as the program runs. */
export const withoutDynamic = <Table extends Record<string, Variable>>(table: Table) =>
  Object.fromEntries(Object.entries(table).filter(([name]) => !(name in dynamicVariables))) as Omit<
    Table,
    keyof typeof dynamicVariables
  >

const isOfFamily = (name: string, stream: string): boolean =>
  families.some((family) => variableOf(family, { name: stream }) === name)

/** Whether it can be changed while workers run. `stream`: the one that it is for. */
export const isDynamic = (name: string, stream: string | null): boolean =>
  stream === null ? name in dynamicVariables || histories.includes(name) : isOfFamily(name, stream)

function valuesIn(environment: Environment, { values, perStream }: Reader): DynamicValues {
  const isSet = (family: StreamVariable, name: string) =>
    readVariable(environment, variableOf(family, { name }), []) !== undefined
  const ofStreams = families.map((family) => [
    family,
    byName(Object.entries(perStream(family)).filter(([name]) => isSet(family, name))),
  ])
  return Object.freeze({ ...values(dynamicVariables), ofStreams: Object.fromEntries(ofStreams) as OfStreams })
}

/** A value that stood in a file is as if it had never been set. */
const laidOver = (environment: Environment, overrides: readonly Override[]): Environment => ({
  ...environment,
  ...Object.fromEntries(
    overrides.flatMap(({ name, value }) => [
      [`${name}_FILE`, undefined],
      [name, value],
    ]),
  ),
})

const longestValue = 2_000

/** What is wrong with an override, in one line; null: nothing. */
export function problemIn(environment: Environment, override: Override): string | null {
  const { name, value } = override
  const ofStreams = variablesOfStreams(catalogueIn(environment))
  const ofStream = ownValue(ofStreams, name)
  const variable = ownValue(variables, name) ?? ofStream
  if (variable === undefined) {
    const [near] = everyMisspelt({ [name]: 'x', STREAMS: environment.STREAMS }, {})
    return `${name.slice(0, 100)} is no setting of Tidemark${near ? `: did you mean ${near.meant}?` : whyNone(name)}`
  }
  const source = sourceOfEnvironment(environment)
  if (source !== '' && !isOfSource(name))
    return `${name} is the same for all sources: change it without ${source}`
  if (!isDynamic(name, ofStream?.stream ?? null))
    return `${name} cannot be changed while workers run: ${source === '' ? 'set it in the environment or in .env, and start all workers again' : `set it for ${source} in the file that SOURCES_FILE names`}${name === 'STREAMS' ? '. `tidemark pause` stops reading a stream at once' : ''}`
  if (value.trim() === '') return `${name} needs a value`
  if (value.length > longestValue) return `${name} has more than ${longestValue} characters`
  const layered = laidOver(environment, [override])
  const problems: string[] = []
  readOne(layered, name, variable, problems)
  if (problems.length === 0 && histories.includes(name)) problems.push(...newMistakes(environment, layered))
  return problems[0] ?? null
}

function whyNone(name: string): string {
  const family = families.find((one) => name.startsWith(`${one}_`))
  return family ? `: no stream ${name.slice(family.length + 1, 100).toLowerCase()} is configured` : ''
}

/** What the file that DICTIONARY names says otherwise. */
function newMistakes(before: Environment, after: Environment): readonly string[] {
  const mistakesIn = (environment: Environment) => {
    const mistakes: string[] = []
    openDictionary(() => environment, { ...openReader(environment), complain: (one) => mistakes.push(one) })
    return mistakes
  }
  const known = mistakesIn(before)
  return mistakesIn(after).filter((mistake) => !known.includes(mistake))
}

/** When a stream is read: as is said of it, or as its kind usually is. */
export const scheduleOf = (
  { ofStreams }: Pick<DynamicValues, 'ofStreams'>,
  { name, defaultSchedule }: Pick<Stream, 'name' | 'defaultSchedule'>,
): Schedule => ofStreams.SCHEDULE[name] ?? schedule(defaultSchedule).parse(undefined)

export const pageSizeOf = ({ ofStreams, pageSize }: DynamicValues, { name }: Pick<Stream, 'name'>): number =>
  ofStreams.PAGE_SIZE[name] ?? pageSize

/** How far back is read again at least. */
export const lookbackOf = (
  { ofStreams, lookbackMs }: DynamicValues,
  { name }: Pick<Stream, 'name'>,
): number => ofStreams.LOOKBACK[name] ?? lookbackMs
