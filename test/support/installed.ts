// Programs that only some tests need, and that not every machine has.

import { spawnSync } from 'node:child_process'

/** The package of Debian and Ubuntu that has it. */
const packages = {
  'redis-server': 'redis-server',
  'redis-sentinel': 'redis-sentinel',
  pgbouncer: 'pgbouncer',
} as const
export type Program = keyof typeof packages

const isInstalled = (program: Program): boolean => spawnSync(program, ['--version']).error === undefined

/** Null when all are there; otherwise what is missing, in words. */
export function missing(programs: readonly Program[]): string | null {
  const absent = programs.filter((program) => !isInstalled(program))
  if (absent.length === 0) return null
  return `this machine has no ${absent.join(', no ')} (apt install ${absent.map((one) => packages[one]).join(' ')})`
}

/** For `describe.skipIf(!hasAll([…]))`; what is missing is told. */
export function hasAll(programs: readonly Program[]): boolean {
  const lack = missing(programs)
  if (lack !== null) process.stderr.write(`\n*** SKIPPED: ${lack} ***\n\n`)
  return lack === null
}
