// `tidemark rewind`: moves the live position of a stream, with who and why. The next run reads on from there.

import type { Pool } from 'pg'
import { pauseInWords, resumeInWords } from '../operator/actions.ts'
import { asChangesStream, findPosition, readPositionOptions } from '../operator/positions.ts'
import { rewindStream } from '../store/admin/streams.ts'
import { livePosition, readCheckpoints } from '../store/queries/positions.ts'
import { pickStream, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { alignedTable, type Call, type Command, type ExitCode, operator, wholeNumber } from './command.ts'
import { withDatabase } from './database.ts'

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
  run: runRewind,
}

async function runRewind(call: Call): Promise<ExitCode> {
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
  return await withDatabase(call, async (pool) => {
    const position = await findPosition(pool, stream, wanted)
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

// `tidemark checkpoints`: positions that were reached, with their times. Any of them can be re-run from.
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
  run: runCheckpoints,
}

async function runCheckpoints(call: Call): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const [name, ...more] = positionals
  if (more.length > 0) throw new UsageError('`tidemark checkpoints` takes one stream, or none for all')
  const stream = name === undefined ? null : pickStream(name, streams).name
  const limit = wholeNumber(values, 'limit', { least: 1 }) ?? 100
  return await withDatabase(call, async (pool) => {
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

// `tidemark pause` and `tidemark resume`: whether the workers read a stream by themselves.
export const pause: Command = {
  name: 'pause',
  summary: 'let the workers leave a stream alone until it is resumed',
  usage: '<stream> [--reason TEXT]',
  options: { reason: { type: 'string', value: 'TEXT', describe: 'why; `tidemark status` shows it' } },
  examples: ['tidemark pause assignment --reason "the upstream is being upgraded"'],
  run: (call) =>
    onStream(call, async (pool, stream) => {
      const reason = typeof call.values.reason === 'string' ? call.values.reason.trim() || null : null
      return await pauseInWords(pool, { stream, by: operator(), reason })
    }),
}

export const resume: Command = {
  name: 'resume',
  summary: 'let the workers read a paused stream again',
  usage: '<stream>',
  options: {},
  examples: ['tidemark resume assignment'],
  run: (call) => onStream(call, resumeInWords),
}

async function onStream(
  call: Call,
  work: (pool: Pool, stream: string) => Promise<string>,
): Promise<ExitCode> {
  const [name, ...more] = call.positionals
  if (name === undefined || more.length > 0)
    throw new UsageError('`tidemark pause` and `tidemark resume` take one stream: tidemark pause assignment')
  const stream = pickStream(name, streams).name
  return await withDatabase(call, async (pool) => {
    call.stdout.write(`${await work(pool, stream)}\n`)
  })
}
