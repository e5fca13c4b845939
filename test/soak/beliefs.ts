// The beliefs that the soak breaks, one after the other, while everything goes on: a switch of the stand-in is thrown for a while and a
// record is changed under it, the witness. Measured is how long it takes until somebody who looks is told, and until the witness is right.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Behaviour } from '../../src/simulator/behaviour.ts'
import type { Simulator } from '../../src/simulator/simulator.ts'
import type { Backup } from '../../src/simulator/source.ts'

type Stage = { readonly simulator: Simulator; readonly id: number; backup: Backup | null }
type Break = {
  readonly name: string
  readonly set?: Partial<Behaviour>
  /** What becomes of the witness; left out: it is changed. */
  readonly happen?: (stage: Stage) => void
  /** When the switch is turned back. */
  readonly end?: (stage: Stage) => void
  /** Nobody can see it earlier. */
  readonly visibleAfterMs?: number
  /** Its witness is that of the one before. */
  readonly sharesWitness?: true
}
export type Broken = { readonly name: string; toldMs: number | null; what: string; mendedMs: number | null }

/** Only the soak's breaks write records whose id is a multiple of this. */
const witnesses = 63
export const isWitness = (id: number): boolean => id % witnesses === 0

const lastsMs = 9_000
const pauseMs = 6_000
const lookEveryMs = 250
/** Twice the look-back of the soak. */
const lateMs = 40_000

const name = (id: number) => ({ AssignmentName: `Witness ${id}` })
const change: NonNullable<Break['happen']> = ({ simulator, id }) =>
  void simulator.source.change('assignment', id, name(id), { isLate: false })

const breaks: readonly Break[] = [
  { name: 'lists are error envelopes', set: { lists: 'envelope' } },
  { name: 'lists are null', set: { lists: 'null' } },
  { name: 'lists are a 204', set: { lists: 'no-content' } },
  { name: 'lists are empty', set: { lists: 'empty' } },
  { name: 'no right to lists', set: { rights: 'no-lists' } },
  { name: 'no right, records are a 404', set: { rights: 'reads-404' } },
  { name: 'no right, records are a 403', set: { rights: 'reads-403' } },
  { name: 'answers from a cache', set: { cachedForMs: 8_000 } },
  { name: 'a replica lags', set: { replicaLagMs: 8_000 } },
  { name: 'a replica lags for half of the reads', set: { replicaLagMs: 8_000, replicaShare: 0.5 } },
  { name: 'rights hide after paging', set: { hideAfterPaging: witnesses } },
  { name: 'neworchanged omits', set: { changesOmit: witnesses } },
  { name: 'cut before sort', set: { cutBeforeSort: 500 } },
  { name: 'twins', set: { twins: witnesses } },
  { name: 'a volatile field', set: { volatileField: true } },
  {
    name: 'a change without a version',
    happen: ({ simulator, id }) =>
      void simulator.source.change('assignment', id, name(id), { keepsVersion: true, isLate: false }),
  },
  {
    name: 'a record falls back',
    happen({ simulator, id }) {
      const version = (simulator.source.versionOf('assignment', id) ?? 2n) - 1n
      simulator.source.change('assignment', id, name(id), { version, isLate: false })
    },
  },
  {
    name: 'a transaction outlives the look-back',
    set: { lateDelayMs: lateMs },
    visibleAfterMs: lateMs,
    happen: ({ simulator, id }) => void simulator.source.changeLate('assignment', id, name(id)),
  },
  {
    name: 'records vanish',
    happen({ simulator, id }) {
      const { source } = simulator
      const others = source.ids('assignment').filter((one) => one % 97 === 1 && !isWitness(one))
      for (const one of [id, ...others]) source.remove('assignment', one, 'hard')
    },
  },
  { name: 'an unknown sort shows the whole table', set: { sortableFields: ['AssignmentId'] } },
  { name: 'an unknown sort is a 500', set: { sortableFields: ['AssignmentId'], unknownNames: 'error' } },
  { name: 'sorting is ignored', set: { sorts: 'ignored' } },
  { name: 'filters are ignored', set: { filters: 'ignored' } },
  { name: 'another order each time', set: { order: 'unstable', sorts: 'ignored' } },
  { name: 'paging is ignored', set: { pagingIgnored: true } },
  { name: 'at most 100 in a page', set: { pageCap: 100 } },
  { name: 'since is inclusive', set: { inclusive: true } },
  { name: 'versions are shared', set: { ties: 50 } },
  { name: 'no version field', set: { rowVersionField: 'none' } },
  { name: 'versions are strings', set: { rowVersions: 'string' } },
  { name: 'versions are base64', set: { rowVersions: 'base64' } },
  {
    name: 'tokens live shorter than they say',
    set: {
      tokenFormat: 'opaque',
      tokenLifetimeMs: 2_000,
      tokenShownLifetimeMs: 900_000,
      tokenClockSkewMs: null,
    },
    happen(stage) {
      stage.simulator.revokeTokens()
      change(stage)
    },
    // What it is restored to below.
    end(stage) {
      stage.backup = stage.simulator.source.takeBackup()
    },
  },
  { name: 'nothing breaks' },
  {
    name: 'a backup is restored',
    sharesWitness: true,
    happen(stage) {
      if (stage.backup) stage.simulator.source.restoreBackup(stage.backup)
    },
  },
]

export type Breaking = {
  /** Ends when each was thrown, or with the signal; the last of them changes what all others rest on. */
  readonly thrown: Promise<void>
  /** Ends when each witness is right. */
  mended(signal: AbortSignal): Promise<readonly Broken[]>
}

export function breakBeliefs(parts: {
  readonly simulator: Simulator
  readonly pool: Pool
  readonly signal: AbortSignal
  readonly say: (what: string) => void
}): Breaking {
  const { simulator, pool, signal, say } = parts
  const watched: Broken[] = []
  const watches: Promise<void>[] = []
  const giveUp = new AbortController()
  let backup: Backup | null = null

  async function throwOne(one: Break, index: number): Promise<void> {
    const place = one.sharesWitness ? index : index + 1
    const stage: Stage = { simulator, id: witnesses * place, backup }
    const broken: Broken = { name: one.name, toldMs: null, what: '', mendedMs: null }
    watched.push(broken)
    const before = { ...simulator.behaviour }
    Object.assign(simulator.behaviour, one.set)
    ;(one.happen ?? change)(stage)
    const visible = wait(one.visibleAfterMs ?? 0, undefined, { signal: giveUp.signal }).catch(() => {})
    const watch = { pool, simulator, signal: giveUp.signal }
    watches.push(visible.then(() => watchOne(watch, stage.id, broken)))
    await wait(lastsMs, undefined, { signal }).catch(() => {})
    for (const key of Object.keys(one.set ?? {}) as (keyof Behaviour)[])
      Object.assign(simulator.behaviour, { [key]: before[key] })
    one.end?.(stage)
    backup = stage.backup
    for (let waited = 0; waited < pauseMs && broken.mendedMs === null && !signal.aborted; waited += 500)
      await wait(500)
    say(`${one.name}: ${tell(broken)}`)
  }

  async function throwAll(): Promise<void> {
    while (!signal.aborted && !(await isLoaded(pool))) await wait(1_000)
    for (const [index, one] of breaks.entries()) {
      if (signal.aborted) return
      await throwOne(one, index)
    }
  }
  return {
    thrown: throwAll(),
    async mended(end) {
      end.addEventListener('abort', () => giveUp.abort(), { once: true })
      await Promise.all(watches)
      return watched
    },
  }
}

export const tell = ({ toldMs, what, mendedMs }: Broken): string =>
  `${toldMs === null ? 'not told' : `told after ${seconds(toldMs)}`}, ${mendedMs === null ? 'not mended' : `mended after ${seconds(mendedMs)}`}${what === '' ? '' : ` (${what.slice(0, 100)})`}`

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`

type Watch = { readonly pool: Pool; readonly simulator: Simulator; readonly signal: AbortSignal }

async function watchOne(watch: Watch, id: number, broken: Broken): Promise<void> {
  const causedAt = new Date()
  const since = () => Date.now() - causedAt.getTime()
  while (
    !watch.signal.aborted &&
    (broken.mendedMs === null || (broken.toldMs === null && since() < 20_000))
  ) {
    await wait(lookEveryMs)
    try {
      if (broken.toldMs === null) await lookWhatIsTold(watch.pool, id, causedAt, broken)
      if (broken.mendedMs === null && (await isRight(watch, id))) broken.mendedMs = since()
    } catch {
      // Postgres is away.
    }
  }
}

/** Runs that ended without a proof, what a reconcile found, beliefs that fell, records that are no rows, a new epoch. */
async function lookWhatIsTold(pool: Pool, id: number, causedAt: Date, broken: Broken): Promise<void> {
  const { rows } = await pool.query<{ at: Date; what: string }>(
    `select at, what from (
       select coalesce(finished_at, started_at) as at, kind || ' ' || status || ': ' || coalesce(note, error, '') as what
       from tidemark.run
       where stream = 'assignment' and (
         status = 'inconclusive' or (status = 'failed' and error_code like 'UPSTREAM%')
         or (status = 'done' and note ~ '(missed|mended|epoch|believed when|blocked|marked deleted|gone$|not served|silent|fell|twin)'))
       union all
       select changed_at, name || ' is ' || value from tidemark.belief
       where stream = 'assignment' and value not in ('yes', 'holds', 'proven', 'honoured', 'trusted')
       union all
       select expires_at, name || ' is doubted: ' || evidence from tidemark.belief where stream = 'assignment'
       union all
       select found_at, 'difference: ' || cause from tidemark.difference where stream = 'assignment' and key = $2
       union all
       select found_at, 'late by ' || late_ms || ' ms' from tidemark.late_arrival where stream = 'assignment' and key = $2
       union all
       select first_seen_at, 'quarantine: ' || reason from tidemark.quarantine where stream = 'assignment'
     ) as told where at > $1 and at <= now() order by at limit 1`,
    [causedAt, String(id)],
  )
  const [told] = rows
  if (!told) return
  broken.toldMs = told.at.getTime() - causedAt.getTime()
  broken.what = told.what
}

/** Until the first load is over there is nothing that could be told wrongly. */
async function isLoaded(pool: Pool): Promise<boolean> {
  const { rows } = await pool
    .query(`select from tidemark.stream where name = 'assignment' and first_read_through_at is not null`)
    .catch(() => ({ rows: [] }))
  return rows.length > 0
}

async function isRight({ pool, simulator }: Watch, id: number): Promise<boolean> {
  const { rows } = await pool.query<{ name: string; version: string; is_living: boolean }>(
    `select assignment_name as name, sys_row_version::text as version, _deleted_at is null as is_living
     from mirror.assignment where assignment_id = $1`,
    [id],
  )
  const [row] = rows
  const record = simulator.source.record('assignment', id)
  if (record === null || row === undefined) return record === null && row?.is_living === false
  const wanted = Object.entries(record).find(([field]) => field.toLowerCase() === 'assignmentname')?.[1]
  return row.name === wanted && BigInt(row.version) === simulator.source.versionOf('assignment', id)
}
