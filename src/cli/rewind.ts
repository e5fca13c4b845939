// `tidemark rewind`: moves the position of a stream, with who and why. The next run reads on from there.

import { asChangesStream } from '../operator/positions.ts'
import { rewindTargetIn } from '../operator/rewind.ts'
import { pickStream } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Command, flag, json, onlyWord, option, textOf, textsOf } from './command.ts'
import { act } from './recorded.ts'

export const rewind: Command = {
  name: 'rewind',
  summary: 'move the position of a stream back and read again from there',
  usage: '<stream> (--to-version N | --to-checkpoint ID | --to-time TIME) --reason TEXT [--force] [--json]',
  options: {
    'to-version': option('N', 'to this row version'),
    'to-checkpoint': option('ID', 'to a checkpoint that `tidemark checkpoints` lists'),
    'to-time': option('TIME', 'to the position at this time, e.g. 2025-01-31T14:30:00Z'),
    reason: option('TEXT', 'the reason; it is kept with the checkpoint'),
    force: flag('allow a move forward, which skips versions that were never read'),
    json,
  },
  examples: [
    'tidemark rewind assignment --to-time 2025-01-31T14:30:00Z --reason "rows were changed by hand"',
    'tidemark rewind assignment --to-version 120000 --reason "restored from backup"',
  ],
  async run(call) {
    const { positionals, values } = call
    const name = onlyWord(
      positionals,
      '`tidemark rewind` takes one stream, e.g. `tidemark rewind assignment --to-version 120000 --reason TEXT`.',
    )
    const stream = asChangesStream(pickStream(name, call.catalogue), call.catalogue).name
    rewindTargetIn(values)
    const reason = textOf(values, 'reason')
    if (reason === null)
      throw new UsageError(
        '`tidemark rewind` needs --reason TEXT: it is kept with the checkpoint, for those who wonder later.',
      )
    const force = values.force === true ? 'yes' : null
    return await act(call, 'rewind', stream, {
      ...textsOf(call, ['to-version', 'to-checkpoint', 'to-time']),
      reason,
      force,
    })
  },
}
