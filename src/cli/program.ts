// From the words of a call to the number that the program ends with: finds the verb, does it, and says in a line what went wrong.

import { existsSync, readFileSync } from 'node:fs'
import { ConfigError, type Environment, sourceOfEnvironment } from '../config/environment.ts'
import { loadLogLevel } from '../config/load.ts'
import { misspeltWarnings } from '../config/misspelt.ts'
import { readAddedStreams } from '../config/stream-variables.ts'
import { type Logger, redact } from '../log.ts'
import { catalogueOf } from '../streams/catalog.ts'
import { messageOf } from '../util/errors.ts'
import type { Command } from './command.ts'
import { type ExitCode, exitCodeOf, exitCodes } from './exit.ts'
import type { Output } from './output.ts'
import { commandHelp, findVerb, parseCall, programHelp } from './parse.ts'
import { verbs } from './verbs.ts'

/** What a call works with. */
export type Surroundings = {
  readonly stdout: Output
  readonly stderr: Output
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  /** Asked for when a verb begins. */
  environmentOf(command: Command): Environment
  openLog(level: string): Logger
}

export async function runProgram(words: readonly string[], around: Surroundings): Promise<ExitCode> {
  const [verb, ...rest] = words
  const { stdout } = around
  try {
    if (verb === '--version') return say(stdout, `tidemark ${version()}`)
    if (verb === 'help' && rest[0] !== undefined) return await runProgram([rest[0], '--help'], around)
    if (verb === undefined || verb === '--help' || verb === '-h' || verb === 'help') {
      say(stdout, programHelp(await commands(), stdout.columns()).trimEnd())
      return verb === undefined ? exitCodes.usage : exitCodes.done
    }
    return await call(await findVerb(verbs, verb)(), rest, around)
  } catch (error) {
    return tell(causeOf(error), rest.includes('--json'), around)
  }
}

export function commands(): Promise<readonly Command[]> {
  return Promise.all(Object.values(verbs).map((load) => load()))
}

async function call(command: Command, words: readonly string[], around: Surroundings): Promise<ExitCode> {
  const { stdout, stderr, signal } = around
  const { wantsHelp, source, isSourceSaid, ...parsed } = parseCall(command, words)
  if (wantsHelp) return say(stdout, commandHelp(command, stdout.columns()).trimEnd())
  const own = around.environmentOf(command)
  const hasSources = command.name !== 'sources' && (isSourceSaid || (own.SOURCES_FILE ?? '').trim() !== '')
  const environment =
    source !== null && hasSources
      ? (await import('../config/sources-file.ts')).environmentNamed(own, source)
      : own
  if (command.name !== 'config') for (const warning of misspeltWarnings(environment)) stderr.tell(warning)
  const log = around.openLog(loadLogLevel(environment) ?? 'info')
  const catalogue =
    readAddedStreams(environment).length === 0
      ? catalogueOf([], undefined, sourceOfEnvironment(environment))
      : await (await import('./peek.ts')).learnStreams(environment, log)
  const code = await command.run({
    ...parsed,
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

function say(stdout: Output, text: string): ExitCode {
  stdout.say(text)
  return exitCodes.done
}

/** If closing something failed as well, the first error is the one that tells what went wrong. */
function causeOf(error: unknown): unknown {
  return error instanceof SuppressedError ? causeOf(error.suppressed) : error
}

function tell(thrown: unknown, wantsJson: boolean, { stdout, stderr, signal }: Surroundings): ExitCode {
  const error = signal.aborted && isOf(thrown, signal.reason) ? signal.reason : thrown
  const code = signal.aborted ? exitCodes.interrupted : exitCodeOf(error)
  const text = redact(inWords(error))
  stderr.tell(text)
  if (wantsJson && !stdout.hasWritten()) stdout.json({ error: text, exit_code: code })
  // Ends the program even if something hangs: nothing that could still happen matters.
  if (signal.aborted) setTimeout(() => process.exit(code), 1_000).unref()
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

function version(): string {
  const manifest: { version: string } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  return manifest.version
}
