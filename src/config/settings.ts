// What is set, for people: every variable with its value, where that comes from, and what is ignored. Secrets are masked (P9).

import { readFileSync } from 'node:fs'
import { redact } from '../log.ts'
import { type Catalogue, catalogueOf } from '../streams/catalog.ts'
import { sourceIn } from '../streams/names.ts'
import type {
  Layer,
  Setting,
  SettingRules,
  Settings,
  StoredOverride,
  UnknownSetting,
} from '../streams/settings.ts'
import { withOneHost } from '../util/redis-url.ts'
import { isDynamic, problemIn } from './dynamic-settings.ts'
import {
  type Environment,
  type Origin,
  originsOf,
  readDotEnv,
  readVariable,
  sourceOfEnvironment,
  webhookMasterVariable,
} from './environment.ts'
import { everyMisspelt, isKnown, knownNames } from './misspelt.ts'
import { readOne } from './reader.ts'
import { readAddedStreams, variablesOfStreams } from './stream-variables.ts'
import type { Variable } from './variable.ts'
import { isOfSource, variableGroups } from './variables.ts'

const groupOfStreams = 'For single streams'

export type SettingsOf = (catalogue?: Catalogue, overrides?: readonly StoredOverride[]) => Settings

/** The places are looked at once. Usual schedules are those of the streams that are given. */
export function readSettings(environment: Environment, dotEnv: Environment = readDotEnv()): SettingsOf {
  const source = sourceOfEnvironment(environment)
  const given = { environment, dotEnv, originOf: originIn(environment, dotEnv) }
  return (catalogue = catalogueOf(readAddedStreams(environment), undefined, source), overrides = []) => {
    // Variables of the streams of other sources have the same names.
    const streams = catalogue.filter(({ name }) => sourceIn(name) === source)
    const groups = [...variableGroups, [groupOfStreams, variablesOfStreams(streams)]] as const
    const settings = groups.flatMap(([group, table]) =>
      Object.entries(table).flatMap(([name, variable]) =>
        source !== '' && !isOfSource(name)
          ? []
          : {
              ...settingOf(given, name, variable, overrides.find((one) => one.name === name) ?? null),
              group,
            },
      ),
    )
    const unknown = overrides.filter(({ name }) => !settings.some((one) => one.name === name))
    return {
      source,
      settings,
      unknown: [
        ...unknown.map(({ name }) => ({ name, source: 'override' as const, meant: null })),
        ...(source === '' ? unknownIn(given) : []),
      ],
    }
  }
}

/** By which settings may be changed while workers run. */
export const settingRules = (environment: Environment, catalogue?: Catalogue): SettingRules => ({
  problemOf: (override) => problemIn(environment, override),
  shown: (overrides) => readSettings(environment)(catalogue, overrides),
})

/** Of a named source, what each source has of its own comes from the file of sources alone. */
function originIn(environment: Environment, dotEnv: Environment): Given['originOf'] {
  const originOf = originsOf(environment, dotEnv)
  if (sourceOfEnvironment(environment) === '') return originOf
  return (name) => (isOfSource(name) && environment[name]?.trim() ? 'SOURCES_FILE' : originOf(name))
}

type Given = {
  readonly environment: Environment
  readonly dotEnv: Environment
  readonly originOf: (name: string) => Origin | null
}

function settingOf(
  given: Given,
  name: string,
  variable: Variable & { readonly stream?: string },
  override: StoredOverride | null,
): Omit<Setting, 'group'> {
  const { environment } = given
  const problems: string[] = []
  readOne(environment, name, variable, problems)
  const unusable = override && problemIn(environment, override)
  if (unusable) problems.push(`${override.value.slice(0, 100)} (override) is not used: ${unusable}`)
  const isUsed = override !== null && unusable === null
  const under = layersOf(given, name, variable)
  const overriding: Layer = { value: override?.value ?? '', source: 'override', file: null }
  const layers = isUsed ? [overriding, ...under] : under
  const [holds = fallbackOf(variable), ...beneath] = layers
  const { needs, describe, form, stream = null } = variable
  const isIgnored = needs !== undefined && holds.source !== 'default' && !isSet(environment, needs)
  return {
    ...holds,
    beneath,
    name,
    override,
    stream,
    meaning: describe,
    form,
    isSecret: variable.secret === true,
    isDynamic: isDynamic(name, stream),
    problem: problems.length === 0 ? null : redact(problems.join('; ')),
    lacks: isIgnored ? needs : null,
  }
}

const fallbackOf = ({ fallback }: Variable): Layer => ({
  value: fallback.replaceAll('`', ''),
  source: 'default',
  file: null,
})

/** The first holds. */
function layersOf(
  { environment, dotEnv, originOf }: Given,
  name: string,
  variable: Variable,
): readonly Layer[] {
  // In lower case it wins, for proxies alone.
  const names = name.endsWith('_PROXY') ? [name.toLowerCase(), name] : [name]
  const own = names.find((one) => environment[one]?.trim()) ?? name
  const file = environment[own]?.trim() ? null : environment[`${name}_FILE`]?.trim() || null
  const source: Layer['source'] | null = originOf(own) ?? (file === null ? null : 'file')
  const shownAs = (text: string) => shown(name, text, variable.secret === true)
  const under = source === 'environment' ? dotEnv[own]?.trim() : undefined
  const layers: Layer[] = []
  if (source !== null)
    layers.push({ source, file, value: shownAs(readVariable(environment, name, []) ?? '') })
  if (under) layers.push({ source: '.env', file: null, value: shownAs(under) })
  return layers.length > 0 && variable.fallback === 'required' ? layers : [...layers, fallbackOf(variable)]
}

const isSet = (environment: Environment, name: string): boolean =>
  [name, `${name}_FILE`, ...(name === 'WEBHOOK_SECRET' ? [webhookMasterVariable] : [])].some((one) =>
    environment[one]?.trim(),
  )

const dots = '••••••••'

/** Of a secret nothing but the place that its URL names. */
function shown(name: string, text: string, isSecret: boolean): string {
  if (!isSecret) return redact(text.replace(/(:\/\/[^\s?]*\?)\S*/, '$1…'))
  if (!/^(DATABASE_URL|REDIS_URL|\w+_PROXY)$/.test(name)) return dots
  const url = withOneHost(text)
  if (!URL.canParse(url)) return dots
  const { protocol, username, password, host, pathname } = new URL(url)
  const isNobody = username === '' && password === ''
  // An @ beside those is of a password with a sign that ends the name of a host.
  if (host === '' || (isNobody && text.includes('@')) || pathname.includes('@')) return dots
  const places = url === text ? host : /\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(text)?.[1]
  return `${protocol}//${isNobody ? '' : `${dots}@`}${places}${pathname}`
}

/** Files that settings name may say `env:NAME`. */
function namedInFiles(environment: Environment): readonly string[] {
  return ['SOURCES_FILE', 'ALERTS'].flatMap((setting) => {
    try {
      const text = readFileSync(environment[setting]?.trim() ?? '', 'utf8')
      return [...text.matchAll(/\benv:([A-Za-z_]\w*)/g)].map(([, name = '']) => name)
    } catch {
      // Whoever uses the file says what is wrong with it.
      return []
    }
  })
}

function unknownIn({ environment, dotEnv, originOf }: Given): readonly UnknownSetting[] {
  const misspelt = everyMisspelt(environment, dotEnv)
  const known = knownNames(environment)
  const named = namedInFiles(environment)
  const names = [...misspelt.map(({ name }) => name), ...Object.keys(dotEnv)]
  return [...new Set(names)].flatMap((name) => {
    const meant = misspelt.find((one) => one.name === name)?.meant ?? null
    const source = originOf(name)
    return source === null || isKnown(name, known) || named.includes(name) ? [] : [{ name, source, meant }]
  })
}
