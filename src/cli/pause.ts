// `tidemark pause` and `tidemark resume`: whether the workers read a stream by themselves.

import type { Pool } from 'pg'
import { pauseInWords, resumeInWords } from '../operator/actions.ts'
import { pickStream, streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json, operator, textOf } from './command.ts'
import type { ExitCode } from './exit.ts'
import { changeMirror } from './mirror.ts'
import { fitted } from './output.ts'
import { recordedHere } from './recorded.ts'

export const pause: Command = {
  name: 'pause',
  summary: 'stop reading a stream until it is resumed',
  usage: '<stream> [--reason TEXT] [--json]',
  options: {
    reason: { type: 'string', value: 'TEXT', describe: 'the reason; `tidemark status` shows it' },
    json,
  },
  examples: ['tidemark pause assignment --reason "the upstream is being upgraded"'],
  run: (call) =>
    onStream(call, 'pause', async (pool, stream) => ({
      text: await recordedHere(
        { pool, log: call.log },
        { action: 'pause', target: stream, reason: textOf(call.values, 'reason') },
        () => pauseInWords(pool, { stream, by: operator(), reason: textOf(call.values, 'reason') }),
        (text) => text,
      ),
      document: { stream, paused: true },
    })),
}

export const resume: Command = {
  name: 'resume',
  summary: 'read a paused stream again',
  usage: '<stream> [--json]',
  options: { json },
  examples: ['tidemark resume assignment'],
  run: (call) =>
    onStream(call, 'resume', async (pool, stream) => ({
      text: await recordedHere(
        { pool, log: call.log },
        { action: 'resume', target: stream },
        () => resumeInWords(pool, stream),
        (text) => text,
      ),
      document: { stream, paused: false },
    })),
}

type Result = { readonly text: string; readonly document: object }

async function onStream(
  call: Call,
  verb: string,
  work: (pool: Pool, stream: string) => Promise<Result>,
): Promise<ExitCode> {
  const { positionals, values, stdout } = call
  const [name, ...more] = positionals
  if (name === undefined || more.length > 0)
    throw new UsageError(`\`tidemark ${verb}\` takes one stream, e.g. \`tidemark ${verb} assignment\`.`)
  const stream = pickStream(name, streams).name
  return await changeMirror(call, async (pool) => {
    const { text, document } = await work(pool, stream)
    if (values.json) stdout.json(document)
    else stdout.say(fitted(text, stdout))
  })
}
