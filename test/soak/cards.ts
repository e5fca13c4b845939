// `npm run cards [-- words]`: presses the buttons of the demo's cards in every order of two and three, at once and some seconds apart, with
// the settings of the demo. Each second what is said of freshness is compared with the truth (P18), and for each record that vanished it
// is measured when its row was marked. Ends with 1 when something was said that did not hold, or a row was marked too late. Words pick
// other cards than the first three: `npm run cards -- vanish delete-many outage`. `CARDS_WORLDS` (3) is how many demos run side by side,
// `CARDS_ASSIGNMENTS` (6000) their size, `CARDS_LENGTHS` (2,3) how many cards are pressed in an order.

import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { demoSettings } from '../../src/cli/demo.ts'
import { hiddenMs, openDemo } from '../../src/cli/demo-incidents.ts'
import { loadConfig } from '../../src/config/load.ts'
import { openLog } from '../../src/log.ts'
import { reconcileOnce } from '../../src/operator/reconcile.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { pickStream, knownStreams as streams } from '../../src/streams/catalog.ts'
import { longestReplicaLagMs } from '../../src/sync/changes/pinned-records.ts'
import { newOneTimeKey } from '../../src/web/demo.ts'
import { serve } from '../../src/worker/serve.ts'
import { startServices } from '../support/services.ts'
import { placeBeside, untilRows } from './beside.ts'
import { watchTruth } from './truth.ts'

const firstThree = ['late-commit', 'vanish', 'bad-record']
const numberOf = (variable: string, usual: number) => Number(process.env[variable] ?? usual)
const worlds = numberOf('CARDS_WORLDS', 3)
const assignments = numberOf('CARDS_ASSIGNMENTS', 6_000)
const lengths = (process.env.CARDS_LENGTHS ?? '2,3').split(',').map(Number)
/** Within this a vanished record has to be marked, whatever else goes wrong. */
const markedWithinMs = 140_000
/** That a backup was restored is believed when a replica that lags cannot be the reason. */
const restoredWithinMs = longestReplicaLagMs + markedWithinMs
const settledWithinMs = 600_000
/** What vanishes later, the demo's own changes took away. */
const pressedMs = 1_000
const gapsMs = [0, 5_000]

type Order = { readonly cards: readonly string[]; readonly gapMs: number }

function ordersOf(cards: readonly string[], length: number): readonly (readonly string[])[] {
  if (length === 0) return [[]]
  return cards.flatMap((card) =>
    ordersOf(
      cards.filter((other) => other !== card),
      length - 1,
    ).map((rest) => [card, ...rest]),
  )
}

const words = process.argv.slice(2)
const chosen = words.length > 0 ? words : firstThree
const waiting: Order[] = lengths.flatMap((length) =>
  ordersOf(chosen, length).flatMap((cards) => gapsMs.map((gapMs) => ({ cards, gapMs }))),
)
// Each on its own, with adjacent keys.
if (words.length === 0)
  waiting.unshift(...['bad-beside', 'late-beside'].map((card) => ({ cards: [card], gapMs: 0 })))

const line = (text: string) => process.stdout.write(`${text}\n`)
const log = openLog({ level: 'error' })
const services = await startServices()
if (services.databaseUrl === null) throw new Error('There is no Postgres.')
const server = services.databaseUrl
line(`${waiting.length} orders of ${chosen.join(', ')}, in ${worlds} demos of ${assignments} work orders`)
const ended = await Promise.all(Array.from({ length: worlds }, (_none, index) => playWorld(server, index)))
const lies = ended.flatMap((world) => [...world.lies])
const late = ended.flatMap((world) => world.late)
const seconds = ended.reduce((sum, world) => sum + world.seconds, 0)
const marked = ended.flatMap((world) => world.marked).sort((a, b) => a - b)
line(
  `compared ${seconds} times: ${lies.length} lies; ${marked.length} vanished records were marked within ${inSeconds(marked.at(-1) ?? 0)}, half of them within ${inSeconds(marked[marked.length >> 1] ?? 0)}`,
)
for (const lie of [...lies, ...late]) line(`WRONG  ${lie}`)
await services.stop()
process.exit(lies.length + late.length > 0 ? 1 : 0)

type Ended = {
  readonly lies: ReadonlySet<string>
  readonly late: readonly string[]
  readonly marked: readonly number[]
  readonly seconds: number
}

async function playWorld(url: string, index: number): Promise<Ended> {
  const databaseUrl = await makeDatabase(url, `tidemark_cards_${index}`)
  await using simulator = await startSimulator({
    ...{ assignments, notes: assignments, trackers: 30, objects: 200 },
    ...{ churnPerSecond: 5, look: 'recorded', seed: index + 1, behaviour: { lateDelayMs: hiddenMs } },
  })
  const settings = { ...demoSettings(simulator, databaseUrl, 0), LOG_LEVEL: 'error' }
  const worker = await serve({ config: loadConfig(settings), log })
  const ending = new AbortController()
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 3 })
  let watched: Promise<void> | null = null
  try {
    const { context, jobs } = await worker.live
    const parts = { simulator, context, requestRun: jobs.requestRun, log, signal: ending.signal }
    const demo = openDemo({ ...parts, key: newOneTimeKey() })
    while (!(await isReady(pool))) await wait(1_000)
    const truth = watchTruth({ simulator, pool, say: (lie) => line(`LIE    ${lie}`) }, ending.signal)
    watched = truth.ended
    // Whatever else failed is told.
    watched.catch(() => {})
    const approve = async () => {
      const stream = pickStream('assignment', streams)
      const rows = await blockedRows(pool)
      if (rows !== null) await reconcileOnce(context, stream, { approved: rows, signal: ending.signal, log })
    }
    const press = (card: string) =>
      card.endsWith('-beside') ? placeBeside(card, simulator, pool) : demo.press(card)
    const world = { simulator, pool, press, approve }
    const [late, marked]: [string[], number[]] = [[], []]
    for (let order = waiting.shift(); order; order = waiting.shift()) {
      const played = await playOrder(world, order)
      marked.push(...played.marked)
      const name = `${order.cards.join(', ')}${order.gapMs > 0 ? `, ${inSeconds(order.gapMs)} apart` : ''}`
      if (played.wrong !== null) late.push(`${name}: ${played.wrong}`)
      line(
        `${truth.lies.size > 0 || played.wrong !== null ? 'WRONG' : 'fine '}  ${name}: ${toldMarked(played.marked)}; deletions known after ${inSeconds(played.knownMs)}`,
      )
    }
    ending.abort()
    await truth.ended
    return { lies: truth.lies, late, marked, seconds: truth.seconds() }
  } finally {
    ending.abort()
    await watched?.catch(() => {})
    await pool.end()
    await worker.stop()
  }
}

type World = {
  readonly simulator: Simulator
  readonly pool: pg.Pool
  readonly press: (card: string) => Promise<string>
  readonly approve: () => Promise<void>
}
type Played = { readonly marked: readonly number[]; readonly wrong: string | null; readonly knownMs: number }

/** Ends when all that vanished is marked and deletions are known through the last press. Only then does the next order begin. */
async function playOrder({ simulator, pool, press, approve }: World, order: Order): Promise<Played> {
  const before = simulator.source.ids('assignment')
  const known = new Set(before)
  const vanished = new Map<number, number>()
  const marked: number[] = []
  const pressed = new AbortController()
  const watching = watchVanished({ simulator, pool, known, vanished, marked }, pressed.signal)
  // Why an order failed is told by what failed first.
  watching.catch(() => {})
  for (const [index, card] of order.cards.entries()) {
    if (index > 0) await wait(order.gapMs)
    await press(card)
  }
  const lastAt = new Date()
  let wrong: string | null = null
  const withinMs = order.cards.includes('old-backup') ? restoredWithinMs : markedWithinMs
  for (;;) {
    await wait(500)
    const sinceMs = Date.now() - lastAt.getTime()
    // When others are missing by now, it is tried again.
    if (order.cards.includes('delete-many')) await approve().catch(() => {})
    const through = await knownThrough(pool)
    const isMarked = [...vanished.values()].every((at) => at > lastAt.getTime() + pressedMs)
    if (isMarked && through !== null && through > lastAt && sinceMs > hiddenMs + 1_000) break
    const oldest = Math.min(...vanished.values())
    const isLate = !order.cards.includes('delete-many') && Date.now() - oldest > withinMs
    if (isLate)
      wrong ??= `${[...vanished.keys()].slice(0, 5).join(', ')} vanished, and not marked within ${inSeconds(withinMs)}`
    if (sinceMs < settledWithinMs) continue
    wrong ??= `deletions known through ${through?.toISOString()}, pressed at ${lastAt.toISOString()}`
    break
  }
  const knownMs = Date.now() - lastAt.getTime()
  pressed.abort()
  await watching
  // The next order needs them, and their rows.
  const brought: number[] = []
  for (const id of before) {
    if (simulator.source.versionOf('assignment', id) !== null) continue
    simulator.source.insert('assignment', null, { id })
    brought.push(id)
  }
  await untilRows(pool, brought)
  return { marked, wrong, knownMs }
}

type Watched = Pick<World, 'simulator' | 'pool'> & {
  readonly known: Set<number>
  readonly vanished: Map<number, number>
  readonly marked: number[]
}

/** Four times a second: which records are gone, and which of their rows are marked. */
async function watchVanished({ simulator, pool, known, vanished, marked }: Watched, signal: AbortSignal) {
  while (!signal.aborted) {
    const there = new Set(simulator.source.ids('assignment'))
    for (const id of there) {
      known.add(id)
      vanished.delete(id)
    }
    for (const id of known) {
      if (there.has(id)) continue
      known.delete(id)
      vanished.set(id, Date.now())
    }
    const { rows } = await pool.query<{ id: string }>(
      `select gone.id::text from unnest($1::bigint[]) as gone (id) where not exists (
         select from mirror.assignment where assignment_id = gone.id and _deleted_at is null)`,
      [[...vanished.keys()]],
    )
    for (const id of rows.map((row) => Number(row.id))) {
      marked.push(Date.now() - (vanished.get(id) ?? 0))
      vanished.delete(id)
    }
    await wait(250)
  }
}

async function makeDatabase(url: string, name: string): Promise<string> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(`drop database if exists ${name} with (force)`)
  await client.query(`create database ${name}`)
  await client.end()
  return Object.assign(new URL(url), { pathname: `/${name}` }).href
}

async function isReady(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query(
    `select from tidemark.freshness where stream in ('assignment', 'assignment_note')
     and deletions_known_through is not null and state = 'live'`,
  )
  return rows.length === 2
}

async function knownThrough(pool: pg.Pool): Promise<Date | null> {
  const { rows } = await pool.query<{ at: Date | null }>(
    `select deletions_known_through as at from tidemark.freshness where stream = 'assignment'`,
  )
  return rows[0]?.at ?? null
}

async function blockedRows(pool: pg.Pool): Promise<number | null> {
  const { rows } = await pool.query<{ rows: number | null }>(
    `select (blocked_deletions ->> 'missing')::int as rows from tidemark.stream where name = 'assignment'`,
  )
  return rows[0]?.rows ?? null
}

function toldMarked(marked: readonly number[]): string {
  if (marked.length === 0) return 'none vanished'
  return `${marked.length === 1 ? 'marked after' : `${marked.length} marked within`} ${inSeconds(Math.max(...marked))}`
}

function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
