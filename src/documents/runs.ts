// The runs, and one with what it did.

import { z } from 'zod'
import { readRun, readRuns, runOutcomes } from '../store/book/runs.ts'
import { kinds } from '../streams/catalog.ts'
import { runLog } from '../streams/run-log.ts'
import { NotThere } from '../util/errors.ts'
import { snakeCased } from '../util/text.ts'
import {
  amount,
  digits,
  document,
  type Facts,
  id,
  list,
  measure,
  moment,
  momentIn,
  nameIn,
  page,
  streamName,
  time,
  withRelated,
} from './document.ts'

const line = {
  id,
  stream: z.string(),
  kind: z.string(),
  status: z.enum(['running', 'done', 'failed', 'inconclusive']),
  started_at: time,
  finished_at: time.nullable(),
  position_from: digits.nullable(),
  position_to: digits.nullable(),
  inserted: amount,
  updated: amount,
  unchanged: amount,
  rescued: amount.describe('values that did not fit their column'),
  quarantined: amount,
  marked_deleted: amount,
  requests: amount,
  error: z.string().nullable(),
  note: z.string().nullable(),
  polls: amount.describe('how many runs in a row share this line, because they found nothing'),
  last_id: digits.nullable().describe('the last of them'),
}

const runLine = z.object(line).meta({ id: 'RunLine' })
export type RunLine = z.output<typeof runLine>

export const runs = document({
  path: '/runs',
  title: 'The runs, the newest first; runs in a row that found nothing share a line',
  asked: z.strictObject({
    stream: streamName.optional(),
    kind: z.enum(kinds).optional(),
    outcome: z.enum(runOutcomes).optional().describe('`changed`: whatever wrote a row'),
    from: moment.optional().describe('that went on at this time or later'),
    to: moment.optional().describe('that began before then'),
    ...page(20),
  }),
  answer: list(runLine),
  async read({ pool, catalogue }: Pick<Facts, 'pool' | 'catalogue'>, { kind, outcome, limit, ...asked }) {
    const stream = nameIn(withRelated(catalogue), asked.stream)
    const within = { from: momentIn(asked.from), to: momentIn(asked.to) }
    const filter = { stream, kind: kind ?? null, outcome: outcome ?? null, ...within }
    const found = await readRuns(pool, filter, { before: asked.cursor ?? null, limit })
    return found.map(snakeCased)
  },
  cursorOf: (one: RunLine) => one.id,
})

const step = z.object({
  what: z.string(),
  from: measure.describe('in milliseconds since the run began'),
  to: measure,
  requests: amount,
  records: amount,
  waited_ms: measure,
  waits: list(z.object({ from: measure, to: measure, what: z.string() })),
})

const runStory = z
  .object({
    ...line,
    host: z.string(),
    pid: amount,
    bytes: amount,
    error_code: z.string().nullable(),
    steps: list(step).nullable().describe('of the last one, where runs share a line'),
    causes: z.record(z.string(), amount).nullable().describe('differences that it found, by cause'),
    differences: list(
      z.object({
        key: z.string(),
        cause: z.string(),
        fields: list(z.string()),
        cure: z.string().nullable(),
      }),
    ),
    late_arrivals: list(z.object({ key: z.string(), late_ms: measure })),
    checkpoints: list(z.object({ position: digits, at: time })),
    log: list(z.object({ at: time, text: z.string() })),
  })
  .meta({ id: 'Run' })

export type RunStory = z.output<typeof runStory>

export const run = document({
  path: '/runs/{id}',
  title: 'One run, with its steps, what it found, and its log',
  asked: z.strictObject({ id }),
  answer: runStory,
  async read({ pool }: Pick<Facts, 'pool'>, asked) {
    const story = await readRun(pool, asked.id)
    if (story === null)
      throw new NotThere(
        `There is no run ${asked.id}. \`tidemark runs\` lists them; they are kept for 90 days.`,
      )
    return {
      ...snakeCased(story),
      steps: story.steps?.map(snakeCased) ?? null,
      late_arrivals: story.lateArrivals.map(snakeCased),
      checkpoints: story.checkpoints.map(({ position, at }) => ({ position, at: new Date(at) })),
      log: runLog(story),
    }
  },
})
