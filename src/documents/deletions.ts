// Deletions that are blocked because there are too many at once, and what speaks for and against them.

import { z } from 'zod'
import { blockedJson } from '../operator/deletions.ts'
import { type DeletionEvidence, readBlockedDeletions, readDeletionEvidence } from '../store/book/deletions.ts'
import { pickStreams } from '../streams/catalog.ts'
import { snakeCased } from '../util/text.ts'
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
  marked_by_searches: amount.describe('rows that were marked deleted within the last day'),
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

/** Of the streams that are named, or of all. */
export async function readBlocked(pool: Facts['pool'], streams: readonly string[]) {
  const blocked = await readBlockedDeletions(pool, streams)
  return await Promise.all(
    blocked.map(async (one) => ({ one, evidence: await readDeletionEvidence(pool, one.stream) })),
  )
}

const evidenceJson = ({ spread, markedWithinDay, runId: _run, ...rest }: DeletionEvidence) => ({
  ...snakeCased(rest),
  spread: spread && {
    column: spread.column,
    unit: spread.unit,
    buckets: spread.buckets.map(([from, missing, rows]) => ({ from, missing, rows })),
  },
  marked_by_searches: markedWithinDay,
})

export const deletionsJson = (blocked: Awaited<ReturnType<typeof readBlocked>>) => ({
  blocked: blocked.map((found) => ({ ...blockedJson(found.one), evidence: evidenceJson(found.evidence) })),
})

export const deletions = document({
  path: '/deletions',
  title: 'Deletions that are blocked because there are too many at once',
  asked: z.strictObject({ stream: streamNames }),
  answer: z.object({ blocked: list(blocked) }),
  async read({ pool, catalogue }: Pick<Facts, 'pool' | 'catalogue'>, { stream }) {
    const wanted = pickStreams(stream, catalogue).map(({ name }) => name)
    return deletionsJson(await readBlocked(pool, wanted))
  },
})
