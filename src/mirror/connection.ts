// From a libpq-style URL to what the driver wants, above all its TLS options, which libpq and the driver read
// differently. Opens nothing.

import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import type { PoolConfig } from 'pg'

export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
}

const modes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type Mode = (typeof modes)[number]

/** The ways to connect, the preferred one first: `prefer` and `allow` have two, one with TLS and one without. */
export function connectionWays(url: string): readonly PoolConfig[] {
  const target = parseUrl(url)
  const options = target.searchParams
  const mode = readMode(options)
  const tls = mode === 'disable' ? false : tlsOptions(mode, options)
  for (const name of ['sslmode', 'ssl', 'sslrootcert', 'sslcert', 'sslkey', 'sslpassword', 'sslnegotiation'])
    options.delete(name)
  const plain: PoolConfig = { connectionString: target.href }
  const encrypted: PoolConfig = { ...plain, ssl: tls }
  if (mode === 'prefer') return isSocket(target) ? [plain] : [encrypted, plain]
  if (mode === 'allow') return [plain, encrypted]
  return [tls ? encrypted : plain]
}

function parseUrl(url: string): URL {
  // The URL itself stays out of the message: it may hold a password (P9).
  if (!URL.canParse(url))
    throw new DatabaseError('DATABASE_URL is not a URL such as postgres://user:password@host:5432/database')
  return new URL(url)
}

const isSocket = (url: URL): boolean =>
  url.hostname === '' ||
  url.hostname.startsWith('%2F') ||
  url.searchParams.get('host')?.startsWith('/') === true

function readMode(options: URLSearchParams): Mode {
  const root = options.get('sslrootcert')
  const given = options.get('sslmode') ?? (options.get('ssl') === 'true' ? 'require' : null)
  if (given === null) return root === 'system' ? 'verify-full' : 'prefer'
  const mode = modes.find((known) => known === given)
  if (!mode)
    throw new DatabaseError(`DATABASE_URL says sslmode=${given}; it must be one of ${modes.join(', ')}`)
  return mode
}

function tlsOptions(mode: Mode, options: URLSearchParams): ConnectionOptions {
  const root = options.get('sslrootcert')
  const certificate = options.get('sslcert')
  const key = options.get('sslkey')
  const passphrase = options.get('sslpassword')
  // As libpq has it: `require` verifies the chain only when it was given something to verify it with.
  const verifiesChain = mode.startsWith('verify') || (mode === 'require' && root !== null)
  return {
    rejectUnauthorized: verifiesChain,
    ...(root && root !== 'system' ? { ca: readFile('sslrootcert', root) } : {}),
    ...(certificate ? { cert: readFile('sslcert', certificate) } : {}),
    ...(key ? { key: readFile('sslkey', key) } : {}),
    ...(passphrase ? { passphrase } : {}),
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  }
}

function readFile(option: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new DatabaseError(`DATABASE_URL names ${path} as ${option}, which cannot be read (${code})`, {
      cause,
    })
  }
}
