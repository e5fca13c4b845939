// What is wrong and was, and what people were told of it.

import { sql } from 'drizzle-orm'
import { boolean, index, integer, jsonb, primaryKey, real, text, uniqueIndex } from 'drizzle-orm/pg-core'
import { at, identity, tidemark } from './state.ts'

/** Problems that no other table shows. Those that a worker has by itself also have a line `seen_…` for each worker that has them. */
export const noticeTable = tidemark.table('notice', {
  /** The same as long as it is the same problem. */
  key: text('key').primaryKey(),
  /** What it is. */
  what: text('what').notNull(),
  /** Since when; in lines `seen_…`, when the worker last said so. */
  since: at('since').notNull().defaultNow(),
})

/** Alerts that were sent: one line for each recent problem and receiver. */
export const problemTable = tidemark.table(
  'problem',
  {
    /** Who is told: a receiver of the file that `ALERTS` names; `default` is that of `ALERT_WEBHOOK_URL`. */
    receiver: text('receiver').notNull().default('default'),
    /** The same as long as it is the same problem. */
    key: text('key').notNull(),
    /** Kind of the problem; each has a runbook. */
    kind: text('kind').notNull(),
    /** The stream; empty when it is not about one. */
    stream: text('stream'),
    /** What is wrong. */
    what: text('what').notNull(),
    /** What helps. */
    whatToDo: text('what_to_do').notNull(),
    /** Since when. */
    since: at('since').notNull(),
    /** Since when it is over; empty while it lasts. */
    goneSince: at('gone_since'),
    /** When the alert of its beginning was sent; empty until then. */
    toldAt: at('told_at'),
    /** How often sending the message failed. */
    attempts: integer('attempts').notNull().default(0),
    /** When it is sent again. */
    retryAt: at('retry_at'),
    /** It got worse after somebody had acknowledged it, and is told once more. */
    isWorse: boolean('is_worse').notNull().default(false),
  },
  (table) => [primaryKey({ columns: [table.receiver, table.key] })],
)

/** Receivers of alerts and rules that were set up while workers ran, beside those of the file that `ALERTS` names. */
export const alertSettingTable = tidemark.table('alert_setting', {
  /** `receiver:chat`, `rule:night`. */
  key: text('key').primaryKey(),
  /** What is said of it; its secrets are encrypted in `sealed`. Empty: it was removed. */
  value: jsonb('value').$type<Readonly<Record<string, string>>>(),
  /** What was said before the last change; empty: nothing. */
  previous: jsonb('previous').$type<Readonly<Record<string, string>>>(),
  /** Who changed it last. */
  by: text('by').notNull(),
  /** When. */
  at: at('at').notNull().defaultNow(),
})

/** Problems of which no alerts are sent, because somebody said so. */
export const silenceTable = tidemark.table('silence', {
  /** Which: the key of a problem, `kind:stale`, `stream:assignment`, or `all`. */
  target: text('target').primaryKey(),
  /** Until when it is muted; empty: it is acknowledged, until it is over or gets worse. */
  until: at('until'),
  /** Who said so. */
  by: text('by').notNull(),
  /** Why. */
  reason: text('reason').notNull(),
  /** When. */
  at: at('at').notNull().defaultNow(),
  /** For one that is acknowledged: when a worker saw the problem last. */
  seenAt: at('seen_at').notNull().defaultNow(),
  /** How many rows or records it was about then; empty: it has no such number. */
  size: real('size'),
})

/** Current and past problems, for 90 days, without those that are only for information. */
export const problemHistoryTable = tidemark.table(
  'problem_history',
  {
    id: identity(),
    /** The same as long as it is the same problem. */
    key: text('key').notNull(),
    /** Kind of the problem; each has a runbook. */
    kind: text('kind').notNull(),
    /** The stream; empty when it is not about one. */
    stream: text('stream'),
    /** What was wrong when it was last seen. */
    what: text('what').notNull(),
    /** Since when. */
    since: at('since').notNull(),
    /** When a worker saw it last. */
    seenAt: at('seen_at').notNull(),
    /** When it was over; empty while it lasts. */
    endedAt: at('ended_at'),
  },
  (table) => [
    uniqueIndex('problem_that_lasts').on(table.key).where(sql`ended_at is null`),
    index('problem_by_end').on(table.endedAt),
  ],
)
