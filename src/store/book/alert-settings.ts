// Receivers of alerts and rules that somebody set up while workers run. What is removed can be brought back for a while.

import { queryAny, queryColumn } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { alertSettingTable } from '../tables/problems.ts'
import { ask } from './ask.ts'

export type AlertSetting = Readonly<typeof alertSettingTable.$inferSelect>

/** With those that were removed lately. */
export const readAlertSettings = (client: Queryable): Promise<readonly AlertSetting[]> =>
  ask(client, (db) => db.select().from(alertSettingTable).orderBy(alertSettingTable.key))

/** Null: it is removed. False: it was not there. What was removed can be brought back for a week. */
export async function noteAlertSetting(
  client: Queryable,
  { key, value, by }: Pick<AlertSetting, 'key' | 'value' | 'by'>,
) {
  await client.query(
    `delete from tidemark.alert_setting where value is null and at < now() - interval '7 days'`,
  )
  const change =
    value === null
      ? `update tidemark.alert_setting set previous = value, value = $2, by = $3, at = now() where key = $1 and value is not null`
      : `insert into tidemark.alert_setting as known (key, value, by) values ($1, $2, $3)
         on conflict (key) do update set previous = known.value, value = excluded.value, by = excluded.by, at = now()`
  return await queryAny(client, change, [key, value, by])
}

/** What held before holds again, and the other way round. False: there was no change. */
export const swapAlertSetting = (client: Queryable, key: string, by: string) =>
  queryAny(
    client,
    'update tidemark.alert_setting set value = previous, previous = value, by = $2, at = now() where key = $1',
    [key, by],
  )

/** The names of all streams that are known here, of all sources. */
export const readStreamNames = (client: Queryable) =>
  queryColumn<string>(client, 'select name from tidemark.stream order by 1')
