// Clusters of the machine's own Postgres, for trials that need its programs: standbys, backups, archives.

import { execFile } from 'node:child_process'
import { appendFile, chmod, chown, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { freePort } from '../../src/embedded-postgres/cluster.ts'

export type Runner = (program: string, ...args: string[]) => Promise<string>
export type Cluster = {
  readonly port: number
  readonly url: string
  run(...statements: string[]): Promise<void>
  /** As after a power failure. */
  kill(): Promise<void>
  /** As a machine that is gone: nothing comes from it, not even that it is gone. */
  freeze(): Promise<void>
  promote(): Promise<void>
}

export const password = 'of-a-trial'

const exec = promisify(execFile)

/** Those of Debian, run as the user postgres where this program is root's. */
export async function findPrograms(): Promise<Runner> {
  const versions = await readdir('/usr/lib/postgresql').catch(() => [])
  const version = versions.toSorted((a, b) => Number(a) - Number(b)).at(-1)
  if (!version) throw new Error('this trial needs Postgres of Debian: apt install postgresql')
  const owner = await ownerOf()
  return async (program, ...args) =>
    (await exec(`/usr/lib/postgresql/${version}/bin/${program}`, args, { ...owner, cwd: '/' })).stdout
}

async function ownerOf(): Promise<{ uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return {}
  const [uid, gid] = await Promise.all(['-u', '-g'].map((flag) => exec('id', [flag, 'postgres'])))
  return { uid: Number(uid?.stdout), gid: Number(gid?.stdout) }
}

export async function openDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'tidemark-trial-'))
  await chmod(path, 0o755)
  const { uid, gid } = await ownerOf()
  if (uid !== undefined && gid !== undefined) await chown(path, uid, gid)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

export async function makePrimary(
  run: Runner,
  directory: string,
  clusters: AsyncDisposableStack,
  settings = '',
): Promise<Cluster> {
  const data = join(directory, 'first')
  await run('initdb', '-D', data, '-U', 'postgres', '-E', 'UTF8', '--no-sync', '-A', 'trust')
  const cluster = await startCluster(run, data, await freePort(), clusters, settings)
  await cluster.run(`create role tidemark superuser login password '${password}'`, 'create database tidemark')
  return cluster
}

export async function startCluster(
  run: Runner,
  data: string,
  port: number,
  clusters: AsyncDisposableStack,
  settings = '',
): Promise<Cluster> {
  await appendFile(
    join(data, 'postgresql.conf'),
    `\nport = ${port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\nwal_keep_size = '256MB'\n${settings}\n`,
  )
  const control = (...words: string[]) => run('pg_ctl', '-D', data, '-w', ...words)
  await control('-l', `${data}.log`, 'start')
  const kill = async () => void (await control('-m', 'immediate', 'stop').catch(() => {}))
  clusters.defer(kill)
  const postmaster = Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[0])
  return {
    port,
    url: `postgres://postgres@127.0.0.1:${port}/tidemark?sslmode=disable`,
    async run(...statements) {
      const client = new pg.Client(`postgres://postgres@127.0.0.1:${port}/postgres?sslmode=disable`)
      await client.connect()
      try {
        for (const statement of statements) await client.query(statement)
      } finally {
        await client.end()
      }
    },
    kill,
    async freeze() {
      const { stdout } = await exec('ps', ['-o', 'pid=', '--ppid', `${postmaster}`])
      const all = [postmaster, ...stdout.split(/\s+/).filter(Boolean).map(Number)]
      for (const pid of all) process.kill(pid, 'SIGSTOP')
      clusters.defer(() => all.forEach(thaw))
    },
    promote: async () => void (await control('promote')),
  }
}

function thaw(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch {
    // It ended.
  }
}
