// What the dictionary can say of a stream and of a field: one table for the parser, the manual, and the JSON Schema for editors.

import { z } from 'zod'
import type { Mask } from '../streams/dictionary.ts'
import { parseDuration } from '../util/text.ts'
import { isZoneOfTimes, keyFieldsIn, oneOrMore, readAs, shortestHistoryMs } from './parsers.ts'

const words = (most: number) =>
  z
    .string('must be text')
    .trim()
    .min(1, 'is empty')
    .max(most, `has more than ${most} characters`)
    .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text.replaceAll('\n', '')), {
      error: 'holds a character that cannot be shown',
    })

const yesOrNo = z
  .enum(['true', 'false'], 'must be true or false')
  .transform((value) => value === 'true')
  .meta({ type: 'boolean', enum: [true, false] })

const names = oneOrMore(z.array(words(500), 'must be names of fields').meta({ type: ['string', 'array'] }))

const wantsMask = 'must be hash, null, year, or first and a number of characters such as first 2'
const mask = readAs(z.string(wantsMask), wantsMask, (value): Mask | undefined => {
  const [, kind, characters] = /^(?:(hash|null|year)|first ([1-9]\d{0,3}))$/.exec(value) ?? []
  if (characters !== undefined) return { kind: 'first', characters: Number(characters) }
  return kind === 'hash' || kind === 'null' || kind === 'year' ? { kind } : undefined
}).meta({ type: ['string', 'null'], pattern: '^(hash|null|year|first [1-9][0-9]{0,3})$' })

const history = readAs(
  z.string('must be true, off, or a time'),
  'must be true, off, or a time of a day or more such as 365d',
  (value) => {
    if (value === 'true') return Number.POSITIVE_INFINITY
    if (value === 'off' || value === 'false') return 0
    const keptMs = parseDuration(value)
    return keptMs !== null && keptMs >= shortestHistoryMs ? keptMs : undefined
  },
).meta({ type: ['string', 'boolean'] })

export const fieldSettings = z.strictObject(
  {
    label: words(200).optional().describe('what people call the field'),
    description: words(2_000).optional().describe('what it means'),
    unit: words(40).optional().describe('the unit of its numbers, such as `min` or `km`'),
    values: z
      .record(words(200), words(200), 'must be a list of codes, each with its text')
      .optional()
      .describe('the text of each code; a column with the texts is added to the view'),
    refers_to: words(63).optional().describe('the stream whose key it holds'),
    timezone: words(63)
      .refine(isZoneOfTimes, 'must be UTC or name a place, such as Europe/Oslo')
      .optional()
      .describe('the time zone of its date-times without an offset'),
    index: yesOrNo.optional().describe('whether the table has an index on it'),
    omit: yesOrNo.optional().describe('whether it is left out: its values land nowhere'),
    mask: mask
      .optional()
      .describe(
        'what lands instead of its values: `hash` (equal values have equal hashes), `null`, `year` of a date, or `first N` characters',
      ),
  },
  'must be a list of settings',
)
export type FieldSettings = z.output<typeof fieldSettings>

export const streamSettings = z.strictObject(
  {
    label: words(200).optional().describe('what people call the records'),
    description: words(2_000).optional().describe('what they are'),
    key: names
      .refine((fields) => keyFieldsIn(fields) !== null, 'must name up to 8 different fields')
      .optional()
      .describe('its key, as in `KEY_<STREAM>`'),
    version: words(500).optional().describe('the field with the row version, as in `VERSION_<STREAM>`'),
    volatile: names
      .optional()
      .describe('fields whose value changes by itself, as in `VOLATILE_<STREAM>`; `none`: no field'),
    history: history.optional().describe('how long its history is kept, as in `HISTORY`: `true` is for ever'),
    fields: z
      .record(words(500), fieldSettings, 'must be a list of fields, each with its settings')
      .optional()
      .describe('what its fields mean, by the upstream’s name or the column’s'),
  },
  'must be a list of settings',
)
export type StreamSettings = z.output<typeof streamSettings>

export const fileSettings = z.record(z.string(), streamSettings, 'must be a list of streams')
