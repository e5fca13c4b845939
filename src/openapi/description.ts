// What the upstream says about itself: its operations, and the fields of the records that they take and answer. Read from an OpenAPI
// description; a belief like any other, and the data decide where they differ.

import type { FieldKind } from '../streams/field-types.ts'

export type DescribedField = {
  /** The name as the upstream spells it. */
  readonly name: string
  /** What the description says that its values are, e.g. `integer int32`. */
  readonly says: string
  /** Null: a type that no column has, or several that exclude each other; the data decide. */
  readonly kind: FieldKind | null
  readonly isNullable: boolean
  readonly isRequired: boolean
  readonly describe: string | null
  /** The only values that it may have. */
  readonly values: readonly string[] | null
  /** What these stand for, where that is said. */
  readonly texts?: Readonly<Record<string, string>> | null
  /** What else values must be like, e.g. `at most 50 characters`. */
  readonly bounds: string | null
  /** The type of the record, or of the records of the list, that it holds. */
  readonly holds: string | null
}

type Said = Pick<DescribedField, 'says' | 'isNullable' | 'isRequired' | 'bounds' | 'values'>

/** What is said of a field, in one line. */
export const saidOf = (field: Said): string => [typeOf(field), ...boundsOf(field)].join(', ')

export const typeOf = ({ says, isNullable }: Said): string => `${says}${isNullable ? ' or null' : ''}`

export const boundsOf = ({ isRequired, bounds, values }: Said): readonly string[] =>
  [isRequired ? 'required' : null, bounds, values && `one of ${values.join(', ')}`].filter(
    (part) => part !== null,
  )

export type RecordType = {
  /** Its name in the description; of one without, that of the operation. */
  readonly name: string
  readonly describe: string | null
  readonly fields: readonly DescribedField[]
}
export type DescribedParameter = {
  readonly name: string
  readonly in: string
  readonly says: string
  readonly bounds: string | null
  readonly isRequired: boolean
}
export type DescribedOperation = {
  readonly method: string
  /** Parameters in braces. */
  readonly path: string
  readonly summary: string | null
  readonly parameters: readonly DescribedParameter[]
  /** The name of the type of its body; null: it takes none, or one that is not described. */
  readonly takes: string | null
  /** How its body travels; left out: it takes none, or as JSON where `takes` names a type. */
  readonly bodyIs?: 'json' | 'form' | 'multipart'
  /** What a success answers; null: nothing, or it is not described. */
  readonly answers: { readonly type: string; readonly isList: boolean } | null
}
export type Description = {
  readonly title: string
  readonly version: string
  /** The version of OpenAPI that the description uses, e.g. `3.1.1`. */
  readonly openApi: string
  readonly operations: readonly DescribedOperation[]
  readonly types: Readonly<Record<string, RecordType>>
  /** Which parts of the description could not be used, and why. */
  readonly remarks: readonly string[]
}
