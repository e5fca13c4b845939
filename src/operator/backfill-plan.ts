// What a backfill would take, from what the mirror holds and how fast earlier readings were. Asks the upstream nothing.

import type { Pool } from 'pg'
import { count } from '../count.ts'
import { formatDuration } from '../duration.ts'
import { estimateBackfill } from '../mirror/backfills.ts'
import { countBetween } from '../mirror/history.ts'
import type { ChangesStream } from '../streams.ts'

type BackfillPlan = {
  readonly stream: string
  readonly from: string
  readonly to: string
  readonly rows: number
  readonly requests: number
  readonly expected_ms: number | null
}

export async function planBackfill(
  pool: Pool,
  stream: ChangesStream,
  { from, to }: { readonly from: bigint; readonly to: bigint },
  pageSize: number,
): Promise<{ readonly text: string; readonly json: BackfillPlan }> {
  const rows = await countBetween(pool, stream, from, to)
  const { msPerRow, largestAnswer } = await estimateBackfill(pool, stream.name)
  // A capped page holds no more than the largest answer that was seen.
  const perPage = Math.max(1, largestAnswer === null ? pageSize : Math.min(pageSize, largestAnswer))
  const requests = Math.ceil(rows / perPage) + 1
  const expectedMs = msPerRow === null ? null : Math.round(rows * msPerRow)
  const time =
    expectedMs === null
      ? 'how long that takes no earlier run tells'
      : `about ${formatDuration(expectedMs)}, as fast as earlier runs`
  return {
    text: `${stream.name}: from ${from} to ${to} the mirror holds ${count(rows)} rows (what it lacks it cannot count): about ${count(requests)} requests, ${time}. Nothing was read.`,
    json: {
      stream: stream.name,
      from: from.toString(),
      to: to.toString(),
      rows,
      requests,
      expected_ms: expectedMs,
    },
  }
}
