// Settings as people see them, in the terminal and on pages: facts, which others put into words. No secret is among them (P9).

import { keyIn, sourceIn } from './names.ts'

/** What somebody set while workers ran. */
export type Override = { readonly name: string; readonly value: string }
export type StoredOverride = Override & { readonly by: string; readonly at: Date }

/** A value, as far as it may be shown: of a secret only that it is set. */
export type Layer = {
  readonly value: string
  readonly source: 'override' | 'environment' | '.env' | 'SOURCES_FILE' | 'demo' | 'file' | 'default'
  /** The file that NAME_FILE names. */
  readonly file: string | null
}
/** With the value that holds. */
export type Setting = Layer & {
  readonly name: string
  /** What would hold instead, the first if nothing else changes; the last is what holds when nothing is set. */
  readonly beneath: readonly Layer[]
  readonly override: StoredOverride | null
  /** It can be changed while workers run. */
  readonly isDynamic: boolean
  readonly isSecret: boolean
  readonly meaning: string
  /** How its value is written. */
  readonly form: string
  /** The title of the part of the manual that it is in. */
  readonly group: string
  /** Null where it is not for a single stream. */
  readonly stream: string | null
  /** What is wrong with it. */
  readonly problem: string | null
  /** It is ignored, because that variable is not set. */
  readonly lacks: string | null
}
export type UnknownSetting = {
  readonly name: string
  readonly source: Layer['source']
  /** The setting that it is near to. */
  readonly meant: string | null
}
export type Settings = {
  /** Whose they are; empty: of the source that the environment describes, and of the whole deployment. */
  readonly source: string
  readonly settings: readonly Setting[]
  /** Variables that no setting has the name of: all of `.env`, and those of the environment that are near to one. */
  readonly unknown: readonly UnknownSetting[]
}

/** What a program knows of its settings, and of how they may be changed. */
export type SettingRules = {
  /** What is wrong with an override, in one line; null: nothing. */
  problemOf(override: Override): string | null
  shown(overrides: readonly StoredOverride[]): Settings
}

/** Those of one source, by the names that they have there: what Postgres has as `acme.PAGE_SIZE` is its `PAGE_SIZE`. */
export const overridesOf = <One extends Override>(all: readonly One[], source: string): readonly One[] =>
  all
    .filter(({ name }) => sourceIn(name) === source)
    .map((one) => ({ ...one, name: one.name.slice(keyIn(source, '').length) }))

export const sourceInWords = ({ source, file }: Pick<Layer, 'source' | 'file'>): string =>
  source === 'demo' ? 'the demo' : source === 'file' ? `file ${file}` : source

/** What is to be said of it besides its value; null: nothing. */
export const remarkOn = ({ problem, lacks }: Setting): string | null =>
  problem ?? (lacks === null ? null : `is ignored: ${lacks} is not set`)

export const unknownInWords = ({ name, source, meant }: UnknownSetting): string =>
  `${name} (${source}) is no setting of Tidemark${meant === null ? '' : `: did you mean ${meant}?`}`

/** `1000 (default)` */
export const layerInWords = (layer: Layer): string => `${layer.value} (${sourceInWords(layer)})`

const forAll = [
  'STALE_AFTER',
  'DELETIONS_FROZEN_AFTER',
  'PAGE_SIZE',
  'REQUESTS_PER_SECOND',
  'SOURCE_TIMEZONE',
  'HISTORY',
]
const forChanges = ['LOOKBACK', 'SCHEDULE_RECONCILE', 'SCHEDULE_DELETIONS']

/** Those by which a stream is read, its own first. */
export function settingsOfStream(
  { settings }: Settings,
  { name, kind }: { readonly name: string; readonly kind: string },
): readonly Setting[] {
  const names = kind === 'changes' ? [...forAll, ...forChanges] : forAll
  const own = settings.filter(({ stream }) => stream === name)
  return [...own, ...settings.filter((one) => one.stream === null && names.includes(one.name))]
}
