// `tidemark rewind`: moves the live position of a stream, with who and why. The next run reads on from there.

import type { Call, Command, ExitCode } from '../cli/command.ts'
import { operator } from '../cli/operator.ts'
import { livePosition, positionAt } from '../mirror/history.ts'
import { rewindStream } from '../mirror/rewind.ts'
import { asChangesStream, findPosition, readPositionOptions } from '../operator/positions.ts'
import { pickStream } from '../pick-streams.ts'
import { streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'
import { withMirror } from './with-mirror.ts'

export const rewind: Command = {
  name: 'rewind',
  summary: 'move the live position of a stream back, and read on from there',
  usage: '<stream> (--to-version N | --to-checkpoint ID | --to-time TIME) --reason TEXT [--force] [--json]',
  options: {
    'to-version': { type: 'string', value: 'N', describe: 'to this row version' },
    'to-checkpoint': {
      type: 'string',
      value: 'ID',
      describe: 'to a position that `tidemark checkpoints` shows',
    },
    'to-time': {
      type: 'string',
      value: 'TIME',
      describe: 'to the position that was held then, e.g. 2025-01-31T14:30:00Z',
    },
    reason: { type: 'string', value: 'TEXT', describe: 'why; kept with the checkpoint' },
    force: { type: 'boolean', describe: 'also forward, past versions that were never read' },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: [
    'tidemark rewind assignment --to-time 2025-01-31T14:30:00Z --reason "rows were changed by hand"',
    'tidemark rewind assignment --to-version 120000 --reason "restored from backup"',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const [name, ...more] = positionals
  if (name === undefined || more.length > 0)
    throw new UsageError('`tidemark rewind` takes one stream: tidemark rewind assignment --to-version N')
  const stream = asChangesStream(pickStream(name, streams), streams)
  const wanted = readPositionOptions(values, {
    version: 'to-version',
    checkpoint: 'to-checkpoint',
    time: 'to-time',
  })
  if (!wanted)
    throw new UsageError(
      '`tidemark rewind` needs to know where to: --to-version, --to-checkpoint or --to-time',
    )
  const reason = typeof values.reason === 'string' ? values.reason.trim() : ''
  if (reason === '')
    throw new UsageError(
      '`tidemark rewind` needs --reason TEXT: it is kept with the position for those who come later',
    )
  return await withMirror(call, async (pool) => {
    const mirror = { positionAt: (of: string, time: Date) => positionAt(pool, of, time) }
    const position = await findPosition({ pool, mirror }, stream, wanted)
    const current = await livePosition(pool, stream.name)
    if (position > current && !values.force)
      throw new UsageError(
        `${stream.name} is at ${current}: going forward to ${position} would skip what lies between; add --force if that is meant`,
      )
    const rewound = await rewindStream(pool, { stream: stream.name, position, reason, by: operator() })
    stdout.write(
      values.json ? `${JSON.stringify(asJson(stream.name, rewound))}\n` : sentence(stream.name, rewound),
    )
  })
}

type Rewound = Awaited<ReturnType<typeof rewindStream>>

const sentence = (stream: string, { from, to, wasStopped }: Rewound): string =>
  `${stream}: the position moved from ${from} to ${to}${wasStopped ? ', and the stream is no longer stopped' : ''}. The next run reads on from there; when the upstream was restored from a backup, run \`tidemark verify ${stream} --repair\` after it.\n`

const asJson = (stream: string, { from, to, wasStopped }: Rewound) => ({
  stream,
  from: from.toString(),
  to: to.toString(),
  was_stopped: wasStopped,
})
