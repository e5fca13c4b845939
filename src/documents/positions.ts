// Positions that were reached, and backfills from them.

import { z } from 'zod'
import { backfillJson } from '../operator/backfill.ts'
import { asChangesStream } from '../operator/positions.ts'
import { listBackfills } from '../store/book/backfills.ts'
import { readCheckpoints } from '../store/book/checkpoints.ts'
import { pickStream } from '../streams/catalog.ts'
import { amount, digits, document, type Facts, id, list, nameIn, page, streamName, time } from './document.ts'

type Needed = Pick<Facts, 'pool' | 'catalogue'>

const checkpoint = z
  .object({
    id,
    stream: z.string(),
    position: digits,
    reached_at: time,
    reason: z.string().nullable().describe('why it went back; null: it rose'),
    moved_by: z.string().nullable(),
  })
  .meta({ id: 'Checkpoint' })

export const checkpoints = document({
  path: '/checkpoints',
  title: 'Positions that were reached, the newest first',
  asked: z.strictObject({ stream: streamName.optional(), ...page(100) }),
  answer: list(checkpoint),
  async read({ pool, catalogue }: Needed, { stream: name, limit, cursor: before = null }) {
    const stream = name === undefined ? null : asChangesStream(pickStream(name, catalogue), catalogue).name
    return await readCheckpoints(pool, { stream, limit, before })
  },
  cursorOf: (one: z.output<typeof checkpoint>) => one.id,
})

export const backfill = z
  .object({
    id,
    stream: z.string(),
    from: digits,
    to: digits,
    position: digits,
    status: z.enum(['waiting', 'running', 'done', 'cancelled']),
    requested_at: time,
    requested_by: z.string(),
    started_at: time.nullable(),
    finished_at: time.nullable(),
    rows_read: amount,
    inserted: amount,
    updated: amount,
    quarantined: amount,
    attempts: amount,
    error: z.string().nullable(),
    note: z.string().nullable(),
  })
  .meta({ id: 'Backfill' })

export const backfills = document({
  path: '/backfills',
  title: 'The last hundred backfills, the newest first',
  asked: z.strictObject({ stream: streamName.optional() }),
  answer: list(backfill),
  async read({ pool, catalogue }: Needed, { stream }) {
    return (await listBackfills(pool, nameIn(catalogue, stream))).map(backfillJson)
  },
})
