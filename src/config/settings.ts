// What is set, for people: every variable with its value, where that comes from, and what is ignored. Secrets are masked (P9).

import { redact } from '../log.ts'
import type { Catalogue } from '../streams/catalog.ts'
import type { Setting, Settings, UnknownSetting } from '../streams/settings.ts'
import { type Environment, type Origin, originsOf, readDotEnv, readVariable } from './environment.ts'
import { everyMisspelt, isKnown, knownNames } from './misspelt.ts'
import { readOne } from './reader.ts'
import { catalogueIn, variablesOfStreams } from './stream-variables.ts'
import type { Variable } from './variable.ts'
import { variableGroups } from './variables.ts'

const groupOfStreams = 'For single streams'

export type SettingsOf = (catalogue?: Catalogue) => Settings

/** The places are looked at once. Usual schedules are those of the streams that are given. */
export function readSettings(environment: Environment, dotEnv: Environment = readDotEnv()): SettingsOf {
  const originOf = originsOf(environment, dotEnv)
  return (catalogue = catalogueIn(environment)) => {
    const groups = [...variableGroups, [groupOfStreams, variablesOfStreams(catalogue)]] as const
    const settings = groups.flatMap(([group, table]) =>
      Object.entries(table).map(([name, variable]) => ({
        ...settingOf(environment, name, variable, originOf),
        group,
      })),
    )
    return { settings, unknown: unknownIn(environment, dotEnv, originOf) }
  }
}

function settingOf(
  environment: Environment,
  name: string,
  variable: Variable & { readonly stream?: string },
  originOf: (name: string) => Origin | null,
): Omit<Setting, 'group'> {
  const problems: string[] = []
  readOne(environment, name, variable, problems)
  // In lower case it wins, for proxies alone.
  const names = name.endsWith('_PROXY') ? [name.toLowerCase(), name] : [name]
  const own = names.find((one) => environment[one]?.trim()) ?? name
  const file = environment[own]?.trim() ? null : environment[`${name}_FILE`]?.trim() || null
  const source = originOf(own) ?? (file === null ? 'default' : 'file')
  const isSecret = variable.secret === true
  const text = readVariable(environment, name, []) ?? ''
  const { needs, describe } = variable
  const isIgnored = needs !== undefined && source !== 'default' && !isSet(environment, needs)
  return {
    ...{ name, source, file, isSecret, meaning: describe, stream: variable.stream ?? null },
    value: source === 'default' ? variable.fallback.replaceAll('`', '') : shown(name, text, isSecret),
    problem: problems.length === 0 ? null : redact(problems.join('; ')),
    lacks: isIgnored ? needs : null,
  }
}

const isSet = (environment: Environment, name: string): boolean =>
  [name, `${name}_FILE`].some((one) => environment[one]?.trim())

const dots = '••••••••'

/** Of a secret nothing but the place that its URL names. */
function shown(name: string, text: string, isSecret: boolean): string {
  if (!isSecret) return redact(text.replace(/(:\/\/[^\s?]*\?)\S*/, '$1…'))
  if (!/^(DATABASE_URL|REDIS_URL|\w+_PROXY)$/.test(name) || !URL.canParse(text)) return dots
  const { protocol, username, password, host, pathname } = new URL(text)
  const isNobody = username === '' && password === ''
  // An @ beside those is of a password with a sign that ends the name of a host.
  if (host === '' || (isNobody && text.includes('@')) || pathname.includes('@')) return dots
  return `${protocol}//${isNobody ? '' : `${dots}@`}${host}${pathname}`
}

function unknownIn(
  environment: Environment,
  dotEnv: Environment,
  originOf: (name: string) => Origin | null,
): readonly UnknownSetting[] {
  const misspelt = everyMisspelt(environment, dotEnv)
  const known = knownNames(environment)
  const names = [...misspelt.map(({ name }) => name), ...Object.keys(dotEnv)]
  return [...new Set(names)].flatMap((name) => {
    const meant = misspelt.find((one) => one.name === name)?.meant ?? null
    const source = originOf(name)
    return source === null || isKnown(name, known) ? [] : [{ name, source, meant }]
  })
}
