// How each source stands.

import { z } from 'zod'
import { readSourceLines } from '../store/book/source-config.ts'
import { snakeCased } from '../util/text.ts'
import { amount, document, type Facts, list, time } from './document.ts'

export const source = z
  .object({
    name: z.string().describe('empty: the one that the environment describes'),
    state: z
      .enum(['stopped', 'behind', 'loading', 'paused', 'live', 'new'])
      .describe('the worst of its streams'),
    streams: amount,
    read_through_at: time
      .nullable()
      .describe('the earliest of its streams; null: one of them is not read yet'),
    deletions_known_at: time.nullable().describe('the same for deletions'),
    reasons: list(z.string()),
    tags: list(z.string()),
    is_gone: z.boolean().describe('it is gone from the file of sources'),
    problem: z.string().nullable().describe('why it stands still'),
    problems: amount.describe(
      'how many there are of it, this one among them; `/sources`: when workers noted them last, within a minute',
    ),
    changed_settings: amount.describe('how many of its settings were changed while workers run'),
  })
  .meta({ id: 'Source' })

export type Source = z.output<typeof source>

export const sources = document({
  path: '/sources',
  title: 'The sources, the worst first',
  asked: z.strictObject({}),
  answer: list(source),
  read: async ({ pool }: Pick<Facts, 'pool'>) =>
    (await readSourceLines(pool)).map((line) => snakeCased(line) as Source),
})
