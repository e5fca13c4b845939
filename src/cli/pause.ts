// `tidemark pause` and `tidemark resume`: whether the workers read a stream by themselves.

import { pickStream } from '../streams/catalog.ts'
import { type Call, type Command, json, onlyWord, option, textsOf } from './command.ts'
import { act } from './recorded.ts'

export const pause: Command = {
  name: 'pause',
  summary: 'stop reading a stream until it is resumed',
  usage: '<stream> [--reason TEXT] [--json]',
  options: {
    reason: option('TEXT', 'the reason; `tidemark status` shows it'),
    json,
  },
  examples: ['tidemark pause assignment --reason "the upstream is being upgraded"'],
  run: (call) => act(call, 'pause', oneStream('pause', call), textsOf(call, ['reason'])),
}

export const resume: Command = {
  name: 'resume',
  summary: 'read a paused stream again',
  usage: '<stream> [--json]',
  options: { json },
  examples: ['tidemark resume assignment'],
  run: (call) => act(call, 'resume', oneStream('resume', call)),
}

const oneStream = (verb: string, { positionals, catalogue }: Call): string =>
  pickStream(
    onlyWord(positionals, `\`tidemark ${verb}\` takes one stream, e.g. \`tidemark ${verb} assignment\`.`),
    catalogue,
  ).name
