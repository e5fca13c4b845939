// The budgets of a deployment in Redis: one hash for each, with the time from which the next request may be sent and that until which there
// is a pause, in microseconds by the clock of Redis. Beside those of a host is what is known of it while it fails. They live in slots of their
// own, away from the queue, and all of a host in one.

import { createHash } from 'node:crypto'
import type { Logger } from '../log.ts'
import { openRedis } from '../redis/connection.ts'
import type { BudgetStore, SharedPause } from '../upstream/http/budget.ts'
import { type CircuitState, readCircuitState } from '../upstream/http/circuit-state.ts'

/** Numbers are written with all their digits: Lua would keep 14. What is too far ahead was written before the clock went back. */
const common = `
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local held = redis.call('HMGET', KEYS[1], 'next', 'till', 'why')
  local till = tonumber(held[2] or 0)
  if till > now + 3601000000 then till = 0 end
  local function told(one, two, three, four)
    return { one, two, three, four, KEYS[2] and redis.call('GET', KEYS[2]) or '', math.floor(now / 1000) }
  end
  local function keep(field, at, why)
    redis.call('HSET', KEYS[1], field, string.format('%.0f', at), 'why', why)
    local last = math.max(at, till, tonumber(held[1] or 0))
    redis.call('PEXPIRE', KEYS[1], math.min(math.ceil((last - now) / 1000), 3600000) + 60000)
  end`
/** ARGV: how many, microseconds from one to the next, longest wait, and what is too far ahead. */
const reserveScript = `${common}
  if till > now then return told(0, 0, till - now, held[3]) end
  local count, gap = tonumber(ARGV[1]), tonumber(ARGV[2])
  local from = math.max(now, tonumber(held[1] or 0))
  if from > now + ARGV[4] then from = now end
  if count == 0 or from - now > tonumber(ARGV[3]) then return told(0, from - now, 0, '') end
  keep('next', from + count * gap, held[3] or '')
  return told(1, from - now, 0, '')`
/** ARGV: microseconds that are left, and why. */
const pauseScript = `${common}
  local asked = now + ARGV[1]
  if asked > till then keep('till', asked, ARGV[2]) end`

/** ARGV: what was there, what is to be there, and for how long; without them it is only looked up. */
const circuitScript = `
  local time = redis.call('TIME')
  local held = redis.call('GET', KEYS[1]) or ''
  local changed = 0
  if ARGV[1] and held == ARGV[1] then
    if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
    held = ARGV[2]
    changed = 1
  end
  return { changed, held, time[1] * 1000 + math.floor(time[2] / 1000) }`

/** From this on, no reservation is. */
export const tooFarAheadMs = (gapMs: number): number => 60_000 + 8 * gapMs

/** Longer than a host that fails is left alone. */
const circuitLastsMs = 3_600_000
function stateIn(held: string): CircuitState | null {
  try {
    return readCircuitState(JSON.parse(held))
  } catch {
    return null
  }
}

type Reserved = [
  isReserved: number,
  waitUs: number,
  pauseUs: number,
  why: string,
  held: string,
  nowMs: number,
]

const inMicroseconds = (ms: number): number => Math.round(ms * 1_000)

/** `deployment`: two may share one Redis. */
export function openRedisBudget(given: {
  readonly redisUrl: string
  readonly deployment: string
  readonly log: Logger
}): BudgetStore & { close(): void } {
  const { redisUrl, deployment, log } = given
  // Whoever asks for a place does without it rather than wait for Redis.
  const { run, close } = openRedis({ redisUrl, name: 'tidemark-budget', retries: 0, log })
  const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16)
  /** The first word of a bucket is its host. */
  const keyOf = (bucket: string): string => {
    const [host = '', ...rest] = bucket.split(' ')
    return `{tidemark-budget-${digestOf(`${deployment} ${host}`)}}${rest.length > 0 ? `:${digestOf(bucket)}` : ''}`
  }
  const circuitOf = (host: string): string => keyOf(`${host} circuit`)
  return {
    place: 'Redis',
    async reserve(bucket, { count, gapMs, longestMs }, host = null) {
      const asked = [gapMs, longestMs, tooFarAheadMs(gapMs)].map(inMicroseconds)
      const keys = [keyOf(bucket), ...(host === null ? [] : [circuitOf(host)])]
      const answer = (await run(reserveScript, keys, count, ...asked)) as Reserved
      const [isReserved, waitUs, pauseUs, why, held, nowMs] = answer
      const pause: SharedPause | null =
        pauseUs > 0 ? { ...JSON.parse(why), leftMs: Math.ceil(pauseUs / 1_000) } : null
      const circuit = { state: stateIn(held), nowMs }
      return { isReserved: isReserved === 1, waitMs: waitUs / 1_000, pause, circuit }
    },
    async pause(bucket, { leftMs, ...why }) {
      await run(pauseScript, [keyOf(bucket)], inMicroseconds(leftMs), JSON.stringify(why))
    },
    async circuit(host, change = null) {
      const asText = (state: CircuitState | null) => (state === null ? '' : JSON.stringify(state))
      const ask = async (before: string | null) => {
        const asked = change === null || before === null ? [] : [before, asText(change.after), circuitLastsMs]
        const answer = await run(circuitScript, [circuitOf(host)], ...asked)
        const [isChanged, held, nowMs] = answer as [number, string, number]
        return { isChanged: isChanged === 1, state: stateIn(held), nowMs, held }
      }
      const found = await ask(change && asText(change.before))
      // What another version has written counts as nothing.
      const isUnreadable = !found.isChanged && found.state === null && found.held !== ''
      const { held: _, ...answer } = isUnreadable && change?.before === null ? await ask(found.held) : found
      return answer
    },
    close,
  }
}
