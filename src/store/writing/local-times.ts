// Asks Postgres how far the local times of a zone are ahead of UTC. With that, this program can write a date-time without an offset in
// the binary format, as exactly the moment that Postgres would read from its text, also where clocks are put forward or back (P4).

import type { ClientBase, Pool } from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import type { LocalTimes } from '../encoding/plain-row.ts'
import { inTransaction, withConnection } from '../server/session.ts'
import type { OffsetAt } from '../types/column-type.ts'
import { localSuffix } from '../types/timestamptz.ts'

/** Date-times outside of this span are left to Postgres. Within it no zone has an offset with seconds. */
const asked = { from: '1980-01-01', to: '2060-01-01' } as const
/** Asked again after this: a new law may change a zone, and Postgres may be updated while this program runs. */
const lastsMs = 3_600_000

type Known = { readonly until: number; readonly offsets: Promise<LocalTimes> }
const knownOf = new WeakMap<Pool, Map<string, Known>>()

/** Reads the offsets of the zone of a stream's date-times, and of the zones that were set for some of its fields. */
export function readLocalTimes(
  pool: Pool,
  { fieldZones = {} }: Pick<MirroredStream, 'fieldZones'>,
  timeZone: string,
): Promise<LocalTimes> {
  const suffixes = [...new Set(['', ...Object.values(fieldZones).map(localSuffix)])]
  const name = JSON.stringify([timeZone, ...suffixes])
  const known = knownOf.get(pool) ?? new Map<string, Known>()
  knownOf.set(pool, known)
  const latest = known.get(name)
  if (latest && performance.now() < latest.until) return latest.offsets
  const offsets = askPostgres(pool, suffixes, timeZone)
  offsets.catch(() => known.delete(name))
  known.set(name, { until: performance.now() + lastsMs, offsets })
  return offsets
}

async function askPostgres(pool: Pool, suffixes: readonly string[], timeZone: string): Promise<LocalTimes> {
  const isUtc = (suffix: string) => (suffix === '' ? timeZone : suffix.trim()) === 'UTC'
  const others = suffixes.filter((suffix) => !isUtc(suffix))
  const utc = suffixes.filter(isUtc).map((suffix): [string, OffsetAt] => [suffix, () => 0])
  if (others.length === 0) return new Map(utc)
  return await withConnection(pool, (client) =>
    inTransaction(client, async () => {
      await client.query(`select set_config('timezone', $1, true), set_config('datestyle', 'ISO', true)`, [
        timeZone,
      ])
      const offsets = new Map(utc)
      for (const suffix of others) offsets.set(suffix, await offsetsOf(client, suffix))
      return offsets
    }),
  )
}

/** A span of local time at whose end another offset holds than at its beginning. */
type Change = { readonly from: string; readonly to: string; readonly offset: number }

const steps = ['1 day', '1 hour', '1 minute', '1 second'] as const

async function offsetsOf(client: ClientBase, suffix: string): Promise<OffsetAt> {
  let changes: readonly Change[] = [{ ...asked, offset: 0 }]
  for (const step of steps) changes = await findChanges(client, suffix, changes, step)
  const { rows } = await client.query<{ seconds: number; offset: number; first: number; last: number }>(
    `select ${sinceSql('place')} as seconds, ${offsetSql('$2::timestamp')} as offset,
            ${sinceSql('$2::timestamp')} as first, ${sinceSql('$3::timestamp')} as last
     from unnest($4::timestamp[]) as place order by place`,
    [suffix, asked.from, asked.to, [asked.from, ...changes.map(({ to }) => to)]],
  )
  const first = rows[0]
  if (!first) return () => null
  const starts = Float64Array.from(rows, ({ seconds }) => seconds)
  const offsets = Float64Array.from([first.offset, ...changes.map(({ offset }) => offset)])
  return offsetFinder(starts, offsets, first.last)
}

async function findChanges(client: ClientBase, suffix: string, spans: readonly Change[], step: string) {
  // As text: a Date of this program cannot hold an hour that its own time zone leaves out.
  const { rows } = await client.query<Change>(
    `select "from"::text, "to"::text, "offset" from (
       select lag(place) over each as "from", place as "to", place_offset as "offset",
         lag(place_offset) over each as before
       from (
         select number, place, ${offsetSql('place')} as place_offset
         from unnest($2::timestamp[], $3::timestamp[]) with ordinality as span (first, last, number),
           generate_series(first, last, $4::interval) as place
       ) as places
       window each as (partition by number order by place)
     ) as steps
     where "offset" <> before order by "to"`,
    [suffix, spans.map(({ from }) => from), spans.map(({ to }) => to), step],
  )
  return rows
}

/** As Postgres reads the text of a local time, which is followed by the first parameter. */
const offsetSql = (place: string): string =>
  `extract(epoch from ${place} - ((${place}::text || $1)::timestamptz at time zone 'UTC'))::int`
const sinceSql = (place: string): string => `extract(epoch from ${place} - timestamp '2000-01-01')::float8`

/** The offset that holds from the last start on; null before the first and from the end on. */
function offsetFinder(starts: Float64Array, offsets: Float64Array, end: number): OffsetAt {
  let last = 0
  const holds = (index: number, seconds: number) =>
    (starts[index] as number) <= seconds && seconds < (starts[index + 1] ?? end)
  return (seconds) => {
    if (holds(last, seconds)) return offsets[last] as number
    if (seconds < (starts[0] as number) || seconds >= end) return null
    let [low, high] = [0, starts.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((starts[middle] as number) <= seconds) low = middle
      else high = middle - 1
    }
    last = low
    return offsets[low] as number
  }
}
