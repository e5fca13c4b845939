// The budgets of a deployment in Redis: one hash for each, with the time from which the next request may be sent and that until which there
// is a pause, in microseconds by the clock of Redis. They live in slots of their own, away from the queue.

import { createHash } from 'node:crypto'
import type { Logger } from '../log.ts'
import { openRedis } from '../redis/connection.ts'
import type { BudgetStore, SharedPause } from '../upstream/http/budget.ts'

/** Numbers are written with all their digits: Lua would keep 14. What is too far ahead was written before the clock went back. */
const common = `
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local held = redis.call('HMGET', KEYS[1], 'next', 'till', 'why')
  local till = tonumber(held[2] or 0)
  if till > now + 3601000000 then till = 0 end
  local function keep(field, at, why)
    redis.call('HSET', KEYS[1], field, string.format('%.0f', at), 'why', why)
    local last = math.max(at, till, tonumber(held[1] or 0))
    redis.call('PEXPIRE', KEYS[1], math.min(math.ceil((last - now) / 1000), 3600000) + 60000)
  end`
/** ARGV: how many, microseconds from one to the next, longest wait, and what is too far ahead. */
const reserveScript = `${common}
  if till > now then return { 0, 0, till - now, held[3] } end
  local count, gap = tonumber(ARGV[1]), tonumber(ARGV[2])
  local from = math.max(now, tonumber(held[1] or 0))
  if from > now + ARGV[4] then from = now end
  if count == 0 or from - now > tonumber(ARGV[3]) then return { 0, from - now, 0, '' } end
  keep('next', from + count * gap, held[3] or '')
  return { 1, from - now, 0, '' }`
/** ARGV: microseconds that are left, and why. */
const pauseScript = `${common}
  local asked = now + ARGV[1]
  if asked > till then keep('till', asked, ARGV[2]) end`

/** From this on, no reservation is. */
export const tooFarAheadMs = (gapMs: number): number => 60_000 + 8 * gapMs

const inMicroseconds = (ms: number): number => Math.round(ms * 1_000)

/** `deployment`: two may share one Redis. */
export function openRedisBudget(given: {
  readonly redisUrl: string
  readonly deployment: string
  readonly log: Logger
}): BudgetStore & { close(): void } {
  const { redisUrl, deployment, log } = given
  // Whoever asks for a place does without it rather than wait for Redis.
  const { redis, trouble, close } = openRedis({ redisUrl, name: 'tidemark-budget', retries: 0, log })
  const run = (script: string, bucket: string, ...given: readonly (string | number)[]) =>
    redis.eval(script, 1, keyOf(bucket), ...given).catch((error) => {
      // That an attempt failed says less than why.
      throw trouble() ?? error
    })
  const keyOf = (bucket: string): string => {
    const digest = createHash('sha256').update(`${deployment} ${bucket}`).digest('hex').slice(0, 16)
    return `{tidemark-budget-${digest}}`
  }
  return {
    place: 'Redis',
    async reserve(bucket, { count, gapMs, longestMs }) {
      const asked = [gapMs, longestMs, tooFarAheadMs(gapMs)].map(inMicroseconds)
      const answer = await run(reserveScript, bucket, count, ...asked)
      const [isReserved, waitUs, pauseUs, why] = answer as [number, number, number, string]
      const pause: SharedPause | null =
        pauseUs > 0 ? { ...JSON.parse(why), leftMs: Math.ceil(pauseUs / 1_000) } : null
      return { isReserved: isReserved === 1, waitMs: waitUs / 1_000, pause }
    },
    async pause(bucket, { leftMs, ...why }) {
      await run(pauseScript, bucket, inMicroseconds(leftMs), JSON.stringify(why))
    },
    close,
  }
}
