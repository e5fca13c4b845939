// `tidemark checkpoints`: positions that were reached, with their times. Any of them can be re-run from.

import { type Call, type Command, type ExitCode, exitCodes } from '../cli/command.ts'
import { alignedTable } from '../cli/table.ts'
import { wholeNumber } from '../cli/whole-number.ts'
import { loadMirrorConfig } from '../config.ts'
import { readCheckpoints } from '../mirror/checkpoints.ts'
import { pickStream } from '../pick-streams.ts'
import { streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'
import { openMigratedDatabase } from '../workplace.ts'

export const checkpoints: Command = {
  name: 'checkpoints',
  summary: 'positions that were reached, the newest first',
  usage: '[stream] [--limit N] [--json]',
  options: {
    limit: { type: 'string', value: 'N', describe: 'how many, at most (100)' },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: [
    'tidemark checkpoints',
    'tidemark checkpoints assignment --limit 10',
    'tidemark checkpoints --json',
  ],
  run,
}

async function run({ environment, positionals, values, log, stdout }: Call): Promise<ExitCode> {
  const [name, ...more] = positionals
  if (more.length > 0) throw new UsageError('`tidemark checkpoints` takes one stream, or none for all')
  const stream = name === undefined ? null : pickStream(name, streams).name
  const limit = wholeNumber(values, 'limit', { least: 1 }) ?? 100
  const database = await openMigratedDatabase(loadMirrorConfig(environment), log)
  try {
    const found = await readCheckpoints(database.pool, { stream, limit })
    const rows = found.map(({ id, stream, position, reached_at, reason, moved_by }) => [
      id,
      stream,
      position,
      reached_at.toISOString(),
      [reason, moved_by && `(${moved_by})`].filter(Boolean).join(' '),
    ])
    if (values.json) stdout.write(`${JSON.stringify(found, null, 2)}\n`)
    else if (found.length === 0) stdout.write('No position was reached yet.\n')
    else stdout.write(alignedTable(['id', 'stream', 'position', 'reached at', 'reason'], rows))
    return exitCodes.done
  } finally {
    await database.close()
  }
}
