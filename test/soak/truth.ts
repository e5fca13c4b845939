// Compares each second what the freshness of two streams says with what is upstream at that moment (P18). The upstream is looked at first:
// what it showed then was visible by then, and what it lacked had vanished by then.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Simulator } from '../../src/simulator/simulator.ts'

const compared = ['assignment', 'assignment_note'] as const
/** Often enough to tell which of two records was there first. */
const lookEveryMs = 200
type Compared = (typeof compared)[number]

export type Truth = {
  /** What was said and did not hold, once each. */
  readonly lies: ReadonlySet<string>
  /** How many times the streams were compared. */
  seconds(): number
  /** After the signal. */
  readonly ended: Promise<void>
}

type Shown = { readonly version: bigint; readonly seenAt: Date }
type Parts = {
  readonly simulator: Simulator
  readonly pool: Pool
  readonly say: (lie: string) => void
}
/** What was seen upstream so far. */
type Seen = {
  /** By id. Late ones came in below the highest version of the look before: only the look-back is promised to bring them. */
  readonly shown: Map<number, Shown & { readonly isLate: boolean }>
  readonly gone: Map<number, Date>
  highest: bigint
}

export function watchTruth({ simulator, pool, say }: Parts, signal: AbortSignal): Truth {
  const lies = new Set<string>()
  let seconds = 0
  const all = new Map(compared.map((name) => [name, empty()]))
  const tell = (lie: string) => {
    if (!lies.has(lie)) say(lie)
    lies.add(lie)
  }
  const lookAtAll = () => {
    for (const [name, seen] of all) lookUpstream(simulator, name, seen)
  }
  const looking = setInterval(lookAtAll, lookEveryMs)
  const watch = async () => {
    while (!signal.aborted) {
      lookAtAll()
      for (const [name, seen] of all) {
        if (signal.aborted) break
        for (const lie of await findLies(pool, name, seen)) tell(`${name}: ${lie}`)
      }
      seconds += 1
      await wait(1_000, undefined, { signal }).catch(() => {})
    }
    clearInterval(looking)
  }
  return { lies, seconds: () => seconds, ended: watch() }
}

const empty = (): Seen => ({ shown: new Map(), gone: new Map(), highest: 0n })

function lookUpstream({ source }: Simulator, stream: Compared, seen: Seen): void {
  const at = new Date()
  const ids = source.ids(stream)
  const { highest } = seen
  for (const id of ids) {
    const version = source.versionOf(stream, id) ?? 0n
    seen.gone.delete(id)
    if (seen.shown.get(id)?.version === version) continue
    seen.shown.set(id, { version, seenAt: at, isLate: version < highest })
    if (version > seen.highest) seen.highest = version
  }
  const there = new Set(ids)
  for (const id of seen.shown.keys()) {
    if (there.has(id)) continue
    seen.shown.delete(id)
    seen.gone.set(id, at)
  }
}

type Said = { readonly id: string; readonly what: string; readonly at: Date }

async function findLies(pool: Pool, stream: Compared, { shown, gone }: Seen): Promise<readonly string[]> {
  const { rows: tables } = await pool.query(
    `select from pg_class where oid = to_regclass('mirror.${stream}')`,
  )
  if (tables.length === 0) return []
  const there = [...shown].map(([id, one]) => ({ id: String(id), ...one, version: String(one.version) }))
  const { rows } = await pool.query<Said>(
    `with said as materialized (select * from tidemark.freshness where stream = $1),
     there as (select * from jsonb_to_recordset($2::jsonb) as one (id bigint, version bigint, "seenAt" timestamptz, "isLate" boolean)),
     gone as (select * from jsonb_to_recordset($3::jsonb) as one (id bigint, at timestamptz)),
     lacking as (
       select there.* from there left join mirror.${stream} as mine on mine.${stream}_id = there.id
       where (mine.${stream}_id is null or mine._deleted_reason = 'absent' or mine.sys_row_version < there.version)
         and not exists (select from tidemark.quarantine where stream = $1 and key = there.id::text)
     )
     select gone.id::text, 'vanished and lives, deletions known through' as what, deletions_known_through as at
     from gone join mirror.${stream} as mine on mine.${stream}_id = gone.id and mine._deleted_at is null
     join said on gone.at <= deletions_known_through
     union all
     select id::text, 'shown and not here, read through', read_through_time from lacking
     join said on not "isLate" and version <= read_through_version and "seenAt" <= read_through_time
     union all
     select id::text, 'shown and not here, settled through', settled_through_time from lacking
     join said on version <= settled_through_version and "seenAt" <= settled_through_time`,
    [stream, JSON.stringify(there), JSON.stringify([...gone].map(([id, at]) => ({ id, at })))],
  )
  return rows.map(({ id, what, at }) => `${id} ${what} ${at.toISOString()}`)
}
