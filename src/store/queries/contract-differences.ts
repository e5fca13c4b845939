// Where records are otherwise than the upstream describes them. Pure.

import type { RecordType } from '../../streams/contract.ts'
import { count, plural } from '../../util/text.ts'
import { documentedTypes, foldName } from '../schema/column-types.ts'
import type { FieldBeside } from './contract-fields.ts'

export type Difference = {
  readonly stream: string
  readonly field: string
  readonly kind: 'never had a value' | 'not described' | 'another type' | 'values that do not fit'
  readonly described: string | null
  readonly column: string | null
  /** How many records, or values, that is about. */
  readonly count: number
}

/** That a field had no value yet contradicts nothing. */
export const isContradiction = ({ kind }: Difference): boolean => kind !== 'never had a value'

export const differencesOf = (
  fields: readonly FieldBeside[],
  types: ReadonlyMap<string, RecordType>,
): readonly Difference[] => fields.flatMap((field) => differenceOf(field, types.get(field.stream)))

function differenceOf(
  { stream, field, describedAs, columnType, records, values, rescued }: FieldBeside,
  type: RecordType | undefined,
): readonly Difference[] {
  const common = { stream, field, described: describedAs, column: columnType }
  if (records === 0) return []
  if (describedAs === null) return [{ ...common, kind: 'not described', count: values }]
  const wanted = typeSaid(type, field)
  if (rescued > 0) return [{ ...common, kind: 'values that do not fit', count: rescued }]
  if (wanted !== null && columnType !== null && wanted !== columnType)
    return [{ ...common, kind: 'another type', count: values }]
  return values === 0 ? [{ ...common, kind: 'never had a value', count: records }] : []
}

function typeSaid(type: RecordType | undefined, field: string): string | null {
  const kind = type?.fields.find(({ name }) => foldName(name) === foldName(field))?.kind ?? null
  return kind === null
    ? null
    : (documentedTypes({ fieldKinds: { [field]: { kind } } }).get(foldName(field)) ?? null)
}

const meanings: Readonly<Record<Difference['kind'], (one: Difference) => string>> = {
  'never had a value': ({ described: said, count: records }) =>
    `described as ${said}; none of ${plural(records, 'record')} that came had a value`,
  'not described': ({ column, count: values }) =>
    `not described; ${plural(values, 'value')}, in a column of type ${column ?? 'none'}`,
  'another type': ({ described: said, column }) => `described as ${said}; its column is ${column}`,
  'values that do not fit': ({ described: said, count: values }) =>
    `described as ${said}; ${count(values)} values do not fit`,
}

/** In one line, without its field. */
export const differenceInWords = (one: Difference): string => meanings[one.kind](one)
