// What people were told: one line for each concern that was seen lately.

import { integer, text } from 'drizzle-orm/pg-core'
import { at } from './columns.ts'
import { tidemark } from './schemas.ts'

export const alertTable = tidemark.table('alert', {
  key: text('key').primaryKey(),
  kind: text('kind').notNull(),
  stream: text('stream'),
  what: text('what').notNull(),
  whatToDo: text('what_to_do').notNull(),
  since: at('since').notNull(),
  /** Since when it is no longer seen; null while it stands. */
  goneSince: at('gone_since'),
  /** Null until people were told that it began. */
  toldAt: at('told_at'),
  /** How often the telling failed, and when it is tried again. */
  attempts: integer('attempts').notNull().default(0),
  retryAt: at('retry_at'),
})
