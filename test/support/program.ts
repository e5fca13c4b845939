// Runs the real program in a process of its own.

import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, inject } from 'vitest'
import type { Environment } from '../../src/config/load.ts'

/** `TEST_PROGRAM=dist` runs what was built. */
const checkout = fileURLToPath(new URL(`../../${process.env.TEST_PROGRAM ?? ''}`, import.meta.url))
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

/** `from` is the checkout whose program runs, `cwd` where it runs. */
export function startTidemark(
  words: readonly string[],
  environment: Environment,
  from = checkout,
  cwd = directory,
): Program {
  return startProgram([process.execPath, join(from, 'bin/tidemark.js'), ...words], environment, cwd)
}

/** In a shell that sets limits first, such as `ulimit -n 64`. */
export const startLimited = (limits: string, words: readonly string[], environment: Environment): Program =>
  startProgram(
    [
      ...['/bin/sh', '-c', `${limits}; exec "$@"`, 'sh'],
      ...[process.execPath, join(checkout, 'bin/tidemark.js'), ...words],
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
  from = checkout,
  cwd = directory,
): Promise<Ended> => startTidemark(words, environment, from, cwd).ended

/** Runs it in a directory where nothing was run before. */
export function inFreshDirectory() {
  const cwd = makeDirectory()
  return {
    start: (words: readonly string[], environment: Environment) =>
      startTidemark(words, environment, checkout, cwd),
    run: (words: readonly string[], environment: Environment) =>
      runTidemark(words, environment, checkout, cwd),
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
