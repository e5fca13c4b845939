// The data directory of the embedded Postgres: made once, and what is known of the server that runs on it. Starts and
// stops nothing.

import { createHmac, randomBytes } from 'node:crypto'
import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseError } from '../util/errors.ts'
import type { Binaries } from './location.ts'
import { findDataFolder, systemDirectory } from './location.ts'

/** A port of this machine that nobody listens on: the wanted one when it is free, otherwise any. */
export const freePort = async (wanted = 0): Promise<number> =>
  (await listenOnce(wanted)) ?? (await listenOnce(0)) ?? wanted

function listenOnce(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(null))
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : null))
    })
  })
}

export const superuser = 'tidemark'
/** As whom Tidemark works: whoever gets into that session gets no shell by it. */
export const workerRole = 'tidemark_worker'

export type Cluster = { readonly data: string; readonly password: string; readonly port: number }

/** Follows from that of the superuser, and tells nothing of it. */
export const workerPasswordOf = ({ password }: Pick<Cluster, 'password'>): string =>
  createHmac('sha256', password).update(workerRole).digest('base64url')

/** Opens the cluster of a directory; makes it when there is none. Any number of programs may do so at once. */
export async function openCluster(
  directory: string,
  binaries: Binaries,
  system = systemDirectory,
): Promise<Cluster> {
  try {
    return await findOrMake(await findDataFolder(directory, binaries.owner, system), binaries)
  } catch (cause) {
    throw inPlainWords(directory, cause)
  }
}

async function findOrMake(folder: string, binaries: Binaries): Promise<Cluster> {
  const data = join(folder, 'postgres')
  const existing = await readSettings(data)
  if (existing) return { data, ...existing }
  await removeAbandoned(folder)
  const unfinished = join(folder, `postgres.new-${process.pid}`)
  const settings = { password: randomBytes(24).toString('base64url'), port: await freePort() }
  await initialise(unfinished, settings.password, binaries)
  await writePrivately(join(unfinished, settingsFile), JSON.stringify(settings), binaries)
  try {
    await rename(unfinished, data)
    return { data, ...settings }
  } catch (error) {
    // Another program was quicker; its cluster is the one.
    await rm(unfinished, { recursive: true, force: true })
    const theirs = await readSettings(data)
    if (theirs) return { data, ...theirs }
    throw error
  }
}

/** A port that nobody listens on: the same as ever where possible, because BI tools have it written down. */
export async function choosePort(cluster: Cluster, binaries: Binaries): Promise<Cluster> {
  const port = await freePort(cluster.port)
  if (port === cluster.port) return cluster
  const settings = { password: cluster.password, port }
  await writePrivately(join(cluster.data, settingsFile), JSON.stringify(settings), binaries)
  return { ...cluster, port }
}

export async function writePrivately(
  path: string,
  text: string,
  { owner }: Pick<Binaries, 'owner'>,
): Promise<void> {
  const unfinished = `${path}.new-${process.pid}`
  await writeFile(unfinished, text, { mode: 0o600 })
  if (owner) await chown(unfinished, owner.uid, owner.gid)
  await rename(unfinished, path)
}

// Inside the data directory, so that it can never belong to another cluster.
const settingsFile = 'tidemark.json'

async function readSettings(data: string): Promise<{ password: string; port: number } | null> {
  try {
    return JSON.parse(await readFile(join(data, settingsFile), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

async function initialise(data: string, password: string, binaries: Binaries): Promise<void> {
  const passwordFile = `${data}.password`
  await rm(data, { recursive: true, force: true })
  await mkdir(data, { mode: 0o700 })
  if (binaries.owner) await chown(data, binaries.owner.uid, binaries.owner.gid)
  await writePrivately(passwordFile, password, binaries)
  try {
    await binaries.run('initdb', [
      `--pgdata=${data}`,
      `--username=${superuser}`,
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale-provider=builtin',
      '--locale=C.UTF-8',
      '--lc-collate=C',
      '--lc-ctype=C',
    ])
  } finally {
    await rm(passwordFile, { force: true })
  }
}

/** What a program left that was killed while it made the cluster. */
async function removeAbandoned(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const maker = /^postgres\.new-(\d+)/.exec(name)?.[1]
    if (maker !== undefined && !isAlive(Number(maker)))
      await rm(join(directory, name), { recursive: true, force: true })
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

const advice: Readonly<Record<string, string>> = {
  EACCES: 'this user may not read or write there (did another user make it?)',
  EPERM: 'this user may not read or write there (did another user make it?)',
  EROFS: 'the file system is read-only',
  // So Node says when it makes a directory on such a file system.
  ENOENT: 'the directory cannot be made (is the file system read-only?)',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota of this user is used up',
  // Postgres itself says so.
  53100: 'the disk is full',
}

/** What the file system says, with what to do about it. */
export function inPlainWords(directory: string, cause: unknown): unknown {
  const { code = '' } = cause as NodeJS.ErrnoException
  const problem = Object.hasOwn(advice, code) ? advice[code] : undefined
  if (problem === undefined) return cause
  return new DatabaseError(
    `The embedded Postgres cannot keep its data in ${directory}: ${problem} (${code}). Fix that, start Tidemark in another directory, or set DATABASE_URL to a Postgres of yours.`,
    { cause },
  )
}
