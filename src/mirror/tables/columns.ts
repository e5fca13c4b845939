// The kinds of column that Tidemark's own tables are made of. Migrations are generated from the files of this folder.

import { sql } from 'drizzle-orm'
import { bigint, customType, timestamp } from 'drizzle-orm/pg-core'

export const at = (name: string) => timestamp(name, { withTimezone: true })
export const int8 = (name: string) => bigint(name, { mode: 'bigint' })
export const count = (name: string) => int8(name).notNull().default(sql`0`)
export const bytes = customType<{ data: Buffer }>({ dataType: () => 'bytea' })
export const identity = () => int8('id').primaryKey().generatedAlwaysAsIdentity()
