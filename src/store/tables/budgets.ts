// How often all programs together may ask the upstream, where that is not kept in Redis.

import { jsonb, text } from 'drizzle-orm/pg-core'
import { at, tidemark } from './state.ts'

/** The budget of requests that all workers share, for each address and sign-in, and what fails at each address; empty after a crash of Postgres. */
export const budgetTable = tidemark.table('budget', {
  /** The address, and a hash of who signs in; `circuit` instead: what fails there. */
  bucket: text('bucket').primaryKey(),
  /** From when on the next request may be sent. */
  freeAt: at('free_at').notNull(),
  /** Until when the upstream asked for no requests. */
  pausedUntil: at('paused_until'),
  /** What it answered, as `{code, status, problem}`. Of what fails there: the last requests, and until when who asks nothing. */
  pausedWhy: jsonb('paused_why'),
})
