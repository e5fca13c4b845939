// `npm run upgrade -- [ref]`: workers of three versions on one database, there and back, while records change: the last release (or what a
// ref of git names), this version, and this version with one more migration, as the next may have. After each step the mirror has to equal
// the source. Asks the registry of npm for the packages of the release.

import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openSoakWorker, type SoakWorker } from '../soak/workers.ts'
import { startPostgres } from '../soak/worlds.ts'
import { environmentFor } from '../support/environment.ts'
import { differences } from '../support/same-as-source.ts'

/** The last commit with the migrations of 0.2.0 and no other. */
const released = '3d78c61b^'
const [ref = released] = process.argv.slice(2)
const records = 5_000
const churnMs = 10_000
const longestMs = 300_000

const checkout = fileURLToPath(new URL('../..', import.meta.url))
const directory = mkdtempSync(join(tmpdir(), 'tidemark-versions-'))
chmodSync(directory, 0o755)
const began = performance.now()
const say = (text: string) =>
  process.stdout.write(`${String(Math.round((performance.now() - began) / 1000)).padStart(4)} s  ${text}\n`)

const postgres = await startPostgres(directory)
const pool = new pg.Pool({ connectionString: postgres.url, max: 4 })
pool.on('error', () => {})
const simulator = await startSimulator({ assignments: records, notes: records })
const environment = environmentFor(simulator, postgres, {
  ...{ SCHEDULE_ASSIGNMENT: '1s', SCHEDULE_ASSIGNMENT_NOTE: '1s', STREAMS: 'assignment,assignment_note' },
  ...{ HISTORY: 'assignment', HTTP_PORT: '0', LOOKBACK: '5s' },
})
let workers = 0
const start = (name: string, program: string): SoakWorker =>
  openSoakWorker({
    name: `${++workers}-${name}`,
    directory,
    environment,
    program: join(program, 'bin/tidemark.js'),
  })
const migrate = (program: string) =>
  execFileSync(process.execPath, [join(program, 'bin/tidemark.js'), 'migrate'], {
    cwd: directory,
    env: { PATH: process.env.PATH, ...environment },
    stdio: 'pipe',
  })

/** Lets records change for a while, then waits until the mirror has all of it. */
async function isEqual(what: string, worker: SoakWorker): Promise<void> {
  const untilMs = performance.now() + churnMs
  while (performance.now() < untilMs) {
    for (const kind of ['assignment', 'assignment_note'] as const) {
      simulator.source.change(kind, 1 + Math.floor(Math.random() * records))
      if (Math.random() < 0.1) simulator.source.insert(kind)
    }
    await wait(50)
  }
  const quietMs = performance.now()
  for (;;) {
    const found = [
      ...(await differences(pool, simulator, 'assignment').catch(({ message }) => [String(message)])),
      ...(await differences(pool, simulator, 'assignment_note').catch(({ message }) => [String(message)])),
    ]
    if (worker.surprises.length > 0)
      throw new Error(`${what}: ${worker.surprises.join()}; ${lastWords(worker)}`)
    if (found.length === 0) break
    if (performance.now() - quietMs > longestMs)
      throw new Error(
        `${what}: ${found.length} rows differ: ${found.slice(0, 3).join('; ')}; ${lastWords(worker)}`,
      )
    await wait(500)
  }
  const errors = logOf(worker).match(/"level":(?:"error"|50)/g)?.length ?? 0
  say(
    `${what}: the mirror equals the source, ${Math.round(performance.now() - quietMs)} ms after the last change; ${errors} errors in the log`,
  )
}

const logOf = ({ name }: SoakWorker): string => readFileSync(join(directory, `${name}.log`), 'utf8')
const lastWords = (worker: SoakWorker): string => logOf(worker).trim().split('\n').slice(-3).join('\n')

/** That it ends is what is expected here. */
async function refuses(what: string, program: string, words: string): Promise<void> {
  const worker = start('refused', program)
  const untilMs = performance.now() + 60_000
  while (worker.surprises.length === 0 && performance.now() < untilMs) await wait(200)
  if (worker.surprises.length === 0 || !logOf(worker).includes(words))
    throw new Error(`${what} did not refuse: ${lastWords(worker)}`)
  say(`${what} refuses to start: “${words}…”`)
}

function release(): string {
  const folder = join(directory, 'released')
  mkdirSync(folder)
  execFileSync('tar', ['x', '-C', folder], {
    input: execFileSync('git', ['-C', checkout, 'archive', ref], { maxBuffer: 2 ** 30 }),
  })
  execFileSync('npm', ['ci', '--omit=dev', '--ignore-scripts', '--no-audit'], { cwd: folder, stdio: 'pipe' })
  return folder
}

/** This version with another migration, which only adds something. */
function next(): string {
  const folder = join(directory, 'next')
  for (const name of ['bin', 'src', 'migrations', 'package.json', 'tsconfig.json'])
    cpSync(join(checkout, name), join(folder, name), { recursive: true })
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'))
  const file = join(folder, 'migrations/meta/_journal.json')
  const journal: { entries: { idx: number; when: number }[] } = JSON.parse(readFileSync(file, 'utf8'))
  const last = journal.entries.at(-1)
  if (!last) throw new Error('there are no migrations')
  const added = { ...last, idx: last.idx + 1, when: last.when + 1, tag: '9999_the-next' }
  writeFileSync(file, JSON.stringify({ ...journal, entries: [...journal.entries, added] }))
  writeFileSync(
    join(folder, 'migrations/9999_the-next.sql'),
    'alter table tidemark.stream add column "of_the_next" text;',
  )
  return folder
}

async function there(from: string, to: string, names: readonly [string, string]): Promise<SoakWorker> {
  const older = start(names[0], from)
  await isEqual(`${names[0]} alone`, older)
  const beganMs = performance.now()
  migrate(to)
  say(`${names[1]} migrated the database beside it in ${Math.round(performance.now() - beganMs)} ms`)
  await isEqual(`${names[0]}, which goes on, after that`, older)
  const { code, tookMs } = await older.stop()
  say(`${names[0]} stopped with ${code} after ${Math.round(tookMs)} ms`)
  const newer = start(names[1], to)
  await isEqual(names[1], newer)
  return newer
}

try {
  const [old, later] = [release(), next()]
  await (await there(old, checkout, [ref, 'this version'])).stop()
  await refuses(ref, old, 'A newer Tidemark than this one has migrated the database')
  await (await there(checkout, later, ['this version', 'the next version'])).stop()
  const back = start('back', checkout)
  await isEqual('this version, gone back to', back)
  await back.stop()
  const again = start('again', later)
  await isEqual('the next version, once more', again)
  await again.stop()
  say('All as it should be.')
  rmSync(directory, { recursive: true, force: true })
} finally {
  await pool.end()
  await simulator.close()
  await postgres.stop()
}
process.exit()
