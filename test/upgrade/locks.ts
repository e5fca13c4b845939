// `npm run migrate:locks [-- millions]`: how long the migrations keep others from reading and writing a full database. Makes so many million
// rows (10) in a real Postgres at the schema of an early version, brings it to the last release and then to this version, while a reader
// and a writer go on and all locks are sampled. Fails when something that is not released yet holds a lock, or keeps somebody waiting, for
// more than a second. Needs some 3 GB of disk for 10 million.

import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { openLog } from '../../src/log.ts'
import { migrateDatabase, migrateFrom } from '../../src/store/schema/migrate.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { startPostgres } from '../soak/worlds.ts'

/** The last migration of the last release. */
const lastReleased = '0038_read-zones'
const millions = Number(process.argv[2] ?? 10)
const mostMs = 1_000
const sampleMs = 10
const migrations = fileURLToPath(new URL('../../migrations', import.meta.url))

const log = openLog({ level: 'warn' })
const directory = mkdtempSync(join(tmpdir(), 'tidemark-locks-'))
chmodSync(directory, 0o755)
const postgres = await startPostgres(directory)
const say = (text: string) => process.stdout.write(`${text}\n`)
function ms(amount: number): string {
  return `${Math.round(amount)} ms`
}

/** Most rows are in one table, as in a mirror; a tenth as many lines in the ledger and in what grows with it. */
async function fill(): Promise<void> {
  const client = new pg.Client(postgres.url)
  await client.connect()
  await client.query('alter system set fsync = off')
  await client.query(`alter system set max_wal_size = '8GB'`)
  await client.query('select pg_reload_conf()')
  await client.query(readFileSync(new URL('../fixtures/early-database.sql', import.meta.url), 'utf8'))
  const beganMs = performance.now()
  const rows = Math.round(millions * 1_000_000)
  for (const [text, many] of [
    [
      `insert into mirror.assignment (assignment_id, _first_seen_at, _synced_at, _deleted_at, _hash, row_version, title, price, is_open)
       select n, now() - n * interval '1 ms', now() - n * interval '1 ms', case when n % 50 = 0 then now() end,
         decode(md5(n::text), 'hex'), 9007199254741003 + n, 'Service ' || n, n / 100.0, n % 2 = 0
       from generate_series(4, $1) as n`,
      rows,
    ],
    [
      `insert into tidemark.run (stream, lane, status, started_at, finished_at, host, pid, position_from, position_to, updated, requests)
       select case when n % 3 = 0 then 'tracker_object' else 'assignment' end, 'head', 'done',
         now() - interval '80 days' + n * interval '1 s', now() - interval '80 days' + n * interval '1 s', 'vm', 1, n, n + 1, 1, 1
       from generate_series(1, $1) as n`,
      rows / 10,
    ],
    [
      `insert into tidemark.checkpoint (stream, position, reached_at, run_id)
       select 'assignment', n, now() - interval '80 days' + n * interval '1 s', 1 from generate_series(1, $1) as n`,
      rows / 10,
    ],
    [
      `insert into tidemark.late_arrival (stream, key, version, distance, late_ms, run_id)
       select 'assignment', n::text, n, 1, 1000, 1 from generate_series(1, $1) as n`,
      rows / 10,
    ],
  ] as const)
    await client.query(text, [Math.round(many)])
  await client.query('checkpoint')
  await client.query('vacuum analyze')
  const { rows: sizes } = await client.query<{ size: string }>(
    'select pg_size_pretty(pg_database_size(current_database())) as size',
  )
  await client.end()
  say(
    `${rows.toLocaleString('en')} rows, and a tenth as many runs, checkpoints and late arrivals: ${sizes[0]?.size}, in ${ms(performance.now() - beganMs)}.`,
  )
}

/** The migrations that people have. */
function releasedOnly(): string {
  const folder = join(directory, 'released')
  cpSync(migrations, folder, { recursive: true })
  const file = join(folder, 'meta', '_journal.json')
  const journal: { entries: { tag: string }[] } = JSON.parse(readFileSync(file, 'utf8'))
  const last = journal.entries.findIndex(({ tag }) => tag === lastReleased)
  writeFileSync(file, JSON.stringify({ ...journal, entries: journal.entries.slice(0, last + 1) }))
  return folder
}

// ── watching ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Locks that keep a reader or a writer of rows out; a lock of a table that the migration made itself keeps nobody out. */
const strong = ['ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock']
const namesSql = `select oid from pg_class where relnamespace in (select oid from pg_namespace where nspname in ('mirror', 'bi', 'tidemark'))`

/** Returns the longest time that something which was there before was locked, or somebody waited for it. */
async function watched(name: string, work: (client: pg.Client) => Promise<void>): Promise<number> {
  const [client, sampler] = [await connected(), await connected()]
  const { rows: there } = await sampler.query<{ oid: number }>(namesSql)
  const known = there.map(({ oid }) => oid)
  const held = new Map<string, { firstMs: number; lastMs: number }>()
  const waits = new Map<string, number>()
  let isOver = false
  const sampling = (async () => {
    while (!isOver) {
      const { rows } = await sampler.query<{ what: string }>(
        `select distinct c.relname || ', ' || l.mode as what from pg_locks as l join pg_class as c on c.oid = l.relation
         where l.granted and l.mode = any ($1) and l.relation = any ($2) and l.pid <> pg_backend_pid() and c.relkind in ('r', 'p', 'v')`,
        [strong, known],
      )
      const atMs = performance.now()
      for (const { what } of rows) {
        const span = held.get(what)
        // What was let go and taken again is held twice; the longest counts.
        if (span && atMs - span.lastMs < 5 * sampleMs + 100) span.lastMs = atMs
        else if (!span || span.lastMs - span.firstMs < 5 * sampleMs)
          held.set(what, { firstMs: atMs, lastMs: atMs })
      }
      await wait(sampleMs)
    }
  })()
  const probes = [
    probing('a reader of rows', 'select * from mirror.assignment where assignment_id = 5'),
    probing('a writer of rows', 'update mirror.assignment set title = title where assignment_id = 7'),
    probing('a reader of freshness', 'select * from tidemark.freshness'),
    probing('a reader of the ledger', 'select * from tidemark.run order by id desc limit 5'),
  ]
  async function probing(who: string, text: string): Promise<void> {
    const own = await connected()
    while (!isOver) {
      const beganMs = performance.now()
      await own.query(text).catch(() => {})
      waits.set(who, Math.max(waits.get(who) ?? 0, performance.now() - beganMs))
      await wait(sampleMs)
    }
    await own.end()
  }
  const beganMs = performance.now()
  try {
    await work(client)
  } finally {
    isOver = true
    await Promise.allSettled([sampling, ...probes])
  }
  const tookMs = performance.now() - beganMs
  await Promise.all([client.end(), sampler.end()])
  const locks = [...held].map(([what, { firstMs, lastMs }]) => [what, lastMs - firstMs] as const)
  say(`\n${name}: ${ms(tookMs)}`)
  for (const [what, longestMs] of locks.toSorted(([, a], [, b]) => b - a).slice(0, 12))
    say(`  ${what.padEnd(50)} held ${ms(longestMs)}`)
  for (const [who, longestMs] of waits) say(`  ${who.padEnd(50)} waited ${ms(longestMs)} at most`)
  return Math.max(0, ...locks.map(([, longestMs]) => longestMs), ...waits.values())
}

async function connected(): Promise<pg.Client> {
  const client = new pg.Client(postgres.url)
  // When the trial ends, Postgres ends too.
  client.on('error', () => {})
  await client.connect()
  return client
}

try {
  await fill()
  await watched(`released, up to ${lastReleased}`, async (client) => {
    await migrateFrom(client, releasedOnly())
  })
  const worst = await watched('this version, with what its first start does', async () => {
    const database = await openDatabase({ url: postgres.url, log })
    await migrateDatabase({ database, streams, biRole: null, log })
    await database.close()
  })
  say(
    worst > mostMs
      ? `FAILED: something held a lock or waited for ${ms(worst)}.`
      : `No lock of this version that keeps others out, and no wait for one, was longer than ${ms(worst)}.`,
  )
  process.exitCode = worst > mostMs ? 1 : 0
} finally {
  await postgres.stop()
  rmSync(directory, { recursive: true, force: true })
}
