// Where the files of the embedded Postgres are: in the directory of the program that uses it. When that program runs as root and
// the user postgres cannot enter the directory (a home of mode 0700, say), they are below /var/lib/tidemark instead, and a link
// in the directory leads there.

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  rmdir,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseError } from '../util/errors.ts'

/** The user who runs Postgres for root. */
export type Owner = { readonly uid: number; readonly gid: number }

export const systemDirectory = '/var/lib/tidemark'
export const otherWays = 'Run Tidemark as an ordinary user, or set DATABASE_URL to a Postgres of yours.'

/** Whether that user may use what is in the directory. */
export const canEnter = (owner: Owner, directory: string): boolean =>
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
export async function openSystemDirectory(system: string, owner: Owner): Promise<void> {
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

export const cannotEnter = (directory: string): string =>
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
