// Programs beside the workers that trust what the manual says: one follows the changes by the feed and is killed now and then, the other
// copies a view and later asks the history for the same moments.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Finding } from './verdict.ts'

type Following = { readonly pool: Pool; readonly random: () => number; readonly signal: AbortSignal }

const lookEveryMs = 50
/** Of its looks, so many lose what they read before it was stored. */
const killedShare = 0.05
/** What Tidemark notes of its own work is no part of a row. */
const rowSql = `md5(jsonb_strip_nulls(to_jsonb(mine) - '{_synced_at,_xid,_hash}'::text[])::text) as row`

type Row = { readonly key: string; readonly row: string; readonly gone?: boolean }

const asMap = (rows: readonly Row[]): Map<string, string> => new Map(rows.map(({ key, row }) => [key, row]))

function unlike(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): readonly string[] {
  return [...new Set([...one.keys(), ...other.keys()])].filter((key) => one.get(key) !== other.get(key))
}

/** Ends after the signal. */
export function followFeed({ pool, random, signal }: Following) {
  let stored: { position: string | null; rows: Map<string, string> } = { position: null, rows: new Map() }
  let looks = 0
  let kills = 0
  const look = async () => {
    const { rows: asked } = await pool.query<{ next: string; position: string | null }>(
      `select tidemark.feed_position()::text as next,
         case when $1::xid8 <= tidemark.feed_position() then $1 end as position`,
      [stored.position],
    )
    const { next = null, position = null } = asked[0] ?? {}
    const { rows } = await pool.query<Row>(
      `select assignment_id::text as key, _deleted_at is not null as gone, ${rowSql}
       from mirror.assignment as mine where $1::xid8 is null or _xid >= $1::xid8`,
      [position],
    )
    looks++
    if (random() < killedShare) {
      kills++
      return
    }
    const copy = position === null ? new Map<string, string>() : stored.rows
    for (const { key, row, gone } of rows)
      if (gone) copy.delete(key)
      else copy.set(key, row)
    stored = { position: next, rows: copy }
  }
  const ended = (async () => {
    while (!signal.aborted) {
      // Postgres is away, or there is no table yet.
      await look().catch(() => {})
      await wait(lookEveryMs)
    }
  })()
  return {
    /** Compares its copy with the mirror, which nobody changes any more. */
    async judge(): Promise<Finding> {
      await ended
      const before = stored.position
      while (stored.position === before) await look()
      const { rows } = await pool.query<Row>(
        `select assignment_id::text as key, ${rowSql} from mirror.assignment as mine where _deleted_at is null`,
      )
      const different = unlike(stored.rows, asMap(rows))
      return {
        what: 'a copy that follows the feed equals the mirror',
        isFine: different.length === 0 && rows.length > 0 && kills > 0,
        told: `${different.length} of ${rows.length} rows differ (${different.slice(0, 5)}), after ${looks} looks and ${kills} kills`,
      }
    },
  }
}

const copyEveryMs = 15_000
/** A transaction is observed as of its beginning and seen after its end, so rows that changed so shortly before a moment are not compared. */
const openMs = 10_000

type Copy = { readonly at: string; readonly rows: ReadonlyMap<string, string> }

/** Ends after the signal. */
export function copyViews({ pool, signal }: Omit<Following, 'random'>) {
  const copies: Copy[] = []
  const copy = async () => {
    const { rows } = await pool.query<Row & { at: string }>(
      `select now()::text as at, assignment_id::text as key, ${rowSql} from bi.assignment as mine`,
    )
    const at = rows[0]?.at
    if (at) copies.push({ at, rows: asMap(rows) })
  }
  const ended = (async () => {
    while (!signal.aborted) {
      await wait(copyEveryMs, undefined, { signal }).catch(() => {})
      // Postgres is away, or there is no view yet.
      await copy().catch(() => {})
    }
  })()
  const past = async (sql: string, at: string) => asMap((await pool.query<Row>(sql, [at])).rows)
  return {
    async judge(): Promise<Finding> {
      await ended
      const different: string[] = []
      let compared = 0
      for (const { at, rows } of copies) {
        const { rows: changing } = await pool.query<{ key: string }>(
          `select distinct assignment_id::text as key from mirror.assignment_history
           where _observed_at between $1::timestamptz - make_interval(secs => $2) and $1::timestamptz + interval '1 second'`,
          [at, openMs / 1_000],
        )
        const left = new Set(changing.map(({ key }) => key))
        const told = [
          await past(
            `select assignment_id::text as key, ${rowSql} from bi.assignment_at($1::timestamptz) as mine`,
            at,
          ),
          await past(
            `select assignment_id::text as key,
               md5(jsonb_strip_nulls(to_jsonb(mine) - '{_synced_at,_xid,_hash,valid_from,valid_to,is_current,is_deleted}'::text[])::text) as row
             from bi.assignment_versions as mine
             where valid_from <= $1::timestamptz and (valid_to > $1::timestamptz or valid_to is null) and not is_deleted`,
            at,
          ),
        ]
        for (const one of told)
          different.push(
            ...unlike(one, rows)
              .filter((key) => !left.has(key))
              .map((key) => `${key} at ${at}`),
          )
        compared += [...rows.keys()].filter((key) => !left.has(key)).length
      }
      return {
        what: 'the history says what a view showed',
        isFine: different.length === 0 && compared > 0,
        told: `${different.length} of ${compared} rows in ${copies.length} copies differ (${different.slice(0, 5)})`,
      }
    },
  }
}
