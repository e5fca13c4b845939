// Variables that there are once for each stream, such as SCHEDULE_<STREAM>.

import type { z } from 'zod'
import {
  type AddedStream,
  type Catalogue,
  catalogueOf,
  relatedStreams,
  type Stream,
} from '../streams/catalog.ts'
import { baseOf } from '../streams/names.ts'
import { type Environment, readVariable } from './environment.ts'
import { addedIn, duration, fieldList, keyChoice, optionalText, schedule } from './parsers.ts'
import { upstreamVariables } from './upstream-variables.ts'
import type { Variable } from './variable.ts'

type Named = { readonly name: string } & Partial<Pick<Stream, 'defaultSchedule'>>
type Family<Schema extends z.ZodType> = Pick<Variable, 'describe' | 'fallback' | 'form'> & {
  /** The streams that have one. What kind a stream is that the settings add is known only later: it counts as both. */
  readonly streams: (catalogue: Catalogue) => readonly Named[]
  readonly schemaOf: (stream: Named) => Schema
  readonly fallbackOf?: (stream: Named) => string
  /** For `.env.example`. */
  readonly example: string
}

/** The three of each stream. */
export const times = ['read', 'settled', 'deletions'] as const
export type Time = (typeof times)[number]
const target = duration('1h', '10s')
const targetFor = (time: string, example: string) =>
  ({
    describe: `how old “${time}” of a stream may become before that is a problem`,
    fallback: 'as the file that `ALERTS` names says; without it, none',
    form: target.form,
    streams: (all) => all,
    schemaOf: () => target.schema,
    example,
  }) satisfies Family<typeof target.schema>

const { PAGE_SIZE, LOOKBACK } = upstreamVariables
const listStreams = (all: Catalogue) => all.filter(({ kind, isAdded }) => kind === 'list' || isAdded)
const changesStreams = (all: Catalogue) => all.filter(({ kind, isAdded }) => kind === 'changes' || isAdded)
const usualSchedule = ({ defaultSchedule = '1h' }: Named) => defaultSchedule

export const streamVariables = {
  SCHEDULE: {
    describe: 'when a stream is read',
    fallback: 'as its kind usually is',
    form: 'duration such as `30s`, or cron expression such as `0 3 * * *`',
    streams: (all) => all,
    schemaOf: (stream) => schedule(usualSchedule(stream)),
    fallbackOf: (stream) => `\`${usualSchedule(stream)}\``,
    example: 'SCHEDULE_ASSIGNMENT=30s',
  } satisfies Family<ReturnType<typeof schedule>>,
  PAGE_SIZE: {
    describe: 'how many records of a stream one request asks for',
    fallback: 'as `PAGE_SIZE` says',
    form: PAGE_SIZE.form,
    streams: (all) => all,
    schemaOf: () => PAGE_SIZE.schema,
    example: 'PAGE_SIZE_ASSIGNMENT=',
  } satisfies Family<typeof PAGE_SIZE.schema>,
  LOOKBACK: {
    describe: 'how far back a stream is at least read again to find rows that became visible late',
    fallback: 'as `LOOKBACK` says',
    form: LOOKBACK.form,
    streams: changesStreams,
    schemaOf: () => LOOKBACK.schema,
    example: 'LOOKBACK_ASSIGNMENT=',
  } satisfies Family<typeof LOOKBACK.schema>,
  TARGET_READ: targetFor('read through', 'TARGET_READ_ASSIGNMENT='),
  TARGET_SETTLED: targetFor('settled through', 'TARGET_SETTLED_ASSIGNMENT='),
  TARGET_DELETIONS: targetFor('deletions known through', 'TARGET_DELETIONS_ASSIGNMENT='),
  KEY: {
    describe:
      'key of a list stream or of a group of related records: one field, or several together. A table with another key changes to this one at the next reading and keeps its rows',
    fallback: 'the first usual name that every record has',
    form: 'name of a field, or several, comma-separated',
    streams: (all) => [...listStreams(all), ...relatedStreams],
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

export const prefixesOfStreams = Object.keys(streamVariables).map((family) => `${family}_`)

export const variableOf = (family: StreamVariable, { name }: { readonly name: string }): string =>
  `${family}_${baseOf(name).toUpperCase()}`

/** By their names. */
export function variablesOfStreams(
  catalogue: Catalogue,
): Readonly<Record<string, Variable & { readonly stream: string }>> {
  const families = Object.entries(streamVariables) as readonly [StreamVariable, Family<z.ZodType>][]
  return Object.fromEntries(
    families.flatMap(([name, { streams, schemaOf, fallbackOf, describe, form, fallback }]) =>
      streams(catalogue).map((stream) => [
        variableOf(name, stream),
        {
          describe,
          form,
          stream: stream.name,
          schema: schemaOf(stream),
          fallback: fallbackOf?.(stream) ?? fallback,
        },
      ]),
    ),
  )
}

export const readAddedStreams = (environment: Environment): readonly AddedStream[] =>
  addedIn(readVariable(environment, 'STREAMS', []))

/** With the streams that the settings add; what these are like is found out later. */
export const catalogueIn = (environment: Environment): Catalogue => catalogueOf(readAddedStreams(environment))
