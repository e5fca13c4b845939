// The composition root: finds the verb, hears the signals, and decides how the program ends.

import { existsSync, readFileSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Command } from './cli/command.ts'
import { type ExitCode, exitCodeOf, exitCodes, Interrupted } from './cli/exit.ts'
import { fitted, hasColour, openOutput } from './cli/output.ts'
import { commandHelp, findVerb, parseCall, programHelp } from './cli/parse.ts'
import { demoDirectory, runningDemo } from './cli/running-demo.ts'
import { verbs } from './cli/verbs.ts'
import { ConfigError, dotEnvWarnings, type Environment, readEnvironment } from './config/environment.ts'
import { loadLogLevel } from './config/load.ts'
import { misspeltWarnings } from './config/misspelt.ts'
import { readAddedStreams } from './config/stream-variables.ts'
import { openLog, redact } from './log.ts'
import { catalogueOf } from './streams/catalog.ts'
import { messageOf } from './util/errors.ts'

const given = readEnvironment(null)
const stdout = openOutput(process.stdout, given)
const stderr = openOutput(process.stderr, given)
const stopping = new AbortController()
const explainMs = 1_500

let hasHungUp = false

process.stdout.on('error', endWithoutOutput)
// Nobody can be told any more.
process.stderr.on('error', () => {})
process.exitCode = await run(process.argv.slice(2))

async function run([verb, ...rest]: readonly string[]): Promise<ExitCode> {
  try {
    if (verb === '--version') return say(`tidemark ${version()}`)
    if (verb === 'help' && rest[0] !== undefined) return await run([rest[0], '--help'])
    if (verb === undefined || verb === '--help' || verb === '-h' || verb === 'help') {
      say(programHelp(await commands(), stdout.columns()).trimEnd())
      return verb === undefined ? exitCodes.usage : exitCodes.done
    }
    return await call(await findVerb(verbs, verb)(), rest)
  } catch (error) {
    return end(causeOf(error), rest.includes('--json'))
  }
}

function commands(): Promise<readonly Command[]> {
  return Promise.all(Object.values(verbs).map((load) => load()))
}

async function call(command: Command, words: readonly string[]): Promise<ExitCode> {
  const { positionals, values, wantsHelp } = parseCall(command, words)
  if (wantsHelp) return say(commandHelp(command, stdout.columns()).trimEnd())
  hearSignals()
  const environment = environmentFor(command)
  if (command.name !== 'config')
    for (const warning of misspeltWarnings(environment)) stderr.say(fitted(warning, stderr))
  const log = openLog({ level: loadLogLevel(environment) ?? 'info', isColoured: hasColour(given) })
  const { signal } = stopping
  const catalogue =
    readAddedStreams(environment).length === 0
      ? catalogueOf([])
      : await (await import('./cli/peek.ts')).learnStreams(environment, log)
  const code = await command.run({
    positionals,
    values,
    catalogue,
    environment,
    log,
    signal,
    stdout,
    stderr,
    commands,
  })
  // What failed after Ctrl-C failed because of it.
  return signal.aborted && code !== exitCodes.done ? exitCodes.interrupted : code
}

function environmentFor({ ignoresDemo = false }: Command): Environment {
  const environment = readEnvironment()
  for (const warning of dotEnvWarnings()) stderr.say(fitted(warning, stderr))
  const ofDemo = ignoresDemo ? null : runningDemo(environment)
  if (ofDemo)
    stderr.say(
      fitted(`Nothing is configured, so this shows the demo that runs here (${demoDirectory}).`, stderr),
    )
  return ofDemo ?? environment
}

function say(text: string): ExitCode {
  stdout.say(text)
  return exitCodes.done
}

/** If closing something failed as well, the first error is the one that tells what went wrong. */
function causeOf(error: unknown): unknown {
  return error instanceof SuppressedError ? causeOf(error.suppressed) : error
}

function end(thrown: unknown, wantsJson: boolean): ExitCode {
  const isInterruption = stopping.signal.aborted && isOf(thrown, stopping.signal.reason)
  const error = isInterruption ? stopping.signal.reason : thrown
  const code = stopping.signal.aborted ? exitCodes.interrupted : exitCodeOf(error)
  const text = redact(inWords(error))
  stderr.say(fitted(text, stderr))
  if (wantsJson && !stdout.hasWritten()) stdout.json({ error: text, exit_code: code })
  // Ends the program even if something hangs: nothing that could still happen matters.
  if (stopping.signal.aborted) setTimeout(() => process.exit(code), 1_000).unref()
  return code
}

function isOf(error: unknown, reason: unknown): boolean {
  if (error === reason) return true
  return error instanceof Error && (error.name === 'AbortError' || isOf(error.cause ?? null, reason))
}

function inWords(error: unknown): string {
  if (error instanceof ConfigError)
    return `The configuration cannot be used:\n${error.message}\n${whereSettingsComeFrom()}`
  return `${messageOf(error)}${adviceOf(error)}`
}

function whereSettingsComeFrom(): string {
  const text = 'Settings come from the environment, or from a file .env in this directory'
  if (existsSync('.env')) return `${text}; .env.example explains each.`
  return `${text}, which has none: \`tidemark init\` asks for them and writes it. \`tidemark demo\` needs no settings.`
}

/** What Postgres says when it goes down or comes up tells nobody what to do. */
function adviceOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === '53100') return '. Make room on the disk of Postgres, then try again.'
  return /^57P0[1-5]$/.test(code)
    ? '. Postgres went down or is starting. Its own log says why (that of the embedded one is .tidemark/postgres/server.log). Try again when it is up.'
    : ''
}

/** The first signal asks the verb to finish what is in hand; the second ends the program at once. */
function hearSignals(): void {
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.on(name, () => {
      if (stopping.signal.aborted) process.exit(exitCodes.interrupted)
      stopping.abort(new Interrupted('Interrupted.'))
      if (!stderr.isTTY) return
      const text = 'Stopping as soon as what is in hand is stored. Ctrl-C again stops at once.'
      setTimeout(() => stderr.say(text), explainMs).unref()
    })
  const hasTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor))
  process.on('SIGHUP', hasTerminal ? hangUp : () => {})
}

/**
 * The terminal is gone, so what it started stops, as after SIGTERM. Without a terminal (nohup, a service, a container) there is none that
 * hangs up, and the signal is ignored: Node undoes what nohup has set. The system and the shell may both send it, so a second one is the
 * same.
 */
function hangUp(): void {
  hasHungUp = true
  stopping.abort(new Interrupted('The terminal was closed.'))
}

function version(): string {
  const manifest: { version: string } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  )
  return manifest.version
}

function endWithoutOutput({ code, message }: NodeJS.ErrnoException): void {
  if (hasHungUp) return
  // Whoever read it has seen enough.
  if (code === 'EPIPE') process.exit(exitCodes.done)
  process.stderr.write(`Standard output cannot be written (${code ?? message}).\n`)
  process.exit(exitCodes.failed)
}
