// Finds variables whose names are near to one of Tidemark and are none: otherwise they would be ignored in silence.

import { editDistance, nearest } from '../util/text.ts'
import { type Environment, readDotEnv } from './environment.ts'
import { catalogueIn, prefixesOfStreams, variablesOfStreams } from './stream-variables.ts'
import { variables } from './variables.ts'

export type Misspelt = { readonly name: string; readonly meant: string }

export const isKnown = (name: string, known: readonly string[]): boolean =>
  known.includes(name) ||
  known.includes(name.replace(/_FILE$/, '')) ||
  (/_proxy$/.test(name) && known.includes(name.toUpperCase()))

/** For whoever calls a command; those of single streams are told with all else that is wrong. */
export const misspeltWarnings = (environment: Environment, dotEnv = readDotEnv()): readonly string[] =>
  misspeltIn(environment, null, dotEnv).map(
    ({ name, meant }) => `${name} is set, and is no setting of Tidemark: did you mean ${meant}?`,
  )

/** Those that begin so, such as `SCHEDULE_`; without a prefix, those that are not meant for a single stream. */
export function misspeltIn(
  environment: Environment,
  prefix: string | null,
  dotEnv: Environment = {},
): readonly Misspelt[] {
  const isOfPrefix = (name: string) =>
    prefix === null ? !prefixesOfStreams.some((one) => name.startsWith(one)) : name.startsWith(prefix)
  const given = Object.keys(environment).filter((name) => isOfPrefix(name) && environment[name]?.trim())
  const known = given.length === 0 ? [] : knownNames(environment)
  return given.flatMap((name) => {
    if (isKnown(name, known)) return []
    const [, bare = '', file = ''] = /^(.*?)(_FILE)?$/.exec(name) ?? []
    const meant = prefix === null ? nearestName(bare, known) : nearestOf(prefix, bare, known)
    const isSet = meant !== null && [meant, `${meant}_FILE`].some((one) => environment[one]?.trim())
    // A variable of another program may be near to one that is set as well, such as APP_KEY to API_KEY; what is in .env is for Tidemark.
    const isOfOthers = isSet && prefix === null && dotEnv[name] === undefined
    return meant === null || isOfOthers ? [] : [{ name, meant: `${meant}${file}` }]
  })
}

export const everyMisspelt = (environment: Environment, dotEnv: Environment): readonly Misspelt[] =>
  [null, ...prefixesOfStreams].flatMap((prefix) => misspeltIn(environment, prefix, dotEnv))

export const knownNames = (environment: Environment): readonly string[] => [
  ...Object.keys(variables),
  ...Object.keys(variablesOfStreams(catalogueIn(environment))),
]

function nearestOf(prefix: string, name: string, known: readonly string[]): string | null {
  const words = known.flatMap((one) => (one.startsWith(prefix) ? one.slice(prefix.length) : []))
  const word = name.slice(prefix.length)
  // KEY_USER is another program's, though "user" is near to "customer": who errs rarely errs at the beginning.
  const near = nearest(word, words, words.length).find((one) => one.slice(0, 2) === word.slice(0, 2))
  return near === undefined ? null : `${prefix}${near}`
}

const leastForTwo = 7

function nearestName(name: string, known: readonly string[]): string | null {
  const word = name.toUpperCase().replace(/^TIDEMARK_/, '')
  const near = known.flatMap((one) => {
    const distance = editDistance(word, one)
    const most = one.length < leastForTwo ? 1 : 2
    return distance <= most && one[0] === word[0] ? [{ one, distance }] : []
  })
  return near.toSorted((a, b) => a.distance - b.distance)[0]?.one ?? null
}
