// `tidemark alerts test`: sends a message to the receiver of alerts, to see that it arrives.

import { loadConfig } from '../config/load.ts'
import { formatOf } from '../problems/alert-body.ts'
import { sendTest } from '../problems/alert-loop.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { fitted } from './output.ts'
import { expectNoWords, findAction } from './parse.ts'

export const alerts: Command = {
  name: 'alerts',
  summary: 'send a test message to the receiver of the alerts',
  usage: 'test [--json]',
  options: { json },
  examples: ['tidemark alerts test'],
  async run(call) {
    const [word = '', ...rest] = call.positionals
    expectNoWords('alerts test', { positionals: rest })
    return await findAction('alerts', { test }, word)(call)
  },
}

async function test({ environment, values, signal, stdout }: Call): Promise<ExitCode> {
  const config = loadConfig(environment)
  const { alertWebhookUrl: url, alertFormat: format, consoleUrl, runbooksUrl, proxies } = config
  if (url === null)
    throw new UsageError('No receiver of alerts is configured. Set ALERT_WEBHOOK_URL to an incoming webhook.')
  const receiver = { url, proxies, format, consoleUrl, runbooksUrl }
  const sent = await sendTest(receiver, new Date(), signal)
  if (values.json) stdout.json({ sent: true, format: formatOf(receiver) })
  else stdout.say(fitted(sent, stdout))
  return exitCodes.done
}
