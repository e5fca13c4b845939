// The demo that runs in this directory, for the verbs that are called beside it: it leaves its settings in a file, and they hold
// where nothing else is configured.

import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Environment } from './output.ts'

export const demoDirectory = '.tidemark/demo'
const file = resolve(demoDirectory, 'settings.json')

/** Variables that say what is mirrored, where to, or which worker is asked: if one is set, the demo is not used. */
const configured = ['ASSIGNMENT_BASE_URL', 'DATABASE_URL', 'TIDEMARK_URL'].flatMap((name) => [
  name,
  `${name}_FILE`,
])

/** The settings hold a password: for this user alone (P9). */
export function announceDemo(settings: Environment): Disposable {
  writeFileSync(file, JSON.stringify({ pid: process.pid, settings }), { mode: 0o600 })
  chmodSync(file, 0o600)
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) }
}

/** Null when none runs here, or something else is configured. */
export function runningDemo(environment: Environment): Environment | null {
  if (configured.some((name) => environment[name]?.trim())) return null
  try {
    const { pid, settings }: { pid: number; settings: Environment } = JSON.parse(readFileSync(file, 'utf8'))
    // Throws if that process is gone: a demo that was killed left the file.
    process.kill(pid, 0)
    return { ...environment, ...settings }
  } catch {
    return null
  }
}
