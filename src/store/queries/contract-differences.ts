// Where rows are otherwise than the upstream describes its records. Pure.

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
  /** How many rows that is about. */
  readonly count: number
}

/** A field that never had a value contradicts nothing. */
export const isContradiction = ({ kind }: Difference): boolean => kind !== 'never had a value'

export const differencesOf = (
  fields: readonly FieldBeside[],
  types: ReadonlyMap<string, RecordType>,
): readonly Difference[] => fields.flatMap((field) => differenceOf(field, types.get(field.stream)))

function differenceOf(
  { stream, field, describedAs, columnType, rows, values, rescued }: FieldBeside,
  type: RecordType | undefined,
): readonly Difference[] {
  const common = { stream, field, described: describedAs, column: columnType }
  if (rows === 0) return []
  if (describedAs === null) return values === 0 ? [] : [{ ...common, kind: 'not described', count: values }]
  const wanted = typeSaid(type, field)
  if (rescued > 0) return [{ ...common, kind: 'values that do not fit', count: rescued }]
  if (wanted !== null && columnType !== null && wanted !== columnType)
    return [{ ...common, kind: 'another type', count: values }]
  return values === 0 ? [{ ...common, kind: 'never had a value', count: rows }] : []
}

function typeSaid(type: RecordType | undefined, field: string): string | null {
  const kind = type?.fields.find(({ name }) => foldName(name) === foldName(field))?.kind ?? null
  return kind === null
    ? null
    : (documentedTypes({ fieldKinds: { [field]: { kind } } }).get(foldName(field)) ?? null)
}

const meanings: Readonly<Record<Difference['kind'], (one: Difference) => string>> = {
  'never had a value': ({ described: said, count: rows }) =>
    `described as ${said}; none of ${plural(rows, 'row')} has a value`,
  'not described': ({ column, count: rows }) =>
    `not described; ${plural(rows, 'row')} with a value, ${column === null ? 'in _rescued' : `in a column of type ${column}`}`,
  'another type': ({ described: said, column }) => `described as ${said}; its column is ${column}`,
  'values that do not fit': ({ described: said, count: rows }) =>
    `described as ${said}; ${plural(rows, 'row')} with a value that does not fit`,
}

/** In one line, without its field. */
export const differenceInWords = (one: Difference): string => meanings[one.kind](one)

export type ContractVerdict = { readonly value: 'as described' | 'otherwise'; readonly evidence: string }

/** Of one stream, by what its columns hold; `from`: what was read, and where. */
export function contractVerdict(
  { fields }: Pick<RecordType, 'fields'>,
  beside: readonly FieldBeside[],
  differences: readonly Difference[],
  from: string,
): ContractVerdict {
  const others = differences.filter(isContradiction).map(({ field }) => field)
  if (others.length === 0)
    return {
      value: 'as described',
      evidence: `${withValues(beside)} of ${plural(fields.length, 'field')} in ${from} have values, and all fit`,
    }
  const named = others.slice(0, mostNamed).join(', ')
  const more = others.length > mostNamed ? ` and ${count(others.length - mostNamed)} more` : ''
  return {
    value: 'otherwise',
    evidence: `${plural(others.length, 'field')} not as in ${from}: ${named}${more}`,
  }
}

const mostNamed = 5

const withValues = (beside: readonly FieldBeside[]): number =>
  beside.filter(({ describedAs, values }) => describedAs !== null && values > 0).length

/** The description as evidence names it. */
export const describedBy = (openApi: string, location: string): string => `OpenAPI ${openApi} of ${location}`
