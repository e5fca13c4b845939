// The composition root: the list of verbs, the signals, and how an error leaves the program.

import { readFileSync } from 'node:fs'
import { type Command, type ExitCode, exitCodes } from './cli/command.ts'
import { commandHelp, findVerb, parseCall, programHelp } from './cli/parse.ts'
import { ConfigError, loadLogLevel, readEnvironment } from './config/load.ts'
import { type Logger, openLog, redact } from './log.ts'
import { DatabaseError, UsageError } from './util/errors.ts'
import { visible } from './util/text.ts'

/** Loaded when called, so that a verb starts without the parts of all others. */
const verbs: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./cli/serve.ts')).serveCommand,
  sync: async () => (await import('./cli/sync.ts')).sync,
  status: async () => (await import('./cli/status.ts')).status,
  checkpoints: async () => (await import('./cli/positions.ts')).checkpoints,
  backfill: async () => (await import('./cli/backfill.ts')).backfill,
  rewind: async () => (await import('./cli/positions.ts')).rewind,
  pause: async () => (await import('./cli/positions.ts')).pause,
  resume: async () => (await import('./cli/positions.ts')).resume,
  reconcile: async () => (await import('./cli/reconcile.ts')).reconcile,
  verify: async () => (await import('./cli/verify.ts')).verify,
  quarantine: async () => (await import('./cli/quarantine.ts')).quarantine,
  probe: async () => (await import('./cli/probe.ts')).probe,
  schema: async () => (await import('./cli/schema.ts')).schema,
  explain: async () => (await import('./cli/explain.ts')).explain,
  migrate: async () => (await import('./cli/database.ts')).migrate,
  webhooks: async () => (await import('./cli/api.ts')).webhooks,
  api: async () => (await import('./cli/api.ts')).api,
  demo: async () => (await import('./cli/demo.ts')).demo,
  simulate: async () => (await import('./cli/simulate.ts')).simulate,
}

const whereFrom =
  'Variables come from the environment, or from a file .env in this directory; .env.example tells what each is'

const words = process.argv.slice(2)
process.stdout.on('error', endWithoutOutput)
process.exitCode = await run(words)

async function run([verb, ...rest]: readonly string[]): Promise<ExitCode> {
  try {
    if (verb === '--version') return print(`tidemark ${version()}\n`)
    if (verb === 'help' && rest[0] !== undefined) return await run([rest[0], '--help'])
    if (verb === undefined || verb === '--help' || verb === '-h' || verb === 'help') {
      print(programHelp(await Promise.all(Object.values(verbs).map((load) => load()))))
      return verb === undefined ? exitCodes.usage : exitCodes.done
    }
    const command = await findVerb(verbs, verb)()
    const { positionals, values, wantsHelp } = parseCall(command, rest)
    if (wantsHelp) return print(commandHelp(command))
    const environment = readEnvironment()
    const log = openLog({ level: loadLogLevel(environment) ?? 'info' })
    return await command.run({
      positionals,
      values,
      environment,
      log,
      signal: stopSignal(log),
      stdout: process.stdout,
    })
  } catch (error) {
    return tell(causeOf(error))
  }
}

/** What Postgres says when it goes down or comes up tells nobody what to do. */
function adviceOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === '53100') return ': make room on the disk of Postgres, then try again'
  return /^57P0[1-5]$/.test(code)
    ? ': Postgres went down or is starting. Its own log says why, a full disk for instance (that of the embedded one is .tidemark/postgres/server.log); try again when it is up'
    : ''
}

function print(text: string): ExitCode {
  process.stdout.write(text)
  return exitCodes.done
}

/** What could not be closed afterwards is seldom what went wrong. */
function causeOf(error: unknown): unknown {
  return error instanceof SuppressedError ? causeOf(error.suppressed) : error
}

function tell(error: unknown): ExitCode {
  const isUsage = error instanceof UsageError
  const isConfig = error instanceof ConfigError
  const message = `${error instanceof Error ? error.message : String(error)}${adviceOf(error)}`
  const text = isConfig ? `The configuration cannot be used:\n${message}\n${whereFrom}` : message
  process.stderr.write(`${visible(redact(text))}\n`)
  return isUsage || isConfig || error instanceof DatabaseError ? exitCodes.usage : exitCodes.failed
}

/** The first signal asks the command to finish what is in hand; the second ends the program at once. */
function stopSignal(log: Logger): AbortSignal {
  const controller = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(name === 'SIGINT' ? 130 : 143)
      log.debug({ signal: name }, 'stopping')
      controller.abort(new Error(`${name} received`))
    })
  }
  return controller.signal
}

function version(): string {
  const manifest: { version: string } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  )
  return manifest.version
}

function endWithoutOutput({ code, message }: NodeJS.ErrnoException): void {
  // Whoever read it has seen enough.
  if (code === 'EPIPE') process.exit(exitCodes.done)
  process.stderr.write(`Standard output cannot be written (${code ?? message})\n`)
  process.exit(exitCodes.failed)
}
