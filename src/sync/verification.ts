// What verifications of all kinds of streams have in common: what they look with, what they count, and how they tell it.

import type { Json } from '../json/json.ts'
import type { Records } from '../record.ts'
import type { Stream } from '../streams.ts'
import type { AuditRun, Audits, Difference, Shortfall } from './audit-ports.ts'
import type { Source } from './ports.ts'
import type { LaneReading } from './run-lane.ts'

export type VerifyContext = {
  readonly mirror: Audits
  readonly source: Source
  readonly stream: Stream
  readonly pageSize: number
  /** The operator's choice of a list stream's key. */
  readonly keyField: string | null
  readonly signal: AbortSignal
  readonly repair: boolean
  /** Look at this many rows drawn at random, each by its id, instead of at all; null: at all. */
  readonly sample: number | null
  readonly onDifference: (difference: Difference) => void
}
export type VerifyFindings = {
  readonly compared: number
  readonly differences: number
  readonly repaired: number
  /** The look at the record told nothing. */
  readonly unclear: number
  /** False when rows that may differ could not be looked for. */
  readonly isWhole: boolean
}

export type Inspection = {
  readonly context: VerifyContext
  readonly run: AuditRun
  readonly source: Source
  readonly findings: { -readonly [Name in keyof VerifyFindings]: VerifyFindings[Name] }
  readonly read: (records: readonly Json[]) => Records
}

export const unsteadyList =
  'the list changed during every pass: rows whose records are gone were not looked for'
export const tooMuchIsGone = ({ missing, living }: Shortfall): string =>
  `the list lacks ${missing} of ${living} rows, too many to be believed; a census holds them until it is told otherwise`

export const extra = (key: string): Difference => ({
  key,
  kind: 'extra',
  columns: [],
  version: null,
  mirrored: null,
  record: null,
})

/** The end of a verification; `why` when there are rows that it could not look for. */
export function told({ context, findings }: Inspection, why: string | null): LaneReading {
  findings.isWhole = why === null
  const what = context.sample === null ? 'verification' : 'verification of a sample'
  const { differences, repaired } = findings
  const found = differences === 0 ? 'no difference' : `${differences} differences`
  const mended = repaired > 0 ? `, ${repaired} mended` : ''
  // Not a census: it is not to be taken for one.
  return {
    isComplete: false,
    gaveWay: false,
    note: [`${what}: ${found}${mended}`, why].filter(Boolean).join('; '),
  }
}
