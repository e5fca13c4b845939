// Times of day without an offset, where the upstream's description says so: what looks like one in the data is a text.

import { typeRules } from './column-type.ts'
import { isInstant } from './timestamptz.ts'

const clock = /^(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\d*$/

/** `07:08:09.1234567`, cut to microseconds. */
function timeOfDay(text: string): string | null {
  const [, cut] = clock.exec(text) ?? []
  return cut !== undefined && isInstant(`2000-01-01T${text}`) ? cut : null
}

export const time = typeRules({
  catalogName: 'time without time zone',
  isString: true,
  fromJson: (value) => (typeof value === 'string' ? timeOfDay(value) : null),
})
