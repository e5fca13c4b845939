// Settings that somebody changed while workers ran: they hold until they are removed.

import { eq, sql } from 'drizzle-orm'
import { type Override, overridesOf, type StoredOverride } from '../../streams/settings.ts'
import { queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { overrideTable } from '../tables/overrides.ts'
import { ask, overwritten } from './ask.ts'

/** Of one source, by the names that they have there. */
export const readOverrides = async (client: Queryable, source: string): Promise<readonly StoredOverride[]> =>
  overridesOf(await readAllOverrides(client), source)

/** Those of other sources than the one that the environment describes are called `acme.PAGE_SIZE`. */
export const readAllOverrides = (client: Queryable) =>
  queryRows<StoredOverride>(client, 'select name, value, by, at from tidemark.setting_override order by name')

type KeptAlert = { readonly key: string; readonly value: Readonly<Record<string, string>> }

/** Of all sources. Each worker asks this every few seconds. `asked`: another text when other runs are asked for, or other streams are paused. */
export async function readOverridesAndAsked(client: Queryable): Promise<{
  readonly overrides: readonly Override[]
  /** Receivers and rules that were set up while workers run. */
  readonly alerts: readonly KeptAlert[]
  readonly asked: string
}> {
  const { rows } = await client.query({
    name: 'tidemark_overrides_alerts_and_asked',
    text: `select
        (select coalesce(json_agg(json_build_object('name', name, 'value', value) order by name), '[]') from tidemark.setting_override) as overrides,
        (select coalesce(json_agg(json_build_object('key', key, 'value', value) order by key), '[]') from tidemark.alert_setting where value is not null) as alerts,
        concat((select max(asked_at) from tidemark.due), (select md5(string_agg(name, ' ' order by name)) from tidemark.stream where paused_at is not null)) as asked`,
  })
  return rows[0]
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
