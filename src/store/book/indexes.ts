// The indexes that reports ask for and Tidemark itself does not: on columns that refer to other tables, on those that the owner names, and
// on `_xid` for those who follow the changes. They are made one at a time after the first load, while runs go on.

import pg, { type Pool } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { besideIn } from '../../streams/names.ts'
import { baseSql, qualified, tableSql } from '../schema/places.ts'
import { arraysOf, queryRows } from '../server/query.ts'
import { inTurn, type Queryable, withConnection } from '../server/session.ts'
import { readSchemaMap } from './dictionary.ts'
import { confirmedReferences } from './references.ts'

/** What the owner says of a column: true, it is indexed; false, it is not, also if it refers to another table; null: nothing. */
export type IndexChoice = (stream: string, column: string) => boolean | null

type Options = {
  readonly pool: Pool
  readonly mirrored: readonly MirroredStream[]
  /** False: none is made but that of `_xid`. */
  readonly forReports: boolean
  readonly choose: IndexChoice
  readonly signal: AbortSignal
  readonly log: Logger
}
type Wanted = { readonly stream: string; readonly column: string }
type Found = Wanted & {
  readonly name: string
  readonly place: string
  readonly type: string
  readonly isThere: boolean
  /** An earlier attempt was ended before it was whole. */
  readonly isBroken: boolean
  /** It was made or found at this place before. */
  readonly wasThere: boolean
  readonly isDropped: boolean
}

/** Which tables are loaded, and with which columns: there is nothing to make anew until that changes. */
export const readLoaded = async (client: Queryable, mirrored: readonly MirroredStream[]) =>
  (await loadedOf(client, mirrored)).map(({ name, version }) => `${name} ${version}`).join(', ')

/** Returns how many were made. `null`: one could not be made yet, and the next attempt may. */
export async function makeIndexes(options: Options): Promise<number | null> {
  const { pool, mirrored } = options
  const known = await loadedOf(pool, mirrored)
  const loaded = mirrored.filter(({ name }) => known.some((one) => one.name === name))
  const wanted = await wantedIndexes(options, loaded)
  const found = await lookAt(pool, wanted)
  await note(pool, found)
  if (!found.some(isToBeMade)) return 0
  let made: number | null = 0
  await inTurn(
    pool,
    besideIn(mirrored[0]?.name ?? '', 'indexes'),
    async () => {
      for (const one of (await lookAt(pool, wanted)).filter(isToBeMade)) {
        options.signal.throwIfAborted()
        made = (await make(options, one)) && made !== null ? made + 1 : null
      }
      await note(pool, await lookAt(pool, wanted))
    },
    longestBuildMs,
  )
  return made
}

/** A worker that is gone, with its machine, keeps others from making indexes no longer than this. */
const longestBuildMs = 6 * 3_600_000

// Related records come for as long as assignments are read; most of them are there soon after the first load of these.
const loadedSql = `
  select known.name, columns_version as version from tidemark.stream as known
  where name = any ($1) and first_read_through_at is not null
    or name = any ($2) and last_success_at is not null
    or name = any ($3) and exists (
      select from tidemark.stream where name = left(known.name, strpos(known.name, '.')) || 'assignment' and first_read_through_at is not null
    )
  order by name`

function loadedOf(client: Queryable, mirrored: readonly MirroredStream[]) {
  const of = (kind: MirroredStream['kind']) =>
    mirrored.filter((one) => one.kind === kind).map(({ name }) => name)
  const values = [of('changes'), of('list'), of('related')]
  return queryRows<{ name: string; version: number }>(client, loadedSql, values)
}

async function wantedIndexes({ pool, forReports, choose, log }: Options, loaded: readonly MirroredStream[]) {
  const ofFeed = loaded.map(({ name }) => ({ stream: name, column: '_xid' }))
  if (!forReports) return ofFeed
  const views = (await readSchemaMap(pool, loaded)).filter(({ name, stream }) => name === stream)
  const chosen = views.flatMap(({ stream, columns }) =>
    columns.filter(({ name }) => choose(stream, name) === true).map(({ name }) => ({ stream, column: name })),
  )
  const references = await confirmedReferences(pool, views, (one, error) =>
    log.debug({ ...one, err: error }, 'whether a column refers to a view could not be looked up'),
  )
  const referring = references
    .map(({ from, column }) => ({ stream: from, column }))
    .filter(({ stream, column }) => choose(stream, column) === null)
  return [...ofFeed, ...chosen, ...referring]
}

const lookAt = (client: Queryable, wanted: readonly Wanted[]) =>
  queryRows<Found>(
    client,
    `select wanted.stream, wanted."column", called.name, called.place, format_type(atttypid, null) as type,
       exists (
         select from pg_index where indrelid = mine.oid and indkey[0] = attnum and indisvalid and indpred is null
       ) as "isThere",
       exists (
         select from pg_index join pg_class as its on its.oid = indexrelid
         where indrelid = mine.oid and its.relname = called.name and not indisvalid
       ) as "isBroken",
       made.place is not distinct from called.place as "wasThere", made.dropped_at is not null as "isDropped"
     from unnest($1::text[], $2::text[]) as wanted (stream, "column")
     join pg_class as mine on mine.oid = to_regclass(${tableSql('wanted.stream')}) and relkind = 'r'
     join pg_attribute on attrelid = mine.oid and attname = wanted."column" and not attisdropped
     cross join lateral (
       select format('%s_%s_idx', ${baseSql('wanted.stream')}, wanted."column")::name::text as name, format('%s.%s', mine.oid, attnum) as place
     ) as called
     left join tidemark.made_index as made on (made.stream, made.column_name) = (wanted.stream, wanted."column")`,
    arraysOf(wanted, 'stream', 'column'),
  )

/** One that was there and is gone was dropped by somebody, and stays away (P20). */
const isToBeMade = ({ isThere, isBroken, wasThere, isDropped, type }: Found): boolean =>
  !isThere && !isDropped && (isBroken || !wasThere) && type !== 'jsonb'

async function note(client: Queryable, found: readonly Found[]): Promise<void> {
  const known = found.filter(
    (one) =>
      (one.isThere && (!one.wasThere || one.isDropped)) ||
      (!one.isThere && one.wasThere && !one.isDropped && !one.isBroken),
  )
  if (known.length === 0) return
  await client.query(
    `insert into tidemark.made_index (stream, column_name, place, dropped_at)
     select stream, column_name, place, case when not is_there then now() end
     from unnest($1::text[], $2::text[], $3::text[], $4::boolean[]) as found (stream, column_name, place, is_there)
     on conflict (stream, column_name) do update set place = excluded.place, dropped_at = excluded.dropped_at`,
    arraysOf(known, 'stream', 'column', 'place', 'isThere'),
  )
}

/** While it waits for somebody's long query, the table gets no new columns: rather it is tried again later. */
const longestWaitMs = 20_000

/** False: not now. */
async function make({ pool, log }: Options, { stream, column, name, type, isBroken }: Found) {
  const index = qualified({ name: besideIn(stream, name) })
  // A text may be too long for an index that is sorted, and would then be refused when it is written.
  const method = /^(?:text|character)/.test(type) ? 'using hash ' : ''
  const drop = `drop index concurrently if exists ${index}`
  const started = performance.now()
  try {
    await withConnection(pool, async (client) => {
      await client.query(`set lock_timeout = ${longestWaitMs}`)
      if (isBroken) await client.query(drop)
      await client.query(
        `create index concurrently ${pg.escapeIdentifier(name)} on ${qualified({ name: stream })} ${method}(${pg.escapeIdentifier(column)})`,
      )
      await client.query('set lock_timeout = 0')
    })
  } catch (error) {
    log.info({ err: error, index }, 'An index for reports could not be made yet; it is tried again.')
    return false
  }
  const seconds = Math.round((performance.now() - started) / 100) / 10
  log.info({ index, seconds }, `An index for reports was made: ${name}.`)
  return true
}
