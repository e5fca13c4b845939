// What the owner says that the data means: plain values, read from the file and the variables of the settings. Fields are found by the
// upstream's name or by the column's.

import type { Stream } from './catalog.ts'
import type { FieldKind } from './field-types.ts'

/** What becomes of a value before it lands anywhere (P20). */
export type Mask =
  | { readonly kind: 'hash' | 'null' | 'year' }
  | { readonly kind: 'first'; readonly characters: number }

export type FieldMeaning = {
  /** As it was written: the upstream's name, or the column's. */
  readonly name: string
  readonly label: string | null
  readonly description: string | null
  readonly unit: string | null
  /** What each code stands for, by its text in the row; null: it holds no codes, or nobody said which. */
  readonly values: ReadonlyMap<string, string> | null
  /** The stream whose key it holds. */
  readonly refersTo: string | null
  readonly timezone: string | null
  /** Null: nobody said. */
  readonly index: boolean | null
  readonly omit: boolean
  readonly mask: Mask | null
  /** Of the file; null: it comes from a variable. */
  readonly line: number | null
}
export type StreamMeaning = {
  readonly label: string | null
  readonly description: string | null
  /** A field, or several with commas between. */
  readonly key: string | null
  readonly version: string | null
  /** In lower case; null: nobody said. */
  readonly volatile: readonly string[] | null
  /** How long its history is kept: 0 is not at all, infinity is for ever; null: nobody said. */
  readonly historyMs: number | null
  /** By the folded name: see `meaningOf`. */
  readonly fields: ReadonlyMap<string, FieldMeaning>
}
/** By the name of the stream. */
export type Dictionary = ReadonlyMap<string, StreamMeaning>

export const nothingSaid: StreamMeaning = {
  label: null,
  description: null,
  key: null,
  version: null,
  volatile: null,
  historyMs: null,
  fields: new Map(),
}
export const nothingSaidOfField: Omit<FieldMeaning, 'name'> = {
  label: null,
  description: null,
  unit: null,
  values: null,
  refersTo: null,
  timezone: null,
  index: null,
  omit: false,
  mask: null,
  line: null,
}

/** `AssignmentStatusId`, `assignmentStatusID` and `assignment_status_id` are one field. */
export const foldField = (name: string): string =>
  name.toLowerCase().replaceAll(/[^\p{L}\p{M}\p{N}]/gu, '') || name

/** What is said of a stream, in one text; null: nothing. */
export const wordsOf = ({
  label,
  description,
}: Pick<StreamMeaning, 'label' | 'description'>): string | null =>
  label === null || description === null ? (label ?? description) : `${label}: ${description}`

export const meaningOf = (
  dictionary: Dictionary,
  stream: { readonly name: string },
  fieldOrColumn: string,
): FieldMeaning | undefined => dictionary.get(stream.name)?.fields.get(foldField(fieldOrColumn))

/** The stream with what the dictionary says of how it is read and stored. */
export const asMeant = <Any extends Stream>(stream: Any, dictionary: Dictionary): Any => {
  const meaning = dictionary.get(stream.name) ?? nothingSaid
  const { historyMs, volatile, fields } = meaning
  return {
    ...stream,
    meaning,
    ...(historyMs !== null && historyMs > 0 && { historyMs }),
    volatileFields: volatile,
    fieldZones: Object.fromEntries(
      [...fields].flatMap(([name, { timezone }]) => (timezone === null ? [] : [[name, timezone]])),
    ),
  }
}

/** The type of what lands of a field, where it is described: a masked value mostly has another one. Undefined: nothing lands. */
export function landedKind<Kind extends FieldKind | null>(
  field: FieldMeaning | undefined,
  kind: Kind,
): FieldKind | Kind | undefined {
  if (field?.omit) return undefined
  if (!field?.mask || field.mask.kind === 'null') return kind
  return field.mask.kind === 'year' ? 'int32' : 'text'
}
