// `tidemark backfill --list` and `--cancel`: the requests that are stored. They need the mirror alone.

import type { Call, ExitCode } from '../cli/command.ts'
import { operator } from '../cli/operator.ts'
import { alignedTable } from '../cli/table.ts'
import { count } from '../count.ts'
import { parseInt64 } from '../int64.ts'
import { cancelBackfill, listBackfills, readBackfill } from '../mirror/backfills.ts'
import { pickStream } from '../pick-streams.ts'
import { streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'
import { backfillJson, backfillSentence } from './backfill-progress.ts'
import { withMirror } from './with-mirror.ts'

export async function listAll(call: Call): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const [name] = positionals
  const stream = name === undefined ? null : pickStream(name, streams).name
  return await withMirror(call, async (pool) => {
    const found = await listBackfills(pool, stream)
    const rows = found.map((one) => [
      one.id,
      one.stream,
      one.status,
      `${one.from}`,
      `${one.to}`,
      `${one.position}`,
      count(one.rowsRead),
      one.requestedBy,
      one.error ?? one.note ?? '',
    ])
    const header = ['id', 'stream', 'status', 'from', 'to', 'position', 'rows read', 'requested by', 'note']
    if (values.json) stdout.write(`${JSON.stringify(found.map(backfillJson), null, 2)}\n`)
    else stdout.write(rows.length === 0 ? 'There was no backfill yet.\n' : alignedTable(header, rows))
  })
}

export async function cancelOne(call: Call, text: string): Promise<ExitCode> {
  const id = parseInt64(text)
  if (id === null)
    throw new UsageError(`--cancel ${text}: write an id that \`tidemark backfill --list\` shows`)
  return await withMirror(call, async (pool) => {
    const isCancelled = await cancelBackfill(pool, id.toString(), operator())
    const backfill = await readBackfill(pool, id.toString())
    if (!backfill)
      throw new UsageError(`There is no backfill ${id}: \`tidemark backfill --list\` shows those there are`)
    if (!isCancelled) throw new UsageError(`Backfill ${id} is over already: ${backfill.status}`)
    call.stdout.write(
      call.values.json ? `${JSON.stringify(backfillJson(backfill))}\n` : `${backfillSentence(backfill)}\n`,
    )
  })
}
