// Who did what, and whether that record was changed.

import { z } from 'zod'
import { checkActions, readActions } from '../store/book/actions.ts'
import { snakeCased } from '../util/text.ts'
import { digits, document, type Facts, id, list, nameIn, page, streamName, time } from './document.ts'

const standing = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]))
  .nullable()
  .describe('how the stream stood')

const action = z
  .object({
    id,
    at: time,
    who: z.string(),
    door: z.string().describe('where it was done: console, HTTP, terminal or worker'),
    address: z.string(),
    action: z.string(),
    target: z.string(),
    stream: z.string().nullable(),
    reason: z.string().nullable(),
    confirmed: z.string().nullable().describe('the number that was typed to confirm it'),
    before: standing,
    after: standing,
    result: z.string(),
    told: z.string().describe('what came of it, in one line'),
  })
  .meta({ id: 'Action' })

export type Action = z.output<typeof action>

export const actions = document({
  path: '/actions',
  title: 'Who did what, the newest first',
  asked: z.strictObject({ stream: streamName.optional(), ...page(20) }),
  answer: list(action),
  async read(
    { pool, catalogue }: Pick<Facts, 'pool' | 'catalogue'>,
    { stream, limit, cursor: before = null },
  ) {
    return await readActions(pool, { stream: nameIn(catalogue, stream), before, limit })
  },
  cursorOf: (one: Action) => one.id,
})

const chain = z
  .object({
    intact: z.boolean(),
    lines: digits,
    from: digits.nullable().describe('the number of the oldest line'),
    since: time.nullable(),
    newest: z.string().nullable().describe('the hash of the newest line'),
    broken: list(z.object({ id: digits, at: time, missing: digits })),
    has_kept: z.boolean().nullable().describe('whether a line has the hash that was asked for'),
  })
  .meta({ id: 'ActionChain' })

export type Chain = z.output<typeof chain>

export const verification = document({
  path: '/actions/verification',
  title: 'Whether lines of the record of actions were changed or removed',
  asked: z.strictObject({
    kept: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional()
      .describe('a hash that an earlier verification told; a line must still have it'),
  }),
  answer: chain,
  async read({ pool }: Pick<Facts, 'pool'>, { kept }) {
    const found = await checkActions(pool, kept ?? null)
    const intact = found.broken.length === 0 && found.hasKept !== false
    return { intact, ...snakeCased(found) }
  },
})
