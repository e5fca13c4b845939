// `tidemark rewind`: moves the position of a stream, with who and why. The next run reads on from there.

import { asChangesStream } from '../operator/positions.ts'
import { moveBack, rewindTargetIn, rewoundSentence } from '../operator/rewind.ts'
import { type ChangesStream, pickStream, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json, operator, textOf } from './command.ts'
import type { ExitCode } from './exit.ts'
import { changeMirror } from './mirror.ts'
import { fitted } from './output.ts'
import { recordedHere } from './recorded.ts'

export const rewind: Command = {
  name: 'rewind',
  summary: 'move the position of a stream back and read again from there',
  usage: '<stream> (--to-version N | --to-checkpoint ID | --to-time TIME) --reason TEXT [--force] [--json]',
  options: {
    'to-version': { type: 'string', value: 'N', describe: 'to this row version' },
    'to-checkpoint': {
      type: 'string',
      value: 'ID',
      describe: 'to a checkpoint that `tidemark checkpoints` lists',
    },
    'to-time': {
      type: 'string',
      value: 'TIME',
      describe: 'to the position at this time, e.g. 2025-01-31T14:30:00Z',
    },
    reason: { type: 'string', value: 'TEXT', describe: 'the reason; it is kept with the checkpoint' },
    force: { type: 'boolean', describe: 'allow a move forward, which skips versions that were never read' },
    json,
  },
  examples: [
    'tidemark rewind assignment --to-time 2025-01-31T14:30:00Z --reason "rows were changed by hand"',
    'tidemark rewind assignment --to-version 120000 --reason "restored from backup"',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { values, stdout, log } = call
  const { stream, target, reason } = whatIsAsked(call)
  return await changeMirror(call, async (pool) => {
    const order = { stream, target, reason, by: operator(), isForced: values.force === true }
    const rewound = await recordedHere(
      { pool, log },
      { action: 'rewind', target: stream.name, reason },
      () => moveBack(pool, order),
      (moved) => rewoundSentence(stream.name, moved),
    )
    if (values.json) stdout.json(asJson(stream.name, rewound))
    else stdout.say(fitted(rewoundSentence(stream.name, rewound), stdout))
  })
}

type Asked = {
  readonly stream: ChangesStream
  readonly target: ReturnType<typeof rewindTargetIn>
  readonly reason: string
}

function whatIsAsked({ positionals, values }: Call): Asked {
  const [name, ...more] = positionals
  if (name === undefined || more.length > 0)
    throw new UsageError(
      '`tidemark rewind` takes one stream, e.g. `tidemark rewind assignment --to-version 120000 --reason TEXT`.',
    )
  const stream = asChangesStream(pickStream(name, streams), streams)
  const target = rewindTargetIn(values)
  const reason = textOf(values, 'reason')
  if (reason === null)
    throw new UsageError(
      '`tidemark rewind` needs --reason TEXT: it is kept with the checkpoint, for those who wonder later.',
    )
  return { stream, target, reason }
}

type Rewound = Awaited<ReturnType<typeof moveBack>>

const asJson = (stream: string, { from, to }: Rewound) => ({
  stream,
  from: from.toString(),
  to: to.toString(),
})
