// `tidemark token` and `tidemark sessions`: tokens for single people and programs, and the browsers that are signed in.

import { sessions as sessionList, tokens as tokenList } from '../documents/people.ts'
import { allSessions } from '../operator/people.ts'
import { roles } from '../operator/roles.ts'
import { UsageError } from '../util/errors.ts'
import { utcMinute } from '../util/text.ts'
import {
  type Call,
  type Command,
  expectNoWords,
  json,
  oneOf,
  onlyWord,
  option,
  runAction,
  textsOf,
} from './command.ts'
import type { ExitCode } from './exit.ts'
import { listFromMirror } from './mirror.ts'
import { act } from './recorded.ts'

export const token: Command = {
  name: 'token',
  summary: 'make, list and revoke tokens for single people and programs',
  usage:
    'create <name> --role viewer|operator|admin [--for TIME | --until TIME] | list | revoke <name> [--json]',
  options: {
    role: option('ROLE', 'create: viewer, operator or admin'),
    for: option('TIME', 'create: for how long it is taken, such as 90d; left out: until it is revoked'),
    until: option('TIME', 'create: when it ends, such as 2026-12-31'),
    json,
  },
  examples: [
    'tidemark token create ola --role operator --for 90d',
    'tidemark token list',
    'tidemark token revoke ola',
  ],
  run: runAction('token', {
    create,
    list,
    revoke: (call) => act(call, 'revokeToken', nameIn('revoke', call)),
  }),
}

const nameIn = (verb: string, { positionals }: Call): string =>
  onlyWord(
    positionals,
    `\`tidemark token ${verb}\` takes the name of the token, such as ola or nightly-report.`,
  )

async function create(call: Call): Promise<ExitCode> {
  const { values, stdout, stderr } = call
  const name = nameIn('create', call)
  const role = oneOf(values, 'role', roles)
  if (role === null) throw new UsageError(`Say what the token may do: --role ${roles.join(', --role ')}.`)
  // Alone on stdout, so that a script can keep it.
  return await act(call, 'createToken', name, { role, ...textsOf(call, ['for', 'until']) }, (done) => {
    stderr.tell(`${done.text} It is shown only now:`)
    if ('token' in done.json) stdout.say(String(done.json.token))
  })
}

const orNever = (moment: Date | null, otherwise: string) => (moment === null ? otherwise : utcMinute(moment))

function list(call: Call): Promise<ExitCode> {
  expectNoWords('token list', call)
  return listFromMirror(call, tokenList, {
    asked: {},
    none: 'There are no tokens of single people or programs. `tidemark token create` makes one.',
    columns: [
      ['NAME', ({ name }) => name],
      ['ROLE', ({ role }) => role],
      ['UNTIL', ({ ends_at: at }) => orNever(at, 'it is revoked')],
      ['LAST USED', ({ last_used_at: at }) => orNever(at, 'never')],
      ['MADE BY', ({ created_by: by }) => by],
    ],
  })
}

export const sessions: Command = {
  name: 'sessions',
  summary: 'show who is signed in to the console, and end sessions',
  usage: 'list | end <id|all> [--json]',
  options: { json },
  examples: ['tidemark sessions list', 'tidemark sessions end 12'],
  run: runAction('sessions', { list: listSessions, end }),
}

async function end(call: Call): Promise<ExitCode> {
  const id = onlyWord(
    call.positionals,
    '`tidemark sessions end` takes the number of a session, as `tidemark sessions list` shows it, or all.',
  )
  return await act(call, 'endSessions', id === 'all' ? allSessions : id)
}

function listSessions(call: Call): Promise<ExitCode> {
  expectNoWords('sessions list', call)
  return listFromMirror(call, sessionList, {
    asked: {},
    none: 'Nobody is signed in.',
    columns: [
      ['ID', ({ id }) => id],
      ['WHO', ({ who }) => who],
      ['ROLE', ({ role }) => role],
      ['FROM', ({ address }) => address],
      ['BEGUN', ({ begun_at: at }) => utcMinute(at)],
      ['LAST USED', ({ seen_at: at }) => utcMinute(at)],
      ['UNTIL', ({ ends_at: at }) => utcMinute(at)],
    ],
  })
}
