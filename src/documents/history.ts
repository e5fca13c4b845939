// The figures behind the charts: what was read, written and asked for in each minute, hour or day.

import { z } from 'zod'
import { quantileMs, readAskedFor, readRequests } from '../store/book/request-history.ts'
import { readMinutes } from '../store/book/watch.ts'
import { UsageError } from '../util/errors.ts'
import { count, snakeCased } from '../util/text.ts'
import { amount, document, type Facts, list, measure, moment, momentIn, time } from './document.ts'

const stepMs = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const
const mostSteps = 1_500

const age = measure.nullable().describe('in seconds, the worst in this time')
const figures = z
  .object({
    from: time,
    to: time,
    rows: list(
      z.object({
        at: time,
        stream: z.string(),
        inserted: amount,
        updated: amount,
        deleted: amount,
        quarantined: amount,
        read_age: age,
        settled_age: age,
        deletions_age: age,
      }),
    ).describe('rows written, and how far behind each stream was'),
    requests: list(
      z.object({ at: time, stream: z.string().nullable(), kind: z.string().nullable(), requests: amount }),
    ).describe('by stream and kind of run; both null: no run is known that made them'),
    services: list(
      z.object({
        at: time,
        service: z.string(),
        requests: amount,
        bytes: amount,
        failures: z.record(z.string(), amount).describe('by class: 429, 5xx, 4xx, none (no answer)'),
        half_within_ms: measure.nullable().describe('half of the answers took up to so long'),
        most_within_ms: measure.nullable().describe('95 of 100 did'),
      }),
    ).describe('what each service was asked, and how it answered'),
  })
  .meta({ id: 'History' })

export const history = document({
  path: '/history',
  title: 'Rows written, requests made and times to answer, in each minute, hour or day of UTC',
  asked: z.strictObject({
    from: moment.optional().describe('a day before `to`, if it is left out'),
    to: moment.optional().describe('now, if it is left out'),
    per: z
      .enum(['minute', 'hour', 'day'])
      .default('hour')
      .describe('minutes are kept for 8 days, then hours, for 90 days'),
  }),
  answer: figures,
  async read({ pool, streams }: Pick<Facts, 'pool' | 'streams'>, { per, ...asked }) {
    const bucketMs = stepMs[per]
    const to = momentIn(asked.to) ?? new Date()
    const from = momentIn(asked.from) ?? new Date(to.getTime() - stepMs.day)
    // Whole steps, which begin where those of everybody else do.
    const span = { from: new Date(Math.floor(from.getTime() / bucketMs) * bucketMs), to, bucketMs }
    if (span.from >= to) throw new UsageError('`from` is not before `to`, so nothing lies between them.')
    const steps = Math.ceil((to.getTime() - span.from.getTime()) / bucketMs)
    if (steps > mostSteps)
      throw new UsageError(
        `These are ${count(steps)} steps of a ${per}, and at most ${count(mostSteps)} are told at once: ask for a shorter time, or longer steps.`,
      )
    const [rows, requests, services] = await Promise.all([
      readMinutes(
        pool,
        streams.map(({ name }) => name),
        span,
      ),
      readAskedFor(pool, span),
      readRequests(pool, span),
    ])
    return {
      from: span.from,
      to,
      rows: rows.map(snakeCased),
      requests,
      services: services.map(({ latency, ...one }) => ({
        ...one,
        half_within_ms: quantileMs(latency, 0.5),
        most_within_ms: quantileMs(latency, 0.95),
      })),
    }
  },
})
