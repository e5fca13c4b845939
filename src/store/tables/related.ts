// Assignments' related records: as of when they were read, and which they are.

import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, text } from 'drizzle-orm/pg-core'
import { at, bytes, int8, tidemark } from './state.ts'

/** When the related records of each assignment were read, and which wait to be tried again. */
export const relatedFetchTable = tidemark.table(
  'related_fetch',
  {
    /** Its source; empty: the one that the environment describes. */
    source: text('source').notNull().default(''),
    /** The assignment. */
    assignmentId: int8('assignment_id').notNull(),
    /** Fingerprint of the assignment’s row at the last reading; if the row's differs, it is read again. */
    hash: bytes('hash').notNull(),
    /** Groups that were read. */
    groups: text('groups').array().notNull(),
    /** When they were read. */
    fetchedAt: at('fetched_at'),
    /** Why the last attempt failed; empty if it succeeded. */
    problem: text('problem'),
    /** Failed attempts in a row. */
    attempts: integer('attempts').notNull().default(0),
    /** When it is tried again. */
    retryAt: at('retry_at'),
  },
  (table) => [
    primaryKey({ columns: [table.source, table.assignmentId] }),
    index('related_fetch_by_age').on(table.fetchedAt),
    index('related_fetch_to_retry').on(table.retryAt).where(sql`retry_at is not null`),
  ],
)

/** Which related records each assignment has. */
export const relatedLinkTable = tidemark.table(
  'related_link',
  {
    /** The assignment. */
    assignmentId: int8('assignment_id').notNull(),
    /** The group. */
    stream: text('stream').notNull(),
    /** Key of the related record. */
    key: text('key').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.assignmentId, table.stream, table.key] }),
    index('related_link_by_key').on(table.stream, table.key),
  ],
)
