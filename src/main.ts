// The composition root: hears the signals, and gives the program what is of this process.

import { isatty } from 'node:tty'
import type { Command } from './cli/command.ts'
import { exitCodes, Interrupted } from './cli/exit.ts'
import { hasColour, openOutput } from './cli/output.ts'
import { runProgram } from './cli/program.ts'
import { demoDirectory, runningDemo } from './cli/running-demo.ts'
import { dotEnvWarnings, type Environment, readEnvironment } from './config/environment.ts'
import { openLog } from './log.ts'

const given = readEnvironment(null)
const stdout = openOutput(process.stdout, given)
const stderr = openOutput(process.stderr, given)
const stopping = new AbortController()
const { signal } = stopping
const explainMs = 1_500

let hasHungUp = false

process.stdout.on('error', endWithoutOutput)
// Nobody can be told any more.
process.stderr.on('error', () => {})
process.exitCode = await runProgram(process.argv.slice(2), {
  stdout,
  stderr,
  signal,
  environmentOf(command) {
    hearSignals()
    return environmentFor(command)
  },
  openLog: (level) => openLog({ level, isColoured: hasColour(given) }),
})

function environmentFor({ ignoresDemo = false }: Command): Environment {
  const environment = readEnvironment()
  for (const warning of dotEnvWarnings()) stderr.tell(warning)
  const ofDemo = ignoresDemo ? null : runningDemo(environment)
  if (ofDemo) stderr.tell(`Nothing is configured, so this shows the demo that runs here (${demoDirectory}).`)
  return ofDemo ?? environment
}

/** The first signal asks the verb to finish what is in hand; the second ends the program at once. */
function hearSignals(): void {
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.on(name, () => {
      if (signal.aborted) process.exit(exitCodes.interrupted)
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

function endWithoutOutput({ code, message }: NodeJS.ErrnoException): void {
  if (hasHungUp) return
  // Whoever read it has seen enough.
  if (code === 'EPIPE') process.exit(exitCodes.done)
  process.stderr.write(`Standard output cannot be written (${code ?? message}).\n`)
  process.exit(exitCodes.failed)
}
