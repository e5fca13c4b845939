// What every export is made from: the views with what their columns mean, what refers to what, the time zone, and when a stream is late.
// Nothing of it changes while the schema stays: no counts, no shares, no times.

import pg from 'pg'
import { scheduleOf } from '../../config/dynamic-settings.ts'
import { loadStatusConfig } from '../../config/load.ts'
import type { Schedule } from '../../config/parsers.ts'
import type { ColumnMap, ViewMap } from '../../store/book/dictionary.ts'
import type { Reference } from '../../store/book/references.ts'
import { historyColumns, ownColumns } from '../../store/schema/own-columns.ts'
import { baseOf, keyIn, schemasOf } from '../../streams/names.ts'
import type { Override } from '../../streams/settings.ts'
import { cronTimes } from '../../util/cron.ts'
import type { Call } from '../command.ts'
import { oneLine } from '../output.ts'

export type Facts = {
  /** Whose views they are; empty: of the source that the environment describes. Views and streams have the names that they have there. */
  readonly source: string
  /** `tidemark`, or `tidemark_acme`: tools keep what is of several sources in one place. */
  readonly prefix: string
  readonly schemas: { readonly views: string; readonly tables: string; readonly state: string }
  /** By name. */
  readonly views: readonly ViewMap[]
  /** By view and column. */
  readonly references: readonly ExportedReference[]
  /** The zone of the times that people think in. */
  readonly timeZone: string
  /** After how many minutes a stream is late; null: it is not read by a schedule. */
  lateAfterMinutes(stream: string): number | null
  /** How a BI tool connects, without a password (P9). */
  readonly address: URL
}
type ExportedReference = Pick<Reference, 'from' | 'column' | 'to' | 'key'>

/** Contents by the path of the file. */
export type Files = Readonly<Record<string, string | Uint8Array>>

export function factsOf(
  { environment, catalogue }: Pick<Call, 'environment' | 'catalogue'>,
  known: Pick<Facts, 'views' | 'references' | 'address'> & { readonly overrides: readonly Override[] },
): Facts {
  const { views, references, address, overrides } = known
  const config = loadStatusConfig(environment)
  config.dynamic.takeUp(overrides)
  const settings = config.dynamic.now()
  const reader = new URL(address)
  reader.password = ''
  if (config.biRole !== null) reader.username = encodeURIComponent(config.biRole)
  const place = ({ from, column }: ExportedReference) => `${from}.${column}`
  const { source } = config
  const { views: viewSchema, tables } = schemasOf(source)
  return {
    source,
    prefix: source === '' ? 'tidemark' : `tidemark_${source}`,
    // A source that has a name shows its readers what is said of it among its views.
    schemas: { tables, views: viewSchema, state: source === '' ? 'tidemark' : viewSchema },
    views: views.map(withinSource).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    references: references
      .map((one) => ({ ...one, from: baseOf(one.from), to: baseOf(one.to) }))
      .toSorted((a, b) => (place(a) < place(b) ? -1 : 1)),
    timeZone: config.sourceTimezone,
    lateAfterMinutes(name) {
      const stream = catalogue.find((one) => one.name === keyIn(source, name))
      if (!stream) return null
      return Math.ceil((longestGapMs(scheduleOf(settings, stream)) + settings.staleAfterMs) / 60_000)
    },
    address: reader,
  }
}

/** In SQL. A source may be called like a word of it. */
export const schemaSql = (schema: string): string =>
  ['bi', 'tidemark'].includes(schema) ? schema : pg.escapeIdentifier(schema)

const withinSource = (view: ViewMap): ViewMap => ({
  ...view,
  name: baseOf(view.name),
  stream: baseOf(view.stream),
  columns: view.columns.map((column) =>
    column.meantReference ? { ...column, meantReference: baseOf(column.meantReference) } : column,
  ),
})

/** Between two times of a schedule, counted from a fixed moment, so that it is the same every day. */
function longestGapMs(schedule: Schedule): number {
  if ('everyMs' in schedule) return schedule.everyMs
  let longest = 0
  let [at, next] = [0, Date.UTC(2024, 0, 1)]
  for (let count = 0; count < 400; count++) {
    ;[at, next] = [next, cronTimes(schedule.cron, next).nextMs]
    longest = Math.max(longest, next - at)
  }
  return longest
}

const ownMeanings = new Map([...ownColumns, ...historyColumns].map(({ name, meaning }) => [name, meaning]))

/** In one line. */
export function describeColumn({ name, field, label, unit, description = null }: ColumnMap): string {
  if (field === null) return description ?? ownMeanings.get(name) ?? ''
  const words = [label, description, unit && `in ${unit}`, `field ${oneLine(field)}`]
  return words.flatMap((one) => (one ? [oneLine(one).replace(/[.;]$/, '')] : [])).join('; ')
}

export const isTime = ({ type }: ColumnMap): boolean => type === 'timestamp with time zone'

/** Columns of the upstream that hold a time, in the zone that people think in, beside the column itself. */
export const localName = (view: ViewMap, { name }: ColumnMap): string => {
  const wanted = `${name}_local`
  return view.columns.some((other) => other.name === wanted) ? `_${wanted}` : wanted
}

/** What people call it, or its name as words. */
export const titleOf = ({ name, label }: { readonly name: string; readonly label?: string | null }): string =>
  label ??
  name
    .replaceAll('_', ' ')
    .trim()
    .replace(/^\p{Ll}/u, (first) => first.toUpperCase())

/** Numbers whose sum means something: with a unit, or by the names that they usually have. */
export const isAmount = ({ name, type, field, unit }: ColumnMap): boolean =>
  field !== null &&
  /^(numeric|bigint)$/.test(type) &&
  (!!unit || /(price|amount|cost|hours|quantity|distance|total)$/.test(name))
