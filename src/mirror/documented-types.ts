// Column types of fields whose types the upstream documents: those are not taken from the values that happen to come first.

import type { FieldKind } from '../attachment-fields.ts'
import type { MirroredStream } from '../streams.ts'
import { foldName } from './column-names.ts'
import type { ColumnType } from './column-types.ts'

const typeOfKind: Readonly<Record<FieldKind, ColumnType>> = {
  uint8: 'bigint',
  int32: 'bigint',
  int64: 'bigint',
  boolean: 'boolean',
  text: 'text',
  base64: 'text',
  uuid: 'uuid',
  'date-time': 'timestamptz',
}

/** By folded field name; empty for streams whose fields are not documented. */
export function documentedTypes(stream: MirroredStream): ReadonlyMap<string, ColumnType> {
  const kinds = stream.kind === 'related' ? (stream.fieldKinds ?? {}) : {}
  return new Map(Object.entries(kinds).map(([field, { kind }]) => [foldName(field), typeOfKind[kind]]))
}
