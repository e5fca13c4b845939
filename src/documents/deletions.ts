// Deletions that are blocked because there are too many at once, and what speaks for and against them.

import { z } from 'zod'
import { blockedJson, evidenceFacts } from '../operator/deletions.ts'
import {
  bucketNames,
  type DeletionEvidence,
  readBlockedDeletions,
  readDeletionEvidence,
} from '../store/book/deletions.ts'
import type { BlockedDeletions } from '../store/book/symptoms.ts'
import { isLookedUpByKey, pickStreams } from '../streams/catalog.ts'
import { count, snakeCased } from '../util/text.ts'
import { amount, document, type Facts, list, streamNames, time } from './document.ts'

export const rejection = z
  .object({ at: time.nullable(), by: z.string(), reason: z.string().nullable() })
  .nullable()
  .describe('an operator keeps the rows')

export const isLeast = z
  .boolean()
  .describe('a search has counted them, and perhaps more are missing: a reconcile counts all')

const evidence = z.object({
  samples: list(z.object({ key: z.string(), evidence: z.string().nullable() })),
  looked: z.object({ gone: amount, there: amount, unclear: amount }),
  looked_at: time.nullable(),
  spread: z
    .object({
      column: z.string(),
      unit: z.enum(['year', 'month', 'day']),
      buckets: list(z.object({ from: z.string(), missing: amount, rows: amount })),
    })
    .nullable(),
  most_in_a_run: amount.describe('the most rows that one run ever marked deleted'),
  marked_by_searches: amount.describe(
    'other rows that were found gone and marked deleted within the last day, since a person last decided; those that the upstream marks itself are not counted',
  ),
  words: list(z.string()).describe('the same in lines of text'),
})

export const blockedStream = z.object({
  stream: z.string(),
  missing: amount.nullable().describe('rows that the list lacks; an approval names this number'),
  is_least: isLeast,
  living: amount.nullable(),
  listed: amount.nullable(),
  since: time.nullable(),
  rejected: rejection,
  approve: z.string().nullable().describe('the command that approves them'),
})
const blocked = blockedStream.extend({ evidence }).meta({ id: 'BlockedDeletions' })
export type Blocked = z.output<typeof blocked>

const evidenceJson = (
  { spread, marked, isSinceDecision: _since, runId: _run, ...rest }: DeletionEvidence,
  words: readonly string[],
) => ({
  ...snakeCased(rest),
  words,
  spread: spread && {
    column: spread.column,
    unit: spread.unit,
    buckets: spread.buckets.map(([from, missing, rows]) => ({ from, missing, rows })),
  },
  marked_by_searches: marked,
})

export const deletions = document({
  path: '/deletions',
  title: 'Deletions that are blocked because there are too many at once',
  asked: z.strictObject({ stream: streamNames }),
  answer: z.object({ blocked: list(blocked) }),
  async read({ pool, catalogue }: Pick<Facts, 'pool' | 'catalogue'>, { stream }) {
    const wanted = pickStreams(stream, catalogue).map(({ name }) => name)
    const found = await readBlockedDeletions(pool, wanted)
    const blocked = found.map(async (one) => {
      const canLookUp = catalogue.some((stream) => stream.name === one.stream && isLookedUpByKey(stream))
      const evidence = await readDeletionEvidence(pool, one.stream)
      return { ...blockedJson(one), evidence: evidenceJson(evidence, inWords(evidence, one, canLookUp)) }
    })
    return { blocked: await Promise.all(blocked) }
  },
})

const inWords = (
  evidence: DeletionEvidence,
  blocked: BlockedDeletions,
  canLookUp: boolean,
): readonly string[] => [
  ...evidenceFacts(evidence, blocked, canLookUp).map(
    ({ text, at }) => `${text}${at ? ` (asked on ${at.toISOString()})` : ''}`,
  ),
  ...whichAreMissing(evidence),
]

const keysTold = 10
const partsTold = 8

function whichAreMissing({ samples, spread }: DeletionEvidence): readonly string[] {
  const keys = samples.slice(0, keysTold).map(({ key }) => key)
  const names = spread ? bucketNames(spread) : []
  const parts = (spread?.buckets ?? []).flatMap(([, missing, rows], index) =>
    missing > 0 ? `${names[index]} ${count(missing)} of ${count(rows)}` : [],
  )
  return [
    ...(keys.length > 0 ? [`some of them: ${keys.join(', ')}${samples.length > keysTold ? ', …' : ''}`] : []),
    ...(spread && parts.length > 0
      ? [`missing by ${spread.unit} of ${spread.column}: ${parts.slice(-partsTold).join(', ')}`]
      : []),
  ]
}
