// `tidemark source`: whose data this database holds; and, when the upstream moved or its client GUID was renewed, the word of a person
// that it is the same one, which is checked before it is taken.

import { sourcesOf } from '../configured.ts'
import { openContext } from '../context.ts'
import { type Agreement, compareSource, isSameSource } from '../operator/sources.ts'
import { adoptSource, otherSources, otherSourceText, readSources } from '../store/book/sources.ts'
import { keyIn } from '../streams/names.ts'
import { UsageError } from '../util/errors.ts'
import { snakeCased } from '../util/text.ts'
import {
  type Call,
  type Command,
  expectNoWords,
  json,
  operator,
  option,
  runAction,
  textOf,
} from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { loadConfigHere, readMirror } from './mirror.ts'
import { recordedHere } from './recorded.ts'

export const source: Command = {
  name: 'source',
  summary: 'show which upstream this database belongs to; accept a new address of it',
  usage: '[adopt --reason TEXT] [--json]',
  options: {
    reason: option('TEXT', 'adopt: why the address or the client changed; it is recorded'),
    json,
  },
  examples: [
    'tidemark source',
    'tidemark source adopt --reason "the service moved to another host on 1 March"',
  ],
  run: runAction('source', { show, adopt }, 'show'),
}

async function show(call: Call): Promise<ExitCode> {
  expectNoWords('source', call)
  const { values, stdout } = call
  return await readMirror(call, async (pool) => {
    const sources = await readSources(pool)
    if (values.json) stdout.json({ sources: sources.map(snakeCased) })
    else if (sources.length === 0) stdout.say('There is no data yet.')
    else
      for (const { name, service, baseUrl, account } of sources)
        stdout.say(`${keyIn(name, service)}: ${baseUrl} (${account})`)
  })
}

async function adopt(call: Call): Promise<ExitCode> {
  expectNoWords('source adopt', call)
  const { values, stdout, environment, log, signal } = call
  const reason = textOf(values, 'reason')
  if (reason === null)
    throw new UsageError(
      '`tidemark source adopt` needs --reason TEXT: it is kept, for those who wonder later why the address is another one.',
    )
  const config = loadConfigHere(environment)
  await using context = await openContext({ config, log, anySource: true })
  const { pool } = context.database
  const others = await otherSources(pool, sourcesOf(config))
  const adopted = []
  for (const other of others) {
    const agreements = await compareSource(context, other.wanted.service, signal)
    if (!isSameSource(agreements)) throw new UsageError(refusal(otherSourceText(other), agreements))
    await recordedHere(
      { pool, log },
      { action: 'adopt', target: other.wanted.service, reason },
      () => adoptSource(pool, other.wanted, { by: operator(), reason }),
      () => `The rows here are now those of ${other.wanted.baseUrl} (${other.wanted.account}).`,
    )
    const { service, baseUrl, account } = other.wanted
    adopted.push({ service, baseUrl, account, compared: agreements })
  }
  if (values.json) stdout.json({ adopted: adopted.map(snakeCased) })
  else if (adopted.length === 0)
    stdout.say('The settings already name the upstream that this database belongs to. Nothing was changed.')
  else
    for (const { service, baseUrl, account, compared } of adopted)
      stdout.say(
        `${service}: the rows here are now those of ${baseUrl} (${account}). Compared: ${compared.map(agreementText).join(', ')}.`,
      )
  return exitCodes.done
}

const agreementText = ({ stream, same, compared }: Agreement): string =>
  `${same} of ${compared} records of ${stream} are the same`

const refusal = (what: string, agreements: readonly Agreement[]): string =>
  agreements.length === 0
    ? `${what} There are no rows that could be compared, so nothing shows that they are one source. Use another database (DATABASE_URL).`
    : `${what} They are not one source: ${agreements.map(agreementText).join(', ')}. Nothing was changed. Use another database (DATABASE_URL).`
