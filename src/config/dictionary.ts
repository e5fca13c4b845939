// The file that says what the data means: YAML in, a `Dictionary` out. Which stream can have which setting, and which fields have to land
// as they are.

import { type Catalogue, type MirroredStream, relatedStreams } from '../streams/catalog.ts'
import {
  type Dictionary,
  type FieldMeaning,
  foldField,
  nothingSaid,
  type StreamMeaning,
} from '../streams/dictionary.ts'
import { keyParts } from '../streams/record.ts'
import {
  type FieldSettings,
  fieldSettings,
  fileSettings,
  type StreamSettings,
  streamSettings,
} from './dictionary-settings.ts'
import { keyFieldsIn } from './parsers.ts'
import { notKnown, parseYamlFile } from './yaml-file.ts'

/** What is said of single streams and fields without the file. */
export type FromVariables = {
  readonly chosen: Dictionary
  /** How long histories are kept of which nobody says anything else, by the name of the stream. */
  readonly usualHistories: ReadonlyMap<string, number>
}
export const noVariables: FromVariables = { chosen: new Map(), usualHistories: new Map() }

export function parseDictionary(
  file: string,
  bytes: Uint8Array,
  variables: FromVariables,
  catalogue: Catalogue,
): Dictionary {
  const knownAt = (path: readonly unknown[]) =>
    Object.keys((path.length === 1 ? streamSettings : fieldSettings).shape)
  const { value, names, complain, lineAt, finish } = parseYamlFile(file, bytes, {
    schema: fileSettings,
    knownAt,
  })
  const streams = [...catalogue, ...relatedStreams]
  const known = [...new Set(streams.map(({ name }) => name))]
  for (const name of names)
    if (!known.includes(name)) complain([name], `is ${notKnown('stream', name, known)}`)
  const dictionary = meaningIn(value ?? {}, variables, { streams, complain, lineAt })
  finish()
  return dictionary
}

type Context = {
  readonly streams: readonly MirroredStream[]
  readonly complain: (path: readonly string[], problem: string) => void
  readonly lineAt: (path: readonly string[]) => number
}

function meaningIn(
  file: Readonly<Record<string, StreamSettings>>,
  { chosen, usualHistories }: FromVariables,
  { streams, complain, lineAt }: Context,
): Dictionary {
  const names = new Set([...Object.keys(file), ...chosen.keys(), ...usualHistories.keys()])
  return new Map(
    [...names].flatMap((name) => {
      const stream = streams.find((one) => one.name === name)
      if (!stream) return []
      const within: Context = {
        streams,
        complain: (path, problem) => complain([name, ...path], problem),
        lineAt: (path) => lineAt([name, ...path]),
      }
      const variables = chosen.get(name) ?? nothingSaid
      const meaning = streamMeaning(stream, file[name] ?? {}, variables, within)
      const historyMs = meaning.historyMs ?? usualHistories.get(name) ?? null
      return [[name, { ...meaning, historyMs }] as const]
    }),
  )
}

function streamMeaning(
  stream: MirroredStream,
  settings: StreamSettings,
  variables: StreamMeaning,
  context: Context,
): StreamMeaning {
  const { complain } = context
  const isByVersion = stream.kind === 'changes' || ('isAdded' in stream && stream.isAdded)
  for (const setting of ['version', 'volatile'] as const)
    if (settings[setting] !== undefined && !isByVersion)
      complain([setting], 'cannot be set: the stream is not read by row version')
  if (settings.key !== undefined && stream.kind === 'changes' && !stream.isAdded)
    complain(['key'], `cannot be set: it is always ${stream.keyFields.join(', ')}`)
  const { label = null, description = null } = settings
  const own = ownMeaning(settings)
  const either = <Value>(setting: string, value: Value | null, other: Value | null): Value | null => {
    if (value !== null && other !== null && String(value) !== String(other))
      complain([setting], `differs from ${variableFor(setting, stream)}: remove one of them`)
    return value ?? other
  }
  const meaning: StreamMeaning = {
    label,
    description,
    key: either('key', own.key, variables.key),
    version: either('version', own.version, variables.version),
    volatile: either('volatile', own.volatile, variables.volatile),
    historyMs: either('history', own.historyMs, variables.historyMs),
    fields: fieldMeanings(settings.fields ?? {}, variables.fields, context),
  }
  for (const field of meaning.fields.values()) {
    const doing = field.omit ? 'omit' : field.mask === null ? null : 'mask'
    const need = doing && whyNeeded(stream, meaning, field)
    if (doing && need) complain(['fields', field.name, doing], `cannot be set: the field ${need}`)
  }
  return meaning
}

const ownMeaning = ({ key, version, volatile, history }: StreamSettings) => ({
  key: key === undefined ? null : keyFieldsIn(key),
  version: version ?? null,
  volatile: volatile?.map((name) => name.toLowerCase()).filter((name) => name !== 'none') ?? null,
  historyMs: history ?? null,
})

const variableFor = (setting: string, { name }: Pick<MirroredStream, 'name'>): string =>
  setting === 'history' ? 'HISTORY or TRACKER_HISTORY' : `${setting.toUpperCase()}_${name.toUpperCase()}`

/** Why the values of a field have to land as they are; null: nothing rests on them. */
function whyNeeded(
  stream: MirroredStream,
  { key, version }: Pick<StreamMeaning, 'key' | 'version'>,
  { name }: FieldMeaning,
): string | null {
  const isIn = (fields: readonly string[]) => fields.some((one) => foldField(one) === foldField(name))
  const candidates = stream.keyFields.flatMap(keyParts)
  if (isIn(key === null ? candidates : keyParts(key)))
    return key === null && candidates.length > 1
      ? 'may be the key: name the key with key'
      : 'is, or is part of, the key'
  if (isIn(version === null && stream.kind === 'changes' ? stream.versionFields : [version ?? '']))
    return 'holds the row version'
  if (stream.name === 'webhook_subscription') return 'is one by which the worker knows its own subscription'
  if (isIn(['SysDeleted'])) return 'says whether the record is deleted'
  const related = stream.name === 'assignment' && relatedStreams.find(({ group }) => isIn([group]))
  if (related) return `holds the records of ${related.name}: set it for the fields of ${related.name}`
  const isBytes =
    stream.kind === 'related' &&
    relatedStreams.some(({ group, bulkField }) => group === stream.group && isIn([bulkField ?? '']))
  if (isBytes) return 'holds the bytes of files, which ATTACHMENT_DATA=false leaves out'
  if (stream.kind === 'related' && stream.belongsTo === 'one' && isIn(['AssignmentId']))
    return 'says which assignment the record belongs to'
  return null
}

function fieldMeanings(
  settings: Readonly<Record<string, FieldSettings>>,
  variables: StreamMeaning['fields'],
  { streams, complain, lineAt }: Context,
): StreamMeaning['fields'] {
  const meanings = new Map(variables)
  const names = [...new Set(streams.map(({ name }) => name))]
  for (const [name, field] of Object.entries(settings)) {
    const folded = foldField(name)
    const told = (setting: keyof FieldSettings, problem: string) =>
      complain(['fields', name, setting], problem)
    const other = meanings.get(folded)
    if (other && other.line !== null)
      complain(['fields', name], `is the same field as ${other.name}: remove one of them`)
    if (other?.timezone && field.timezone && other.timezone !== field.timezone)
      told('timezone', 'differs from FIELD_TIMEZONES: remove one of them')
    if (field.refers_to !== undefined && !names.includes(field.refers_to))
      told('refers_to', `names ${field.refers_to}, which is ${notKnown('stream', field.refers_to, names)}`)
    const acts = field.omit && acting.find((setting) => field[setting] !== undefined)
    if (acts) told(acts, 'has no effect on a field that is left out: remove it, or omit')
    const { label = null, description = null, unit = null, index = null } = field
    meanings.set(folded, {
      name,
      label,
      description,
      unit,
      index,
      values: field.values ? new Map(Object.entries(field.values)) : null,
      refersTo: field.refers_to ?? null,
      timezone: field.timezone ?? other?.timezone ?? null,
      omit: field.omit ?? false,
      mask: field.mask ?? null,
      line: lineAt(['fields', name]),
    })
  }
  return meanings
}

const acting = ['mask', 'values', 'timezone', 'index', 'refers_to'] as const
