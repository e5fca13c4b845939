// What people did: one line for each action, by the console, over HTTP or at the terminal.

import { index, jsonb, text } from 'drizzle-orm/pg-core'
import { at, identity, int8, tidemark } from './state.ts'

/** Who did what, from where and why, for two years. */
export const actionTable = tidemark.table(
  'action',
  {
    id: identity(),
    /** When. */
    at: at('at').notNull().defaultNow(),
    /** The name that they gave when they signed in, empty when they gave none, and for scripts; at the terminal the user of the machine. */
    who: text('who').notNull(),
    /** By which door: `console`, `HTTP` for scripts, or `terminal`. */
    door: text('door').notNull(),
    /** The address that it came from; at the terminal the name of the machine. */
    address: text('address').notNull(),
    /** What was done: `pause`, `approve`, `dropQuarantine` … */
    action: text('action').notNull(),
    /** The stream, or the id of what was meant. */
    target: text('target').notNull(),
    /** The stream that it is about; empty when it is not about one. */
    stream: text('stream'),
    /** Why, in their words. */
    reason: text('reason'),
    /** The number that they confirmed. */
    confirmed: int8('confirmed'),
    /** How it stood before, where that is told by a few words. */
    before: jsonb('before'),
    /** How it stood afterwards. */
    after: jsonb('after'),
    /** `done`, `begun` (it goes on by itself), `refused` or `failed`. */
    result: text('result').notNull(),
    /** What they were told. */
    told: text('told').notNull(),
  },
  (table) => [index('action_by_stream').on(table.stream, table.id)],
)
