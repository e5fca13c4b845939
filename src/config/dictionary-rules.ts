// What the settings of a dictionary mean together: which stream can have which, and which fields have to land as they are.

import type { MirroredStream } from '../streams/catalog.ts'
import { type Dictionary, type FieldMeaning, foldField, type StreamMeaning } from '../streams/dictionary.ts'
import { keyParts } from '../streams/record.ts'
import { nearest } from '../util/text.ts'
import type { FieldSettings, StreamSettings } from './dictionary-settings.ts'
import { keyFieldsIn } from './parsers.ts'

/** Tells a mistake of what stands at a path of the file. */
export type Complain = (path: readonly string[], problem: string) => void

type Context = {
  readonly streams: readonly MirroredStream[]
  readonly complain: Complain
  readonly lineAt: (path: readonly string[]) => number
}

export function meaningIn(
  file: Readonly<Record<string, StreamSettings>>,
  { streams, complain, lineAt }: Context,
): Dictionary {
  return new Map(
    Object.entries(file).flatMap(([name, settings]) => {
      const stream = streams.find((one) => one.name === name)
      if (!stream) return []
      const within: Context = {
        streams,
        complain: (path, problem) => complain([name, ...path], problem),
        lineAt: (path) => lineAt([name, ...path]),
      }
      return [[name, streamMeaning(stream, settings, within)] as const]
    }),
  )
}

function streamMeaning(stream: MirroredStream, settings: StreamSettings, context: Context): StreamMeaning {
  const { label = null, description = null, key, version = null, volatile, history = null } = settings
  const { complain } = context
  const isByVersion = stream.kind === 'changes' || ('isAdded' in stream && stream.isAdded)
  for (const setting of ['version', 'volatile'] as const)
    if (settings[setting] !== undefined && !isByVersion)
      complain([setting], 'cannot be set: the stream is not read by row version')
  if (key !== undefined && stream.kind === 'changes' && !stream.isAdded)
    complain(['key'], `cannot be set: it is always ${stream.keyFields.join(', ')}`)
  if (history !== null && stream.kind === 'related')
    complain(['history'], 'cannot be set: related records have none')
  const fields = fieldMeanings(settings.fields ?? {}, context)
  const chosenKey = key === undefined ? null : keyFieldsIn(key)
  for (const field of fields.values()) {
    const doing = field.omit ? 'omit' : field.mask === null ? null : 'mask'
    const need = doing && whyNeeded(stream, { key: chosenKey, version }, field)
    if (doing && need) complain(['fields', field.name, doing], `cannot be set: the field ${need}`)
  }
  return {
    ...{ label, description, version, historyMs: history, fields, key: chosenKey },
    volatile: volatile?.map((name) => name.toLowerCase()).filter((name) => name !== 'none') ?? null,
  }
}

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
  if (isIn(['SysDeleted'])) return 'says whether the record is deleted'
  if (stream.kind === 'related' && stream.belongsTo === 'one' && isIn(['AssignmentId']))
    return 'says which assignment the record belongs to'
  return null
}

function fieldMeanings(
  settings: Readonly<Record<string, FieldSettings>>,
  { streams, complain, lineAt }: Context,
): ReadonlyMap<string, FieldMeaning> {
  const meanings = new Map<string, FieldMeaning>()
  const names = [...new Set(streams.map(({ name }) => name))]
  for (const [name, field] of Object.entries(settings)) {
    const folded = foldField(name)
    const other = meanings.get(folded)
    if (other) complain(['fields', name], `is the same field as ${other.name}: remove one of them`)
    if (field.refers_to !== undefined && !names.includes(field.refers_to))
      complain(
        ['fields', name, 'refers_to'],
        `names ${field.refers_to}, which is ${notKnown('stream', field.refers_to, names)}`,
      )
    const acts = (['mask', 'values', 'timezone', 'index', 'refers_to'] as const).find(
      (setting) => field[setting] !== undefined,
    )
    if (field.omit && acts !== undefined)
      complain(['fields', name, acts], 'has no effect on a field that is left out: remove it, or omit')
    const { label = null, description = null, unit = null, timezone = null, index = null } = field
    meanings.set(folded, {
      ...{ name, label, description, unit, timezone, index },
      values: field.values ? new Map(Object.entries(field.values)) : null,
      refersTo: field.refers_to ?? null,
      omit: field.omit ?? false,
      mask: field.mask ?? null,
      line: lineAt(['fields', name]),
    })
  }
  return meanings
}

export function notKnown(what: string, name: string, known: readonly string[]): string {
  const [near] = nearest(name, known)
  return `no ${what}${near === undefined ? `; known are ${known.join(', ')}` : `: did you mean ${near}?`}`
}
