// What was learnt about the upstream: facts about its behaviour, and the fields of its records.

import { sql } from 'drizzle-orm'
import { numeric, primaryKey, text } from 'drizzle-orm/pg-core'
import { at, count } from './columns.ts'
import { tidemark } from './schemas.ts'

export const factTable = tidemark.table(
  'fact',
  {
    stream: text('stream').notNull(),
    name: text('name').notNull(),
    value: text('value').notNull(),
    evidence: text('evidence').notNull(),
    firstAt: at('first_at').notNull(),
    checkedAt: at('checked_at').notNull(),
    previousValue: text('previous_value'),
    changedAt: at('changed_at'),
  },
  (table) => [primaryKey({ columns: [table.stream, table.name] })],
)

export const fieldTable = tidemark.table(
  'field',
  {
    stream: text('stream').notNull(),
    /** The field's name without regard to case: what makes it the same field. */
    folded: text('folded').notNull(),
    sourceName: text('source_name').notNull(),
    /** Null when the field has no column: its values are in `_rescued`. */
    columnName: text('column_name'),
    columnType: text('column_type'),
    note: text('note'),
    firstSeenAt: at('first_seen_at').notNull().defaultNow(),
    lastSeenAt: at('last_seen_at').notNull().defaultNow(),
    recordsSeen: count('records_seen'),
    nullsSeen: count('nulls_seen'),
    rescued: count('rescued'),
    /** When the first value of it did not fit its column. */
    rescuedSince: at('rescued_since'),
    /** When its column was widened, or should have been. */
    widenedAt: at('widened_at'),
    nullShare: numeric('null_share', { precision: 5, scale: 4 }).generatedAlwaysAs(
      sql`nulls_seen::numeric / nullif(records_seen, 0)`,
    ),
  },
  (table) => [primaryKey({ columns: [table.stream, table.folded] })],
)
