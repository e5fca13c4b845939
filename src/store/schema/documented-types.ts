// Column types of fields whose types the upstream documents: those are not taken from the values that happen to come first. There is no type
// for bytes: their base64 stays as it came.

import type { MirroredStream } from '../../streams/catalog.ts'
import type { FieldKind } from '../../streams/field-types.ts'
import type { ColumnType } from '../types/table.ts'
import { foldName } from './column-names.ts'

const typeOfKind: Readonly<Record<FieldKind, ColumnType>> = {
  uint8: 'bigint',
  int16: 'bigint',
  int32: 'bigint',
  int64: 'bigint',
  uint64: 'numeric',
  number: 'numeric',
  boolean: 'boolean',
  text: 'text',
  base64: 'text',
  uuid: 'uuid',
  'date-time': 'timestamptz',
  date: 'date',
  time: 'time',
  object: 'jsonb',
}

/** By folded field name; empty for streams whose fields are not documented. */
export const documentedTypes = ({
  fieldKinds = {},
}: Pick<MirroredStream, 'fieldKinds'>): ReadonlyMap<string, ColumnType> =>
  new Map(Object.entries(fieldKinds).map(([field, { kind }]) => [foldName(field), typeOfKind[kind]]))
