// Settings that were changed while workers ran.

import { text } from 'drizzle-orm/pg-core'
import { at, tidemark } from './state.ts'

/** Settings that hold instead of what the environment of the workers or the file of sources says, until somebody removes them. */
export const overrideTable = tidemark.table('setting_override', {
  /** The name of the variable; of a source that has a name, after that name, such as `acme.PAGE_SIZE`. */
  name: text('name').primaryKey(),
  /** As it would be written in the environment. */
  value: text('value').notNull(),
  /** Who set it. */
  by: text('by').notNull(),
  /** When. */
  at: at('at').notNull().defaultNow(),
})
