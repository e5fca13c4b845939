// What the demo shows on the terminal: where everything is, something to paste, and how the mirror grows and follows.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import { count } from '../count.ts'
import { formatDuration } from '../duration.ts'
import { streams } from '../streams.ts'

type Places = { readonly databaseUrl: string; readonly pageUrl: string }

export function introduceDemo({ databaseUrl, pageUrl }: Places): string {
  const query =
    'select status_name, count(*), round(sum(price)) as price from bi.assignment group by 1 order by 2 desc'
  return `
  The mirror follows a made-up field-service system. Ctrl-C stops the demo.

  for a BI tool      ${databaseUrl}
                     (schema bi: one view for each stream)
  the status page    ${pageUrl}/
  the worker         ${pageUrl}   and ${pageUrl}/metrics, /readyz
  a query to try     psql '${databaseUrl}' \\
                       -c "${query}"
  how far it is      psql '${databaseUrl}' -c "select * from tidemark.freshness"

  For the real system: copy .env.example to .env, fill in the credentials, npm start.

`
}

type Watched = { readonly pool: Pool; readonly signal: AbortSignal; readonly stdout: NodeJS.WriteStream }
type Count = { readonly stream: string; readonly rows: number; readonly lagMs: number | null }

const redrawMs = 1_000
const lineEveryMs = 10_000

/** On a terminal one table that is written over, otherwise a line now and then. Ends with the signal. */
export async function reportCounts({ pool, signal, stdout }: Watched): Promise<void> {
  let drawnLines = 0
  let lastText = ''
  for (let before: readonly Count[] = []; !signal.aborted; ) {
    const counts = await countRows(pool).catch(() => before)
    if (stdout.isTTY) {
      const lines = counts.map((one) => tableLine(one, before))
      stdout.write(
        `${drawnLines > 0 ? `\x1b[${drawnLines}A` : ''}${lines.map((line) => `\x1b[K${line}\n`).join('')}`,
      )
      drawnLines = lines.length
    } else {
      const text = counts.map(({ stream, rows }) => `${stream} ${count(rows)}`).join(', ')
      if (text !== lastText) stdout.write(`mirrored: ${text}\n`)
      lastText = text
    }
    before = counts
    const isFirst = counts.some(({ lagMs }) => lagMs === null)
    const pauseMs = stdout.isTTY || isFirst ? redrawMs : lineEveryMs
    await wait(pauseMs, undefined, { signal }).catch(() => {})
  }
}

function tableLine({ stream, rows, lagMs }: Count, before: readonly Count[]): string {
  const known = before.find((one) => one.stream === stream)?.rows ?? rows
  const grown = rows === known ? '' : ` (${rows > known ? '+' : ''}${count(rows - known)})`
  const complete =
    lagMs === null ? 'being read for the first time' : `complete as of ${formatDuration(lagMs)} ago`
  return `  ${stream.padEnd(22)}${count(rows).padStart(9)} rows${grown.padEnd(10)} ${complete}`
}

async function countRows(pool: Pool): Promise<readonly Count[]> {
  const { rows: known } = await pool.query<{ name: string; lag_ms: number | null; has_view: boolean }>(
    `select name, extract(epoch from now() - complete_at)::float8 * 1000 as lag_ms,
       to_regclass(format('bi.%I', name)) is not null as has_view
     from tidemark.stream where name = any ($1)`,
    [streams.map(({ name }) => name)],
  )
  const counts: Count[] = []
  for (const { name } of streams) {
    const one = known.find((found) => found.name === name)
    if (!one) continue
    const { rows } = one.has_view
      ? await pool.query<{ count: number }>(`select count(*)::int as count from bi."${name}"`)
      : { rows: [{ count: 0 }] }
    counts.push({ stream: name, rows: rows[0]?.count ?? 0, lagMs: one.lag_ms })
  }
  return counts
}
