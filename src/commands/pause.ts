// `tidemark pause` and `tidemark resume`: whether the workers read a stream by themselves.

import type { Pool } from 'pg'
import type { Call, Command, ExitCode } from '../cli/command.ts'
import { operator } from '../cli/operator.ts'
import { pauseInWords, resumeInWords } from '../operator/pause.ts'
import { pickStream } from '../pick-streams.ts'
import { streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'
import { withMirror } from './with-mirror.ts'

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
  return await withMirror(call, async (pool) => {
    call.stdout.write(`${await work(pool, stream)}\n`)
  })
}
