// `tidemark pause` and `tidemark resume`: whether the workers read a stream by themselves.

import type { Pool } from 'pg'
import { type Call, type Command, type ExitCode, exitCodes } from '../cli/command.ts'
import { operator } from '../cli/operator.ts'
import { loadMirrorConfig } from '../config.ts'
import { pauseInWords, resumeInWords } from '../operator/pause.ts'
import { pickStream } from '../pick-streams.ts'
import { streams } from '../streams.ts'
import { UsageError } from '../usage-error.ts'
import { openMigratedDatabase } from '../workplace.ts'

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
  { environment, positionals, log, stdout }: Call,
  work: (pool: Pool, stream: string) => Promise<string>,
): Promise<ExitCode> {
  const [name, ...more] = positionals
  if (name === undefined || more.length > 0)
    throw new UsageError('`tidemark pause` and `tidemark resume` take one stream: tidemark pause assignment')
  const stream = pickStream(name, streams).name
  const database = await openMigratedDatabase(loadMirrorConfig(environment), log)
  try {
    stdout.write(`${await work(database.pool, stream)}\n`)
    return exitCodes.done
  } finally {
    await database.close()
  }
}
