// Settings that somebody changed while workers ran: they hold until they are removed.

import { eq, sql } from 'drizzle-orm'
import type { StoredOverride } from '../../streams/settings.ts'
import type { Queryable } from '../server/session.ts'
import { overrideTable } from '../tables/overrides.ts'
import { ask, overwritten } from './ask.ts'

/** Each worker asks this every few seconds. */
export async function readOverrides(client: Queryable): Promise<readonly StoredOverride[]> {
  const { rows } = await client.query<StoredOverride>({
    name: 'tidemark_overrides',
    text: 'select name, value, by, at from tidemark.setting_override order by name',
  })
  return rows
}

export async function noteOverride(client: Queryable, override: Omit<StoredOverride, 'at'>): Promise<void> {
  await ask(client, (db) =>
    db
      .insert(overrideTable)
      .values(override)
      .onConflictDoUpdate({
        target: overrideTable.name,
        set: { ...overwritten(overrideTable, ['value', 'by']), at: sql`now()` },
      }),
  )
}

/** False: there was none. */
export async function removeOverride(client: Queryable, name: string): Promise<boolean> {
  const removed = await ask(client, (db) =>
    db.delete(overrideTable).where(eq(overrideTable.name, name)).returning({ name: overrideTable.name }),
  )
  return removed.length > 0
}
