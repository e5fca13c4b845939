// One host has a budget of five requests a second for all that ask it, while workers are killed and Redis goes away: counted where they arrive.

import { setTimeout as wait } from 'node:timers/promises'
import { mostWithin } from '../../src/simulator/request-log.ts'
import type { Trial } from './stage.ts'

const perSecond = 5
const settleMs = 15_000
const longSpanMs = 10_000

export const budget: Trial = {
  name: 'budget',
  what: 'a host with five requests a second for all its sources and workers, kills, and Redis away for a moment',
  async run({ fleet, scale, change, workers, redis, say, sourceOf }) {
    const [, origin = ''] = fleet.origins
    // The source of the environment has settings of its own.
    const members = fleet.clients.filter((client) => client.origin === origin && sourceOf(client) !== '')
    const hosts = { host_requests_per_second: `${new URL(origin).host}=${perSecond}` }
    const often = { schedule_assignment: '1s', schedule_assignment_note: '1s' }
    await change(
      { of: Object.fromEntries(members.map(({ name }) => [name, { ...hosts, ...often }])) },
      members.length,
    )
    await wait(settleMs)
    for (const { requests } of members) requests.clear()
    const startedMs = performance.now()
    const spanMs = scale.minutes * 60_000
    await wait(spanMs / 3)
    say('a worker is killed')
    await workers[1]?.kill()
    await wait(2_000)
    workers[1]?.start()
    await wait(spanMs / 3)
    say('Redis goes away for three seconds')
    await redis.cut(3_000)
    await wait(spanMs / 3)
    const times = fleet.timesOf(members)
    const seconds = (performance.now() - startedMs) / 1000
    await change({}, members.length)
    const [inOne, inTen] = [mostWithin(1_000, times), mostWithin(longSpanMs, times)]
    const counts = members.map(({ requests }) => requests.times.length)
    return [
      {
        what: `no second has more than ${perSecond} requests, and one for each worker`,
        isFine: inOne <= perSecond + scale.workers,
        told: `${inOne} in one second, ${(times.length / seconds).toFixed(2)} a second of ${perSecond} that were allowed, over ${members.length} sources`,
      },
      {
        // A busy worker sends late what it was allowed to send.
        what: 'ten seconds have no more than ten times the budget, and two for each worker',
        isFine: inTen <= 10 * perSecond + 2 * scale.workers,
        told: `${inTen} in ten seconds`,
      },
      {
        what: 'none of its sources gets less than a third of what another gets',
        isFine: Math.min(...counts) * 3 > Math.max(...counts),
        told: `${Math.min(...counts)} to ${Math.max(...counts)} requests`,
      },
    ]
  },
}
