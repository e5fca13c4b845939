// Verbs in the process of the test, called as src/main.ts calls them: for what is the verb's own to say, without half a second of
// starting the program each time.

import { PassThrough } from 'node:stream'
import type { Command } from '../../src/cli/command.ts'
import { openOutput } from '../../src/cli/output.ts'
import { findVerb, parseCall } from '../../src/cli/parse.ts'
import { commands, runProgram } from '../../src/cli/program.ts'
import { verbs } from '../../src/cli/verbs.ts'
import type { Environment } from '../../src/config/load.ts'
import { catalogueIn } from '../../src/config/stream-variables.ts'
import { openLog } from '../../src/log.ts'
import { neverAborted } from './context.ts'
import type { Ended } from './program.ts'

type Said = { readonly stdout: string; readonly logged: string }
export type Called = Said & {
  readonly code: number | null
  /** What the verb threw, which the program tells in one line. */
  readonly error: unknown
}

/** What is said there can be read once. */
function openTerminal(level: string) {
  const [out, err] = [new PassThrough(), new PassThrough()]
  return {
    stdout: openOutput(out, {}),
    stderr: openOutput(err, {}),
    log: openLog({ level, stream: err }),
    said: (): Said => ({ stdout: String(out.read() ?? ''), logged: String(err.read() ?? '') }),
  }
}

/** The program in the process of the test, for all that is not about a process of its own. */
export async function runHere(words: readonly string[], environment: Environment): Promise<Ended> {
  const [out, err] = [new PassThrough(), new PassThrough()]
  const code = await runProgram(words, {
    ...{ stdout: openOutput(out, environment), stderr: openOutput(err, environment), signal: neverAborted },
    environmentOf: () => environment,
    openLog: (level) => openLog({ level, stream: err }),
  })
  return { code, stdout: String(out.read() ?? ''), stderr: String(err.read() ?? '') }
}

/** Rejects with what the verb throws. */
export async function callCommand(
  command: Command,
  words: readonly string[],
  environment: Environment,
  { log, stdout, stderr, said } = openTerminal('trace'),
): Promise<Said & { readonly code: number }> {
  const code = await command.run({
    ...parseCall(command, words),
    signal: neverAborted,
    catalogue: catalogueIn(environment),
    environment,
    log,
    stdout,
    stderr,
    commands,
  })
  return { code, ...said() }
}

export async function callVerb(
  [name = '', ...words]: readonly string[],
  environment: Environment,
): Promise<Called> {
  const terminal = openTerminal('warn')
  try {
    return {
      ...(await callCommand(await findVerb(verbs, name)(), words, environment, terminal)),
      error: null,
    }
  } catch (error) {
    return { code: null, error, ...terminal.said() }
  }
}
