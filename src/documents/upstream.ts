// What is believed of the upstream, and which workers ask it.

import { z } from 'zod'
import { readBeliefs } from '../store/book/dictionary.ts'
import { readWorkers } from '../store/book/watch.ts'
import { beliefKind, expiryOf, verdictOf } from '../streams/beliefs.ts'
import { snakeCased } from '../util/text.ts'
import { amount, document, type Facts, list, time } from './document.ts'

const belief = z
  .object({
    stream: z.string(),
    name: z.string(),
    claim: z.string().nullable(),
    value: z.string(),
    verdict: z.enum(['holds', 'does not hold', 'unknown']),
    evidence: z.string(),
    first_at: time,
    tested_at: time,
    expires_at: time.nullable().describe('from then on it is doubted'),
    previous_value: z.string().nullable(),
    changed_at: time.nullable(),
    rests_since: time.nullable().describe('since when runs rely on it'),
  })
  .meta({ id: 'Belief' })

export const beliefs = document({
  path: '/upstream',
  title: 'How the upstream behaves, as Tidemark found out by testing',
  asked: z.strictObject({}),
  answer: z.object({ beliefs: list(belief) }),
  async read({ pool }: Pick<Facts, 'pool'>) {
    const now = new Date()
    const lines = await readBeliefs(pool)
    return {
      beliefs: lines.map((line) => ({
        ...snakeCased(line),
        claim: beliefKind(line.name)?.claim ?? null,
        verdict: verdictOf(line, now),
        expires_at: expiryOf(line),
      })),
    }
  },
})

const worker = z
  .object({
    id: z.string(),
    host: z.string(),
    pid: amount,
    version: z.string(),
    started_at: time,
    seen_at: time,
    is_gone: z.boolean().describe('it has said nothing for a minute'),
    runs: list(z.object({ stream: z.string(), kind: z.string(), since: time })),
    waits: list(z.object({ what: z.string(), until: time.nullable() })),
  })
  .meta({ id: 'Worker' })

export const workers = document({
  path: '/workers',
  title: 'The workers, and what each does now',
  asked: z.strictObject({}),
  answer: list(worker),
  async read({ pool }: Pick<Facts, 'pool'>) {
    return (await readWorkers(pool)).map(({ runs, waits, ...one }) => ({
      ...snakeCased(one),
      runs: runs.map(({ stream, kind, since }) => ({ stream, kind, since: new Date(since) })),
      waits: waits.map(({ what, until }) => ({ what, until: until === null ? null : new Date(until) })),
    }))
  },
})
