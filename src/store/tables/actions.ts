// What people did: lines that are only ever added, by the console, over HTTP or at the terminal. Each holds a hash over its content and the
// hash before, so that a changed or missing one shows. The migration that makes them has the triggers which see to that.

import { sql } from 'drizzle-orm'
import { index, jsonb, text, uniqueIndex } from 'drizzle-orm/pg-core'
import { at, int8, tidemark } from './state.ts'

// What the table and the view have alike.
const saidOfAction = () => ({
  /**
   * `token:ola`, `oidc:ola`, `proxy:ola`, `ADMIN_TOKEN` or `VIEWER_TOKEN`, also for scripts; in the demo `demo`. At the terminal, the user of the
   * machine. Empty if nobody was signed in, and for what Tidemark does by itself.
   */
  who: text('who'),
  /** From where: `console`, `HTTP` (scripts), `terminal`, or `worker` for what Tidemark does to this table by itself. */
  door: text('door'),
  /** Network address of the client; at the terminal, the name of the machine. */
  address: text('address'),
  /** What was done: `pause`, `approve`, `dropQuarantine`, `signIn` … */
  action: text('action'),
  /** The stream, or the id of the entry. */
  target: text('target'),
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
})

/**
 * Who did what, from where and why, for two years: a line when something begins, and another one for what came of it. `tidemark.action`
 * shows both as one. Nobody can change a line; `tidemark actions verify` checks them.
 */
export const actionLogTable = tidemark.table(
  'action_log',
  {
    /** In the order of the lines. */
    id: int8('id').primaryKey(),
    /** When. */
    at: at('at').notNull().defaultNow(),
    /** The line that this one ends; empty in a line that begins something. All but the result is empty in a line that ends another. */
    ends: int8('ends'),
    ...saidOfAction(),
    /** `done`, `begun` (it continues by itself), `refused` or `failed`. */
    result: text('result').notNull(),
    /** The answer they got. */
    told: text('told').notNull(),
    /** SHA-256 of the hash before and of this line. */
    hash: text('hash').notNull(),
  },
  (table) => [
    index('action_by_stream').on(table.stream, table.id),
    uniqueIndex('action_ends_once').on(table.ends).where(sql`ends is not null`),
  ],
)

/** One line for each action, with what came of it. */
export const actionView = tidemark
  .view('action', {
    id: int8('id'),
    at: at('at'),
    ...saidOfAction(),
    result: text('result'),
    told: text('told'),
  })
  .as(
    sql`select begun.id, begun.at, begun.who, begun.door, begun.address, begun.action, begun.target, begun.stream, begun.reason, begun.confirmed, begun.before,
  coalesce(ended.after, begun.after) as after, coalesce(ended.result, begun.result) as result, coalesce(ended.told, begun.told) as told
  from tidemark.action_log as begun left join tidemark.action_log as ended on ended.ends = begun.id where begun.ends is null`,
  )
