// Days, where the upstream's description says so: what looks like one in the data is a text.

import { typeRules } from './column-type.ts'
import { isInstant } from './timestamptz.ts'

/** `2024-05-06`. */
const isDate = (text: string): boolean => text.length === 10 && isInstant(`${text}T00:00`)

export const date = typeRules({
  isString: true,
  fromJson: (value) => (typeof value === 'string' && isDate(value) ? value : null),
})
