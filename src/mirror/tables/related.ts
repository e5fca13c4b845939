// Assignments' related records: as of when they were read, and which they are.

import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, text } from 'drizzle-orm/pg-core'
import { at, bytes, int8 } from './columns.ts'
import { tidemark } from './schemas.ts'

/** What is known of an assignment's related records: as of which of its rows they were read. */
export const relatedFetchTable = tidemark.table(
  'related_fetch',
  {
    assignmentId: int8('assignment_id').primaryKey(),
    /** The row of the assignment that was there before its related records were asked for; another one asks for them again. */
    hash: bytes('hash').notNull(),
    groups: text('groups').array().notNull(),
    fetchedAt: at('fetched_at'),
    /** Why the last attempt brought nothing; null when it did. */
    problem: text('problem'),
    attempts: integer('attempts').notNull().default(0),
    retryAt: at('retry_at'),
  },
  (table) => [
    index('related_fetch_by_age').on(table.fetchedAt),
    index('related_fetch_to_retry').on(table.retryAt).where(sql`retry_at is not null`),
  ],
)

/** Which related records each assignment has. */
export const relatedLinkTable = tidemark.table(
  'related_link',
  {
    assignmentId: int8('assignment_id').notNull(),
    stream: text('stream').notNull(),
    key: text('key').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.assignmentId, table.stream, table.key] }),
    index('related_link_by_key').on(table.stream, table.key),
  ],
)
