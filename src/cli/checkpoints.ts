// `tidemark checkpoints`: positions that were reached, with their times. Any of them can be read again from.

import { asChangesStream } from '../operator/positions.ts'
import { readCheckpoints } from '../store/book/checkpoints.ts'
import { pickStream, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json, option, wholeNumber } from './command.ts'
import type { ExitCode } from './exit.ts'
import { readMirror } from './mirror.ts'
import { fittedTable } from './output.ts'

export const checkpoints: Command = {
  name: 'checkpoints',
  summary: 'list the positions that were reached, newest first',
  usage: '[stream] [--limit N] [--json]',
  options: {
    limit: option('N', 'at most this many (100)'),
    json,
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
  if (more.length > 0)
    throw new UsageError('`tidemark checkpoints` takes one stream, or none to list those of all streams.')
  const stream = name === undefined ? null : asChangesStream(pickStream(name, streams), streams).name
  const limit = wholeNumber(values, 'limit', { least: 1 }) ?? 100
  return await readMirror(call, async (pool) => {
    const found = await readCheckpoints(pool, { stream, limit })
    if (values.json) return stdout.json(found)
    if (found.length === 0) return stdout.say('There is no checkpoint yet: `tidemark sync` makes the first.')
    const rows = found.map(({ id, stream, position, reached_at, reason, moved_by }) => [
      id,
      stream,
      position,
      reached_at.toISOString(),
      [reason, moved_by && `(${moved_by})`].filter(Boolean).join(' '),
    ])
    stdout.say(fittedTable(['ID', 'STREAM', 'POSITION', 'REACHED AT', 'REASON'], rows, stdout))
  })
}
