// `tidemark serve`: the worker, until it is told to stop.

import { once } from 'node:events'
import { loadConfig } from '../config/load.ts'
import { UsageError } from '../util/errors.ts'
import { AddressUnusable } from '../web/server.ts'
import { serve } from '../worker/serve.ts'
import { type Command, expectNoWords } from './command.ts'
import { exitCodes } from './exit.ts'

export const serveCommand: Command = {
  name: 'serve',
  summary: 'run the worker: read on schedule and serve the console',
  usage: '',
  options: {},
  examples: ['tidemark serve', 'HTTP_PORT=9090 REDIS_URL=redis://localhost tidemark serve'],
  ignoresDemo: true,
  async run({ environment, positionals, signal, log }) {
    expectNoWords('serve', { positionals })
    const config = loadConfig(environment)
    const worker = await serve({ config, environment, log }).catch((error) => {
      throw error instanceof AddressUnusable ? new UsageError(error.message, { cause: error }) : error
    })
    log.info({ url: worker.url }, 'listening')
    try {
      const told = signal.aborted ? Promise.resolve([]) : once(signal, 'abort')
      await Promise.race([told, worker.live.then(() => told), worker.hopeless])
    } finally {
      const code = signal.aborted ? exitCodes.done : exitCodes.failed
      setTimeout(() => process.exit(code), lastResortMs).unref()
      await worker.stop()
    }
    log.info('stopped')
    // Connections to a queue that is away go on trying; nothing that they could still do matters.
    setTimeout(() => process.exit(exitCodes.done), lingerMs).unref()
    return exitCodes.done
  },
}

/** After a signal the program ends within half a minute, even if something hangs. What was not committed is read again. */
const lastResortMs = 28_000
const lingerMs = 500
