// How old a change is when it can be seen, for each source: one record is changed now and then and looked for until it is there.

import { setTimeout as wait } from 'node:timers/promises'
import type { FleetClient } from '../../src/simulator/fleet.ts'
import { percentile } from '../soak/ages.ts'
import type { Stage } from './stage.ts'

/** Ages in milliseconds by the name of the client. */
export type Lags = ReadonlyMap<string, readonly number[]>
type Pending = { readonly id: number; readonly version: bigint; readonly changedMs: number }

const lookEveryMs = 250
/** More tables in one query, or more changes, would cost more than what is measured: so a large fleet is changed and looked at in parts. */
const mostInLook = 100
const changesASecond = 20
/** What is not there so long after the last change counts with its age. */
const waitForLastMs = 120_000

/** Ends after the signal, once all changes can be seen. */
export async function watchLags(
  stage: Pick<Stage, 'pool' | 'sourceOf'>,
  clients: readonly FleetClient[],
  signal: AbortSignal,
): Promise<Lags> {
  const lags = new Map(clients.map(({ name }): [string, number[]] => [name, []]))
  const pending = new Map<FleetClient, Pending>()
  const changedMs = new Map<FleetClient, number>()
  const changeEveryMs = Math.max(5_000, (clients.length / changesASecond) * 1_000)
  const parts = Math.ceil(clients.length / mostInLook)
  let endedMs: number | null = null
  for (let round = 0; ; round++) {
    await wait(lookEveryMs)
    const now = performance.now()
    if (signal.aborted) endedMs ??= now
    // Spread over the time between two changes, so that not all sources change at once.
    for (const [index, client] of clients.entries()) {
      const last = changedMs.get(client) ?? now - (changeEveryMs * index) / clients.length
      changedMs.set(client, last)
      if (endedMs !== null || pending.has(client) || now - last < changeEveryMs) continue
      changedMs.set(client, now)
      const ids = client.source.ids('assignment')
      const id = ids[Math.floor(Math.random() * ids.length)]
      if (id === undefined) continue
      const { version } = client.source.change('assignment', id, null, { isLate: false })
      pending.set(client, { id, version, changedMs: now })
    }
    const looked = clients.flatMap((client, index): [FleetClient, Pending][] => {
      const one = pending.get(client)
      return one && index % parts === round % parts ? [[client, one]] : []
    })
    const seen = await versionsOf(stage, new Map(looked))
    for (const [client, { version, changedMs: atMs }] of pending) {
      if ((seen.get(client.name) ?? 0n) < version) continue
      lags.get(client.name)?.push(performance.now() - atMs)
      pending.delete(client)
    }
    if (endedMs === null || (pending.size > 0 && now - endedMs < waitForLastMs)) continue
    for (const [client, { changedMs: atMs }] of pending) lags.get(client.name)?.push(now - atMs)
    return lags
  }
}

async function versionsOf(
  { pool, sourceOf }: Pick<Stage, 'pool' | 'sourceOf'>,
  pending: ReadonlyMap<FleetClient, Pending>,
): Promise<ReadonlyMap<string, bigint>> {
  if (pending.size === 0) return new Map()
  const selects = [...pending].map(([client, { id }]) => {
    const schema = sourceOf(client) === '' ? 'mirror' : `${sourceOf(client)}_mirror`
    return `select '${client.name}' as name, sys_row_version::text as version from ${schema}.assignment where assignment_id = ${id}`
  })
  try {
    const { rows } = await pool.query<{ name: string; version: string | null }>(selects.join(' union all '))
    return new Map(rows.map(({ name, version }) => [name, BigInt(version ?? 0)]))
  } catch {
    // Postgres is away.
    return new Map()
  }
}

export type LagFigures = {
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly worst: number
}

export function figuresOf(lags: Lags): LagFigures {
  const all = [...lags.values()].flat()
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => percentile(all, share)) as [number, number, number]
  return { p50, p95, p99, worst: Math.max(0, ...[...lags.values()].map((one) => percentile(one, 0.95))) }
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
export const lagsInWords = ({ p50, p95, p99, worst }: LagFigures): string =>
  `p50 ${seconds(p50)}, p95 ${seconds(p95)}, p99 ${seconds(p99)}; p95 of the slowest source ${seconds(worst)}`
