// Programs that only some tests need, and that not every machine has.

import { spawnSync } from 'node:child_process'

/** The package of Debian and Ubuntu that has it. */
const packages = {
  'redis-server': 'redis-server',
  pgbouncer: 'pgbouncer',
  mount: 'mount',
  pg_basebackup: 'postgresql',
} as const
export type Program = keyof typeof packages

/** Only root can mount. */
const isInstalled = (program: Program): boolean =>
  spawnSync(program, ['--version']).error === undefined && (program !== 'mount' || process.getuid?.() === 0)

/** Null when all are there; otherwise what is missing, in words. */
export function missing(programs: readonly Program[]): string | null {
  const absent = programs.filter((program) => !isInstalled(program))
  if (absent.length === 0) return null
  const asRoot = absent.includes('mount') ? ', as root' : ''
  return `this machine has no ${absent.join(', no ')} (apt install ${absent.map((one) => packages[one]).join(' ')}${asRoot})`
}

/** For `describe.skipIf(!hasAll([…]))`; what is missing is told, and an error with CI set. */
export function hasAll(programs: readonly Program[]): boolean {
  const lack = missing(programs)
  if (lack !== null && process.env.CI) throw new Error(lack)
  if (lack !== null) process.stderr.write(`\n*** SKIPPED: ${lack} ***\n\n`)
  return lack === null
}
