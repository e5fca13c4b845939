// Variables that there are once for each stream, such as SCHEDULE_<STREAM>.

import type { z } from 'zod'
import { relatedStreams, type Stream, streams } from '../streams/catalog.ts'
import { fieldList, keyChoice, optionalText, schedule } from './parsers.ts'
import type { Variable } from './variable.ts'

type Named = { readonly name: string } & Partial<Pick<Stream, 'defaultSchedule'>>
type Family<Schema extends z.ZodType> = Pick<Variable, 'describe' | 'fallback' | 'form'> & {
  /** The streams that have one. What kind a stream is that the settings add is known only later: it counts as both. */
  readonly streams: () => readonly Named[]
  readonly schemaOf: (stream: Named) => Schema
  readonly fallbackOf?: (stream: Named) => string
  /** For `.env.example`. */
  readonly example: string
}

const listStreams = () => streams.filter(({ kind, isAdded }) => kind === 'list' || isAdded)
const changesStreams = () => streams.filter(({ kind, isAdded }) => kind === 'changes' || isAdded)
const usualSchedule = ({ defaultSchedule = '1h' }: Named) => defaultSchedule

export const streamVariables = {
  SCHEDULE: {
    describe: 'when a stream is read',
    fallback: 'as its kind usually is',
    form: 'duration or cron expression',
    streams: () => streams,
    schemaOf: (stream) => schedule(usualSchedule(stream)),
    fallbackOf: (stream) => `\`${usualSchedule(stream)}\``,
    example: 'SCHEDULE_ASSIGNMENT=30s',
  } satisfies Family<ReturnType<typeof schedule>>,
  KEY: {
    describe:
      'key of a list stream or of a group of related records: one field, or several together. A table with another key changes to this one at the next reading and keeps its rows',
    fallback: 'the first usual name that every record has',
    form: 'name of a field, or several, comma-separated',
    streams: () => [...listStreams(), ...relatedStreams],
    schemaOf: () => keyChoice,
    example: 'KEY_TRACKER_OBJECT=',
  } satisfies Family<typeof keyChoice>,
  VERSION: {
    describe: 'the field that holds the row version. If you change it, the stream is read from the beginning',
    fallback: 'found by testing',
    form: 'name of a field',
    streams: changesStreams,
    schemaOf: () => optionalText,
    example: 'VERSION_ASSIGNMENT=',
  } satisfies Family<typeof optionalText>,
  VOLATILE: {
    describe:
      'fields whose value changes by itself, such as a signed address, in a stream that is read by row version. A row that differs only in these counts as unchanged. Overrides what Tidemark found',
    fallback: 'found by comparing',
    form: 'names of fields, comma-separated, or `none`',
    streams: changesStreams,
    schemaOf: () => fieldList,
    example: 'VOLATILE_ASSIGNMENT=',
  } satisfies Family<typeof fieldList>,
} as const
export type StreamVariable = keyof typeof streamVariables

export const variableOf = (family: StreamVariable, { name }: { readonly name: string }): string =>
  `${family}_${name.toUpperCase()}`

/** Those of all streams that there are now, by their names. */
export function variablesOfStreams(): Readonly<Record<string, Variable & { readonly stream: string }>> {
  const families = Object.entries(streamVariables) as readonly [StreamVariable, Family<z.ZodType>][]
  return Object.fromEntries(
    families.flatMap(([name, { streams, schemaOf, fallbackOf, describe, form, fallback }]) =>
      streams().map((stream) => [
        variableOf(name, stream),
        {
          ...{ describe, form, stream: stream.name, schema: schemaOf(stream) },
          fallback: fallbackOf?.(stream) ?? fallback,
        },
      ]),
    ),
  )
}
