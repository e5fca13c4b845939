// Who may come in: tokens of single people and programs, and the sessions that go on. No secret is in either.

import { z } from 'zod'
import { roles } from '../operator/roles.ts'
import { readSessions, readTokens } from '../store/book/people.ts'
import { snakeCased } from '../util/text.ts'
import { document, type Facts, id, list, time } from './document.ts'

type Needed = Pick<Facts, 'pool'>
const role = z.enum(roles)

const accessToken = z
  .object({
    name: z.string(),
    role,
    created_at: time,
    created_by: z.string(),
    ends_at: time.nullable().describe('null: it is taken until it is revoked'),
    last_used_at: time.nullable(),
  })
  .meta({ id: 'AccessToken' })

export const tokens = document({
  path: '/tokens',
  title: 'Tokens of single people and programs',
  asked: z.strictObject({}),
  answer: list(accessToken),
  read: async ({ pool }: Needed) =>
    (await readTokens(pool)).map((one) => snakeCased(one) as z.output<typeof accessToken>),
})

const session = z
  .object({ id, who: z.string(), role, address: z.string(), begun_at: time, seen_at: time, ends_at: time })
  .meta({ id: 'Session' })

export const sessions = document({
  path: '/sessions',
  title: 'Who is signed in to the console',
  asked: z.strictObject({}),
  answer: list(session),
  read: async ({ pool }: Needed) =>
    (await readSessions(pool)).map((one) => snakeCased(one) as z.output<typeof session>),
})
