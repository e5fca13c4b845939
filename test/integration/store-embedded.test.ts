// The embedded Postgres: shared by the programs of a directory, and not stopped by their sudden end. And TLS, which needs a
// server whose files are ours.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { watchAuthorities } from '../../src/config/authorities.ts'
import { loadMirrorConfig } from '../../src/config/load.ts'
import { startEmbedded } from '../../src/embedded-postgres/server.ts'
import { openLog } from '../../src/log.ts'
import { type Database, openDatabase } from '../../src/store/server/connect.ts'
import { quietLog } from '../support/database.ts'

const execute = promisify(execFile)
const directory = mkdtempSync(join(tmpdir(), 'tidemark-embedded-'))
chmodSync(directory, 0o755)
const open = () => openDatabase({ url: null, directory, log: quietLog })
const data = join(directory, 'postgres')

const serverPid = (): number | null => {
  try {
    return Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
  } catch {
    return null
  }
}
/** As it is imported by a program that is a text. */
const sourceFile = (path: string): string =>
  JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)
/** Another program that uses the database until its input ends or it is killed. */
async function startProgram() {
  const source = `
    const { openDatabase } = await import(${sourceFile('store/server/connect.ts')})
    const { openLog } = await import(${sourceFile('log.ts')})
    const database = await openDatabase({ url: null, directory: ${JSON.stringify(directory)}, log: openLog({ level: 'fatal' }) })
    process.stdout.write(database.address + '\\n')
    process.stdin.on('data', () => {}).on('end', () => database.close())`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  const [address] = await once(child.stdout, 'data')
  return {
    address: String(address).trim(),
    async end() {
      child.stdin.end()
      await exit
    },
    async kill() {
      child.kill('SIGKILL')
      await exit
    },
  }
}

describe('the embedded Postgres', { timeout: 120_000 }, () => {
  afterAll(() => {
    rmSync(directory, { recursive: true, force: true })
  })

  it('is left by a program that cannot open what comes after it, and that program ends', async () => {
    const source = `
      const { loadConfig } = await import(${sourceFile('config/load.ts')})
      const { openLog } = await import(${sourceFile('log.ts')})
      const { openContext } = await import(${sourceFile('context.ts')})
      const config = loadConfig({
        ASSIGNMENT_BASE_URL: 'https://host.example',
        AUTH_URL: 'https://host.example',
        CLIENT_GUID: '6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f',
        SUBJECT_ID: 'integration',
        API_KEY: 'a key of the tests',
      })
      const wrong = { ...config, assignmentBaseUrl: 'https://user@host.example' }
      await openContext({ config: wrong, log: openLog({ level: 'fatal' }) })`
    const cwd = mkdtempSync(join(tmpdir(), 'tidemark-sync context-'))
    chmodSync(cwd, 0o755)
    const program = execute(process.execPath, ['--input-type=module', '--eval', source], {
      cwd,
      timeout: 40_000,
    })
    await expect(program).rejects.toMatchObject({
      killed: false,
      code: 1,
      stderr: expect.stringContaining('must have no user'),
    })
    expect(existsSync(join(cwd, '.tidemark/postgres/postmaster.pid'))).toBe(false)
    rmSync(cwd, { recursive: true })
  })

  it('is made once and shared by programs that start at the same moment; the last one stops it', async () => {
    const programs = await Promise.all([startProgram(), startProgram(), open()])
    expect(new Set(programs.map((program) => program.address)).size).toBe(1)
    const pid = serverPid()
    const [first, second, ours] = programs
    await first.end()
    await ours.close()
    expect(serverPid()).toBe(pid)
    await second.end()
    expect(serverPid()).toBeNull()
  })

  it('keeps its address and its password, and tells people where they are (P9)', async () => {
    const first = await open()
    await first.close()
    const again = await open()
    expect(again.address).toBe(first.address)
    expect(again.embedded?.address).not.toMatch(/:[^/@]*@/)
    expect(readFileSync(again.embedded?.urlFile ?? '', 'utf8').trim()).toBe(again.url)
    const readable = readdirSync(directory).filter((name) => statSync(join(directory, name)).mode & 0o077)
    expect(readable).toEqual([])
    await again.close()
  })

  it('says why it cannot be kept in a directory, and what to do', async () => {
    const elsewhere = openDatabase({ url: null, directory: '/sys/tidemark', log: quietLog })
    await expect(elsewhere).rejects.toThrow(
      /^The embedded Postgres cannot keep its data in \/sys\/tidemark: .+ \(E\w+\)\. Fix that, .*set DATABASE_URL to a Postgres of yours\.$/,
    )
  })

  it('is stopped again when its address cannot be written down', async () => {
    const urlFile = join(directory, 'url')
    rmSync(urlFile, { force: true })
    mkdirSync(urlFile, { recursive: true })
    await expect(open()).rejects.toThrow('EISDIR')
    expect(serverPid()).toBeNull()
    rmSync(urlFile, { recursive: true })
  })

  it('outlives a program that is killed, and the next one finds it (P8)', async () => {
    const program = await startProgram()
    const pid = serverPid()
    await program.kill()
    const database = await open()
    expect(database.address).toBe(program.address)
    expect(serverPid()).toBe(pid)
    await database.close()
    expect(serverPid()).toBeNull()
  })

  it('is started again for a program that goes on, and stopped by it all the same (P8)', async () => {
    const database = await open()
    const pid = serverPid() ?? 0
    process.kill(pid, 'SIGKILL')
    const answer = () =>
      database.pool.query('select 1 as one').then(
        ({ rows }) => rows,
        () => null,
      )
    // Sessions of the one that was killed may go on answering for a moment.
    await expect.poll(serverPid, { timeout: 60_000 }).not.toBe(pid)
    await expect.poll(answer, { timeout: 60_000 }).toEqual([{ one: 1 }])
    const other = await open()
    await other.close()
    await expect.poll(answer, { timeout: 60_000 }).toEqual([{ one: 1 }])
    await database.close()
    expect(serverPid()).toBeNull()
  })

  it.each(['is its own', 'belongs to another program by now'])(
    'starts again after it was killed itself, when the number it left behind %s (P8)',
    async (owner) => {
      const before = await open()
      await before.pool.query(
        'create table if not exists kept (id int); truncate kept; insert into kept values (1)',
      )
      const [pid, ...rest] = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')
      const died = before.pool.query('select pg_sleep(60)').catch(() => 'died')
      process.kill(Number(pid), 'SIGKILL')
      expect(await died).toBe('died')
      await before.close().catch(() => {})
      const left = owner === 'is its own' ? pid : process.pid
      writeFileSync(join(data, 'postmaster.pid'), [left, ...rest].join('\n'))
      const after = await open()
      expect((await after.pool.query('select * from kept')).rows).toEqual([{ id: 1 }])
      await after.close()
    },
  )
})

describe.skipIf(process.getuid?.() !== 0)('root in a directory that nobody else can enter', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'tidemark-root-'))
  const home = join(scratch, 'home')
  const system = join(scratch, 'system')
  const start = (systemDirectory = system) =>
    startEmbedded({ directory: join(home, 'mirror'), log: quietLog, systemDirectory })
  const selected = async (url: string) => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const { rows } = await client.query('select session_user as user')
    await client.end()
    return rows
  }
  beforeAll(() => {
    chmodSync(scratch, 0o755)
    mkdirSync(home, { mode: 0o700 })
  })
  afterAll(() => {
    rmSync(scratch, { recursive: true, force: true })
  })

  it('gets a Postgres that keeps its data elsewhere, and finds it again', { timeout: 60_000 }, async () => {
    const umask = process.umask(0o077)
    try {
      const first = await start()
      const second = await start()
      expect(first.url).toBe(second.url)
      expect(await selected(first.url)).toEqual([{ user: 'tidemark_worker' }])
      await first.leave()
      await second.leave()
    } finally {
      process.umask(umask)
    }
    const [folder = '', ...more] = readdirSync(system)
    expect(more).toEqual([])
    expect(readlinkSync(join(home, 'mirror/postgres'))).toBe(join(system, folder, 'postgres'))
    const found = statSync(join(system, folder, 'postgres'))
    expect([found.mode & 0o777, found.uid]).toEqual([0o700, expect.not.toSatisfy((uid) => uid === 0)])
    const again = await start()
    await again.leave()
    expect(readdirSync(system)).toEqual([folder])
  })

  it('begins with nothing once the directory was removed, and leaves nothing behind', {
    timeout: 60_000,
  }, async () => {
    const before = readdirSync(system)
    rmSync(join(home, 'mirror'), { recursive: true })
    await (await start()).leave()
    expect(readdirSync(system)).toHaveLength(1)
    expect(readdirSync(system)).not.toEqual(before)
  })

  it('hears in one line why it gets none', async () => {
    const open = join(scratch, 'open')
    mkdirSync(open)
    chmodSync(open, 0o777)
    rmSync(join(home, 'mirror'), { recursive: true, force: true })
    await expect(start(open)).rejects.toThrow(
      /^\S+\/open must be a directory that belongs to root .+ Run Tidemark as an ordinary user, or set DATABASE_URL to a Postgres of yours\.$/,
    )
    await expect(start(join(home, 'system'))).rejects.toThrow(
      /^Postgres refuses to run as root, and the user postgres, who runs it instead, cannot enter \S+\. Run .+$/,
    )
  })
})

describe('an encrypted connection', { timeout: 120_000 }, () => {
  const tlsDirectory = mkdtempSync(join(tmpdir(), 'tidemark-tls-'))
  chmodSync(tlsDirectory, 0o755)
  const path = (name: string) => join(tlsDirectory, name)
  let server: Database | null = null

  afterAll(async () => {
    await server?.close()
    rmSync(tlsDirectory, { recursive: true, force: true })
  })

  it('is made as the URL says', async () => {
    await makeCertificates()
    server = await openDatabase({ url: null, directory: tlsDirectory, log: quietLog })
    const url = (query: string) => `${server?.url.split('?')[0]}?${query}`
    const openWith = async (query: string) => {
      const database = await openDatabase({ url: url(query), log: quietLog })
      const { rows } = await database.pool.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
      await database.close()
      return rows[0].ssl
    }
    expect(await openWith('')).toBe(false)
    await expect(openWith('sslmode=require')).rejects.toThrow('does not support SSL')
    // Another host, as far as anybody can tell by its name.
    const elsewhere = (query: string) =>
      openDatabase({ url: url(query).replace('127.0.0.1', '0.0.0.0'), log: quietLog })
    await expect(elsewhere('')).rejects.toThrow(/On another host Tidemark speaks TLS only.+sslmode=disable/)
    await (await elsewhere('sslmode=disable')).close()
    await encrypt(server)
    expect(await openWith('sslmode=disable')).toBe(false)
    expect(await openWith('sslmode=allow')).toBe(false)
    for (const query of [
      '',
      'sslmode=prefer',
      'sslmode=require',
      `sslmode=require&sslrootcert=${path('ca.crt')}`,
      `sslmode=verify-ca&sslrootcert=${path('ca.crt')}`,
      `sslmode=verify-full&sslrootcert=${path('ca.crt')}`,
    ])
      expect(await openWith(query)).toBe(true)
    await expect(openWith('sslmode=verify-full')).rejects.toThrow('certificate')
    await expect(openWith(`sslmode=verify-full&sslrootcert=${path('other.crt')}`)).rejects.toThrow(
      'certificate',
    )
    await expect(openWith(`sslmode=require&sslrootcert=${path('other.crt')}`)).rejects.toThrow('certificate')
    const byName = (query: string) =>
      openDatabase({ url: url(query).replace('127.0.0.1', 'localhost'), log: quietLog })
    await expect(byName(`sslmode=verify-full&sslrootcert=${path('ca.crt')}`)).rejects.toThrow('altnames')
    await (await byName(`sslmode=verify-ca&sslrootcert=${path('ca.crt')}`)).close()
    // What the file holds when a connection is made counts.
    copyFileSync(path('ca.crt'), path('root.crt'))
    const rolling = await openDatabase({
      url: url(`sslmode=verify-ca&sslrootcert=${path('root.crt')}`),
      log: quietLog,
    })
    const held = await rolling.pool.connect()
    copyFileSync(path('other.crt'), path('root.crt'))
    await expect(rolling.pool.connect()).rejects.toThrow('certificate')
    writeFileSync(path('root.crt'), 'half of a file')
    await expect(rolling.pool.connect()).rejects.toThrow()
    copyFileSync(path('ca.crt'), path('root.crt'))
    ;(await rolling.pool.connect()).release()
    rmSync(path('root.crt'))
    held.release(true)
    ;(await rolling.pool.connect()).release(true)
    await rolling.close()
    await expect(openWith('sslmode=verify-full&sslrootcert=/nowhere')).rejects.toThrow(
      'names /nowhere as sslrootcert, which cannot be read (ENOENT)',
    )
    await expect(elsewhere('')).rejects.toThrow(/certificate.+Set EXTRA_CA_FILE/)
    await (await elsewhere('sslmode=require')).close()
    const receiver = await startReceiver()
    const redis = new Redis(receiver.url.replace('https', 'rediss'), {
      lazyConnect: true,
      retryStrategy: null,
    })
    redis.on('error', () => {})
    await expect(fetch(receiver.url)).rejects.toThrow()
    await expect(redis.connect()).rejects.toThrow()
    expect(receiver.handshakes).toBe(0)
    copyFileSync(path('other.crt'), path('extra.crt'))
    loadMirrorConfig({ EXTRA_CA_FILE: path('extra.crt') })
    await expect(fetch(receiver.url)).rejects.toThrow()
    const told: string[] = []
    const log = openLog({
      level: 'info',
      stream: new Writable({ write: (line, _, done) => done(void told.push(String(line))) }),
    })
    const look = watchAuthorities(path('extra.crt'), log)
    writeFileSync(path('extra.crt'), 'half of a file')
    look()
    look()
    copyFileSync(path('ca.crt'), path('extra.crt'))
    look()
    look()
    expect(told).toEqual([
      expect.stringContaining('holds no certificate in PEM. The certificates that were there before'),
      expect.stringContaining('EXTRA_CA_FILE changed'),
    ])
    expect((await fetch(receiver.url)).status).toBe(200)
    expect(receiver.handshakes).toBe(1)
    // It speaks no Redis, but that it was trusted shows.
    await expect(redis.connect()).rejects.toThrow()
    expect(receiver.handshakes).toBe(2)
    await (await elsewhere('')).close()
    for (const query of [
      'sslmod=verify-full',
      'ssl_mode=require',
      'sslcrl=/a',
      'tls=true',
      'SSLMODE=require',
      'ssl=yes',
    ])
      await expect(openWith(query)).rejects.toThrow(/^DATABASE_URL (has the option|says ssl=yes)/)
    await expect(openWith('sslmode=disable&sslmode=verify-full')).rejects.toThrow(
      'DATABASE_URL has sslmode more than once',
    )
    await expect(openWith('sslmode=full')).rejects.toThrow('it must be one of disable, allow, prefer')
  })

  /** Of alerts, with a certificate of that authority; counts those who trusted it. */
  async function startReceiver(): Promise<{ url: string; readonly handshakes: number }> {
    let handshakes = 0
    const files = { key: readFileSync(path('server.key')), cert: readFileSync(path('server.crt')) }
    const https = createServer(files, (_request, response) => void response.end())
    https.on('secureConnection', () => handshakes++)
    https.listen(0, '127.0.0.1').unref()
    await once(https, 'listening')
    const address = https.address()
    const url = `https://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    return {
      url,
      get handshakes() {
        return handshakes
      },
    }
  }

  /** An authority, a certificate for 127.0.0.1 that it signed, and an authority that has nothing to do with either. */
  async function makeCertificates(): Promise<void> {
    const openssl = (...args: string[]) => execute('openssl', args)
    const key = (name: string) => ['-newkey', 'rsa:2048', '-nodes', '-keyout', path(`${name}.key`)]
    for (const name of ['ca', 'other'])
      await openssl(
        'req',
        '-x509',
        ...key(name),
        '-out',
        path(`${name}.crt`),
        '-subj',
        `/CN=${name}`,
        '-days',
        '2',
      )
    writeFileSync(path('san'), 'subjectAltName=IP:127.0.0.1,IP:0.0.0.0')
    await openssl('req', ...key('server'), '-out', path('server.csr'), '-subj', '/CN=127.0.0.1')
    await openssl(
      'x509',
      '-req',
      '-in',
      path('server.csr'),
      '-CA',
      path('ca.crt'),
      '-CAkey',
      path('ca.key'),
      '-CAcreateserial',
      '-out',
      path('server.crt'),
      '-days',
      '2',
      '-extfile',
      path('san'),
    )
  }

  async function encrypt(database: Database): Promise<void> {
    const folder = join(tlsDirectory, 'postgres')
    const { uid, gid } = statSync(folder)
    for (const name of ['server.crt', 'server.key']) {
      const file = join(folder, name)
      writeFileSync(file, readFileSync(path(name)), { mode: 0o600 })
      chownSync(file, uid, gid)
    }
    const { password } = JSON.parse(readFileSync(join(folder, 'tidemark.json'), 'utf8'))
    const admin = new pg.Client(Object.assign(new URL(database.url), { username: 'tidemark', password }).href)
    await admin.connect()
    await admin.query('alter system set ssl = on')
    await admin.query('select pg_reload_conf()')
    await admin.end()
    await expect.poll(async () => (await database.pool.query('show ssl')).rows[0].ssl).toBe('on')
  }
})
