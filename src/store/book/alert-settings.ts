// Receivers of alerts and rules that somebody set up while workers run. What is removed can be brought back for a while.

import { eq, sql } from 'drizzle-orm'
import type { Queryable } from '../server/session.ts'
import { alertSettingTable } from '../tables/problems.ts'
import { ask, queryColumn } from './ask.ts'

export type AlertSetting = Readonly<typeof alertSettingTable.$inferSelect>

/** With those that were removed lately. */
export const readAlertSettings = (client: Queryable): Promise<readonly AlertSetting[]> =>
  ask(client, (db) => db.select().from(alertSettingTable).orderBy(alertSettingTable.key))

/** How long what was removed can be brought back. */
const removedLasts = sql`interval '7 days'`

/** Null: it is removed. False: it was not there. */
export async function noteAlertSetting(
  client: Queryable,
  { key, value, by }: Pick<AlertSetting, 'key' | 'value' | 'by'>,
): Promise<boolean> {
  const previous = sql`${alertSettingTable.value}`
  await ask(client, (db) =>
    db
      .delete(alertSettingTable)
      .where(sql`${alertSettingTable.value} is null and ${alertSettingTable.at} < now() - ${removedLasts}`),
  )
  if (value === null) {
    const removed = await ask(client, (db) =>
      db
        .update(alertSettingTable)
        .set({ value: null, previous, by, at: sql`now()` })
        .where(sql`${alertSettingTable.key} = ${key} and ${alertSettingTable.value} is not null`)
        .returning({ key: alertSettingTable.key }),
    )
    return removed.length > 0
  }
  await ask(client, (db) =>
    db
      .insert(alertSettingTable)
      .values({ key, value, by })
      .onConflictDoUpdate({
        target: alertSettingTable.key,
        set: { value, previous, by, at: sql`now()` },
      }),
  )
  return true
}

/** What held before holds again, and the other way round. False: there was no change. */
export async function swapAlertSetting(client: Queryable, key: string, by: string): Promise<boolean> {
  const { value, previous } = alertSettingTable
  const swapped = await ask(client, (db) =>
    db
      .update(alertSettingTable)
      .set({ value: sql`${previous}`, previous: sql`${value}`, by, at: sql`now()` })
      .where(eq(alertSettingTable.key, key))
      .returning({ key: alertSettingTable.key }),
  )
  return swapped.length > 0
}

/** The names of all streams that are known here, of all sources. */
export const readStreamNames = (client: Queryable) =>
  queryColumn<string>(client, 'select name from tidemark.stream order by 1')
