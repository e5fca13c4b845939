// A mirror with much in it, and with names and texts that would break a page that takes them for markup. Written straight into the
// tables, because no upstream is needed for it.

import type { Pool } from 'pg'

/** Said by the script if it ever runs. */
const attack = 'globalThis.wasAttacked = true'
export const hostileTexts = [
  `<script>${attack}</script>`,
  `"><img src=x onerror="${attack}">`,
  `' onmouseover='${attack}' x='`,
  `</td></table><script>${attack}</script>`,
  'left \u202e thgir \u202c left',
  `&lt;b&gt; &amp; \u0007 \u2028 ${'wide'.repeat(1_500)}`,
  '',
]

export async function fillStore(pool: Pool, stream: string): Promise<void> {
  await pool.query(
    `insert into tidemark.run (stream, kind, status, host, pid, started_at, finished_at, inserted, updated, unchanged, error, note, steps)
     select $1, case when n % 3 = 0 then 'lookback' else 'incremental' end, case when n % 50 = 0 then 'failed' else 'done' end,
       'elsewhere', 1, now() - interval '2 days' + n * interval '10 s', now() - interval '2 days' + n * interval '10 s' + interval '2 s',
       n % 7, n % 5, n % 11,
       case when n % 50 = 0 then ($2::text[])[1 + n % cardinality($2::text[])] end,
       case when n % 10 = 0 then ($2::text[])[1 + n % cardinality($2::text[])] end,
       case when n % 10 = 0 then (
         select jsonb_agg(jsonb_build_object('what', what, 'from', 100 * place, 'to', 100 * place + 90, 'requests', 1, 'records', 1000,
           'waitedMs', 40, 'waits', jsonb_build_array(jsonb_build_object('from', 100 * place, 'to', 100 * place + 40, 'what', what))))
         from unnest($2::text[]) with ordinality as told (what, place)
       ) end
     from generate_series(1, 10000) as n`,
    [stream, hostileTexts],
  )
  await pool.query(
    `insert into tidemark.field (stream, folded, source_name, column_name, column_type, note, records_seen, nulls_seen)
     select $1, 'seeded' || n, case when n <= cardinality($2::text[]) then ($2::text[])[n] else 'SeededField' || n end,
       case when n % 9 > 0 then 'seeded_field_' || n end, case when n % 9 > 0 then 'text' end,
       ($2::text[])[n], 1000, n
     from generate_series(1, 300) as n`,
    [stream, hostileTexts],
  )
  await pool.query(
    `insert into tidemark.quarantine (stream, reason, record, record_text, fingerprint, times_seen)
     select $1, text, case when n % 2 = 0 then to_jsonb(text) end, case when n % 2 = 1 then text end, 'seeded' || n, n
     from unnest($2::text[]) with ordinality as hostile (text, n)`,
    [stream, hostileTexts],
  )
  await pool.query(
    `insert into tidemark.belief (stream, name, value, evidence, first_at, tested_at, previous_value, changed_at)
     select $1, 'seeded_' || n, text, text, now() - interval '3 days', now() - interval '2 days', text, now() - interval '2 days'
     from unnest($2::text[]) with ordinality as hostile (text, n)`,
    [stream, hostileTexts],
  )
  await pool.query(
    `insert into tidemark.checkpoint (stream, position, reached_at, reason, moved_by)
     select $1, n, now() - interval '1 day', text, text from unnest($2::text[]) with ordinality as hostile (text, n)`,
    [stream, hostileTexts],
  )
  await pool.query(
    `insert into tidemark.silence (target, until, by, reason)
     select 'kind:seeded_' || n || text, case when n % 2 = 0 then now() + interval '1 day' end, text, text
     from unnest($1::text[]) with ordinality as hostile (text, n)`,
    [hostileTexts],
  )
  await pool.query(
    `insert into tidemark.alert_setting (key, value, previous, by)
     select kind || ':' || n || text, case when n % 3 > 0 then jsonb_build_object('to', text, 'format', text, 'sealed', text) end,
       jsonb_build_object('to', text), text
     from unnest($1::text[]) with ordinality as hostile (text, n), unnest(array['receiver', 'rule']) as kind`,
    [hostileTexts],
  )
  await pool.query(
    `insert into tidemark.problem_history (key, kind, stream, what, since, seen_at, ended_at)
     select 'quarantine:' || n, 'quarantine', $1, text, now() - interval '1 hour', now(), now()
     from unnest($2::text[]) with ordinality as hostile (text, n)`,
    [stream, hostileTexts],
  )
}
