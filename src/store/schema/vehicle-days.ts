// The view `bi.tracker_object_day`: for each vehicle and each local day how far it drove, and when it first and last moved. It is made over
// the history of vehicles, so that one vehicle is found by the index on key and time.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { baseOf } from '../../streams/names.ts'
import { queryRow } from '../server/query.ts'
import { closeNewSql } from './closed-rights.ts'
import type { TableSchema } from './table-schema.ts'
import { meaningsSql, unlessOthers, vehicleDays } from './views.ts'

/** A parked vehicle is seen now here, now there. */
const leastMetres = 30

/** What the comment of the view says where it is as it should be; null: there is none to make. */
export function daysTold({ stream, history }: TableSchema, zone: string): string | null {
  const has = (name: string) => history?.columns.includes(name) === true
  if (baseOf(stream.name) !== 'tracker_object' || !history || !has('latitude') || !has('longitude'))
    return null
  return `how far each vehicle drove on each day of ${zone}, by ${history.table}`
}

/** Makes the view where the history has positions, and makes it anew for another zone. Within a transaction. */
export async function showVehicleDays(
  client: ClientBase,
  tableSchema: TableSchema,
  zone: string,
  log: Logger,
): Promise<void> {
  const { key, history } = tableSchema
  const has = (name: string) => history?.columns.includes(name) === true
  const told = daysTold(tableSchema, zone)
  if (told === null || !history) return
  const view = vehicleDays(tableSchema.stream)
  const before = await queryRow<{ words: string | null }>(
    client,
    'select obj_description(to_regclass($1)) as words',
    [view],
  )
  if (before?.words === told) return
  const name = pg.escapeIdentifier(key.name)
  const time = ['last_position_time', 'last_position_time_utc'].find(has)
  const seen = `coalesce(${[...(time ? [`${time}::timestamptz`] : []), '_observed_at'].join(', ')})`
  const meanings = {
    [key.name]: 'the vehicle',
    day: `the day in ${zone}`,
    distance_km: `from position to position in a straight line, steps below ${leastMetres} m left out`,
    odometer_distance: 'by the odometer, in its own unit',
    first_moved_at: 'when it first was somewhere else than before',
    last_moved_at: 'when it last was somewhere else than before',
    positions: 'how many positions were seen',
  }
  await unlessOthers(client, { log, what: view, lack: 'does not show the days of vehicles' }, () =>
    client.query(`
      create or replace view ${view} as
      select ${name}, day, round((sum(metres) filter (where has_moved) / 1000)::numeric, 1) as distance_km,
        ${has('odometer') ? '(max(odometer) - min(coalesce(odometer_before, odometer)))::numeric' : 'null::numeric'} as odometer_distance,
        min(seen_at) filter (where has_moved) as first_moved_at, max(seen_at) filter (where has_moved) as last_moved_at,
        count(*) as positions
      from (
        select *, metres >= ${leastMetres} as has_moved, (seen_at at time zone ${pg.escapeLiteral(zone)})::date as day
        from (
          select ${name}, seen_at${has('odometer') ? ', odometer, odometer_before' : ''},
            -- As on a plane: the steps between two looks are short.
            6371000 * radians(sqrt(north * north + (east * cos(radians(latitude))) ^ 2)) as metres
          from (
            select ${name}, ${seen} as seen_at, latitude::float8 as latitude,${has('odometer') ? ' odometer, lag(odometer) over line as odometer_before,' : ''}
              latitude::float8 - lag(latitude::float8) over line as north,
              longitude::float8 - lag(longitude::float8) over line as east
            from ${history.table} where _deleted_at is null and latitude is not null and longitude is not null
            window line as (partition by ${name} order by _observed_at)
          ) as place
        ) as step
      ) as moved
      group by ${name}, day;
      ${before?.words === null ? closeNewSql(view) : ''};
      comment on view ${view} is ${pg.escapeLiteral(told)};
      ${meaningsSql(view, meanings)}`),
  )
}
