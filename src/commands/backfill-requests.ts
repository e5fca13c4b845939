// `tidemark backfill --list` and `--cancel`: the requests that are stored. They need the mirror alone.

import { type Call, type ExitCode, exitCodes } from '../cli/command.ts'
import { operator } from '../cli/operator.ts'
import { alignedTable } from '../cli/table.ts'
import { loadMirrorConfig } from '../config.ts'
import { parseInt64 } from '../int64.ts'
import { cancelBackfill, listBackfills, readBackfill } from '../mirror/backfills.ts'
import { pickStream } from '../pick-streams.ts'
import { streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'
import { openMigratedDatabase } from '../workplace.ts'
import { backfillJson, backfillSentence } from './backfill-progress.ts'

export async function listAll({ environment, positionals, values, log, stdout }: Call): Promise<ExitCode> {
  const [name] = positionals
  const stream = name === undefined ? null : pickStream(name, streams).name
  const database = await openMigratedDatabase(loadMirrorConfig(environment), log)
  try {
    const found = await listBackfills(database.pool, stream)
    const rows = found.map((one) => [
      one.id,
      one.stream,
      one.status,
      `${one.from}`,
      `${one.to}`,
      `${one.position}`,
      one.rowsRead.toLocaleString('en'),
      one.requestedBy,
      one.error ?? one.note ?? '',
    ])
    const header = ['id', 'stream', 'status', 'from', 'to', 'position', 'rows read', 'requested by', 'note']
    if (values.json) stdout.write(`${JSON.stringify(found.map(backfillJson), null, 2)}\n`)
    else stdout.write(rows.length === 0 ? 'There was no backfill yet.\n' : alignedTable(header, rows))
    return exitCodes.done
  } finally {
    await database.close()
  }
}

export async function cancelOne({ environment, values, log, stdout }: Call, text: string): Promise<ExitCode> {
  const id = parseInt64(text)
  if (id === null)
    throw new UsageError(`--cancel ${text}: write an id that \`tidemark backfill --list\` shows`)
  const database = await openMigratedDatabase(loadMirrorConfig(environment), log)
  try {
    const isCancelled = await cancelBackfill(database.pool, id.toString(), operator())
    const backfill = await readBackfill(database.pool, id.toString())
    if (!backfill)
      throw new UsageError(`There is no backfill ${id}: \`tidemark backfill --list\` shows those there are`)
    if (!isCancelled) throw new UsageError(`Backfill ${id} is over already: ${backfill.status}`)
    stdout.write(
      values.json ? `${JSON.stringify(backfillJson(backfill))}\n` : `${backfillSentence(backfill)}\n`,
    )
    return exitCodes.done
  } finally {
    await database.close()
  }
}
