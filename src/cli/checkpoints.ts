// `tidemark checkpoints`: positions that were reached, with their times. Any of them can be read again from.

import { checkpoints as checkpointsDocument } from '../documents/positions.ts'
import { UsageError } from '../util/errors.ts'
import { type Command, json, option, wholeNumber } from './command.ts'
import { listFromMirror } from './mirror.ts'

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
  async run(call) {
    const { positionals, values } = call
    const [name, ...more] = positionals
    if (more.length > 0)
      throw new UsageError('`tidemark checkpoints` takes one stream, or none to list those of all streams.')
    const limit = wholeNumber(values, 'limit', { least: 1 }) ?? 100
    return await listFromMirror(call, checkpointsDocument, {
      asked: { stream: name, limit },
      none:
        name === undefined
          ? 'There is no checkpoint yet: `tidemark sync` makes the first.'
          : `There is no checkpoint of ${name} yet: \`tidemark sync ${name}\` makes the first.`,
      columns: [
        ['ID', ({ id }) => id],
        ['STREAM', (one) => one.stream],
        ['POSITION', ({ position }) => position],
        ['REACHED AT', ({ reached_at }) => reached_at.toISOString()],
        ['REASON', ({ reason, moved_by }) => [reason, moved_by && `(${moved_by})`].filter(Boolean).join(' ')],
      ],
    })
  },
}
