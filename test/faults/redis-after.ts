// What has to hold after Redis was away: no stream is read later than its schedule says, and nothing in Redis keeps a run from being added.

import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { RedisServer } from '../support/redis-servers.ts'
import { seconds, type Trial } from './stage.ts'

/** As the worker of a trial has it. */
const everyMs = 2_000
const watchedMs = 8_000
/** What a run and the look at it take beside, on a machine that does much else. */
const besideMs = 2_000

/** Each stream has been read within one interval more than its schedule, at each look for a while. */
export async function expectInTime({ databaseUrl }: Pick<Trial, 'databaseUrl'>): Promise<void> {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  try {
    for (const endsMs = performance.now() + watchedMs; performance.now() < endsMs; await wait(250)) {
      const { rows } = await client.query<{ stream: string; ms: number }>(
        `select stream, extract(epoch from clock_timestamp() - last_success_at)::float8 * 1000 as ms
         from tidemark.freshness where stream in ('assignment', 'assignment_note')`,
      )
      const late = rows.find(({ ms }) => ms > 2 * everyMs + besideMs)
      if (late || rows.length !== 2)
        throw new Error(`${late?.stream ?? 'a stream'} was not read for ${seconds(late?.ms ?? Number.NaN)}`)
    }
  } finally {
    await client.end()
  }
}

/** BullMQ adds no job while there is a key for its deduplication: each of these has to be of a job that there is, or go. */
export async function expectNothingStuck({ tell }: Pick<RedisServer, 'tell'>): Promise<void> {
  let stuck = new Set<string>()
  for (let look = 0; look < 3; look++) {
    const found = new Set<string>()
    for (const key of (await tell('KEYS', '{tidemark-*}:*:de:*')) as string[]) {
      const job = await tell('GET', key)
      const [queue] = key.split(':de:')
      if (job !== null && Number(await tell('EXISTS', `${queue}:${job}`)) === 0) found.add(`${key} of ${job}`)
    }
    stuck = look === 0 ? found : new Set([...stuck].filter((one) => found.has(one)))
    if (stuck.size === 0) return
    await wait(1_000)
  }
  throw new Error(`no job is there for ${[...stuck].join(', ')}`)
}
