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
    /** Name given at sign-in; empty if none was given, and for scripts. At the terminal, the user of the machine. */
    who: text('who').notNull(),
    /** From where: `console`, `HTTP` (scripts) or `terminal`. */
    door: text('door').notNull(),
    /** Network address of the client; at the terminal, the name of the machine. */
    address: text('address').notNull(),
    /** What was done: `pause`, `approve`, `dropQuarantine` … */
    action: text('action').notNull(),
    /** The stream, or the id of the entry. */
    target: text('target').notNull(),
    /** The stream that it is about; empty when it is not about one. */
    stream: text('stream'),
    /** The reason they gave. */
    reason: text('reason'),
    /** The number that they confirmed. */
    confirmed: int8('confirmed'),
    /** State before, in a few words. */
    before: jsonb('before'),
    /** State afterwards. */
    after: jsonb('after'),
    /** `done`, `begun` (it continues by itself), `refused` or `failed`. */
    result: text('result').notNull(),
    /** The answer they got. */
    told: text('told').notNull(),
  },
  (table) => [index('action_by_stream').on(table.stream, table.id)],
)
