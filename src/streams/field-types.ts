// What the values of a field are, by the upstream's description of itself.

/** What the values of a field are said to be. `int64` also stands for integers of no known size, `object` for lists as well. */
export type FieldKind =
  | ('uint8' | 'int16' | 'int32' | 'int64' | 'uint64' | 'number' | 'boolean' | 'text' | 'base64' | 'uuid')
  | ('date-time' | 'date' | 'time' | 'object')

/** How many fields without a column are remembered by name for a stream (P10). The values of others are rescued all the same (P5). */
export const mostUnplaced = 600
