// `tidemark checkpoints`: positions that were reached, with their times. Any of them can be re-run from.

import type { Call, Command, ExitCode } from '../cli/command.ts'
import { alignedTable } from '../cli/table.ts'
import { wholeNumber } from '../cli/whole-number.ts'
import { readCheckpoints } from '../mirror/checkpoints.ts'
import { pickStream } from '../pick-streams.ts'
import { streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'
import { withMirror } from './with-mirror.ts'

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

async function run(call: Call): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const [name, ...more] = positionals
  if (more.length > 0) throw new UsageError('`tidemark checkpoints` takes one stream, or none for all')
  const stream = name === undefined ? null : pickStream(name, streams).name
  const limit = wholeNumber(values, 'limit', { least: 1 }) ?? 100
  return await withMirror(call, async (pool) => {
    const found = await readCheckpoints(pool, { stream, limit })
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
  })
}
