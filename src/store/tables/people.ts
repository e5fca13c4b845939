// Who may sign in with a token of their own, and who is signed in. Of a secret only the hash is kept.

import { text } from 'drizzle-orm/pg-core'
import { at, identity, tidemark } from './state.ts'

/** Tokens of single people and programs. */
export const accessTokenTable = tidemark.table('access_token', {
  /** As it is called in the record of actions. */
  name: text('name').primaryKey(),
  /** SHA-256 of the token, which nobody can turn back. */
  hash: text('hash').notNull().unique(),
  /** What it may do: `viewer`, `operator` or `admin`. */
  role: text('role').$type<'viewer' | 'operator' | 'admin'>().notNull(),
  /** When it was made. */
  createdAt: at('created_at').notNull().defaultNow(),
  /** Who made it. */
  createdBy: text('created_by').notNull(),
  /** From when on it is refused; empty: it has no end. */
  endsAt: at('ends_at'),
  /** When it was last used, to the minute; empty: never. */
  lastUsedAt: at('last_used_at'),
})

/** Browsers that are signed in to the console. */
export const sessionTable = tidemark.table('session', {
  id: identity(),
  /** SHA-256 of the cookie. */
  hash: text('hash').notNull().unique(),
  /** Who it is: `token:` with the name of a token, `oidc:` with a name that the identity provider says, `ADMIN_TOKEN` … */
  who: text('who').notNull(),
  /** What they may do: `viewer`, `operator` or `admin`. */
  role: text('role').$type<'viewer' | 'operator' | 'admin'>().notNull(),
  /** The token with which it began: with it, the session ends. */
  token: text('token').references(() => accessTokenTable.name, { onDelete: 'cascade' }),
  /** Of ADMIN_TOKEN or VIEWER_TOKEN: what shows to whoever has the cookie that it is still the same. */
  proof: text('proof'),
  /** Network address from which it began. */
  address: text('address').notNull(),
  /** When it began. */
  begunAt: at('begun_at').notNull().defaultNow(),
  /** When it was last used, to the minute. */
  seenAt: at('seen_at').notNull().defaultNow(),
  /** When it ends by itself. */
  endsAt: at('ends_at').notNull(),
})
