// What needs a person, as data: its kinds, and what each tells.

export const concernKinds = [
  'part_down',
  'service_down',
  'token_refused',
  'stopped',
  'hidden',
  'failing',
  'stale',
  'held',
  'quarantine',
  'census_rescue',
  'fact_flipped',
  'schema_drift',
] as const
export type ConcernKind = (typeof concernKinds)[number]

/** What happened, rather than what lasts: worth knowing, and over by itself. */
export const isNews = (kind: string): boolean => kind === 'fact_flipped' || kind === 'schema_drift'

export type Concern = {
  /** The same as long as it is the same concern. */
  readonly key: string
  readonly kind: ConcernKind
  /** Null when it is not about one stream. */
  readonly stream: string | null
  readonly since: Date | null
  readonly what: string
  readonly whatToDo: string
}

/** What happened once is told for so long, and then forgotten by itself; all else lasts until something was done. */
export const eventsLastMs = 24 * 3_600_000
