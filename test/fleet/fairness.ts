// Everything is due at once, again and again, and every answer takes 300 ms: no source waits longer than the turn of all of them takes.

import { setTimeout as wait } from 'node:timers/promises'
import { percentile } from '../soak/ages.ts'
import type { Trial } from './stage.ts'

const latencyMs = 300
/** For what a run does beside its requests, on a busy machine. */
const besideMs = 200
const requestsOfRun = 2
const settleMs = 15_000
const streams = 3
/** Of each worker, for short runs. */
const slots = 6

export const fairness: Trial = {
  name: 'fairness',
  what: 'all streams are due each second, and answers take 300 ms: who waits how long',
  async run(stage) {
    const { fleet, scale, change, say } = stage
    const before = new Map(fleet.clients.map((client) => [client, client.behaviour.latencyMs]))
    for (const { behaviour } of fleet.clients) behaviour.latencyMs = latencyMs
    const each = '1s'
    const tookMs = await change(
      {
        defaults: {
          schedule_assignment: each,
          schedule_assignment_note: each,
          schedule_assignment_object: each,
        },
      },
      scale.sources - 1,
    )
    say(`all workers read all sources by other settings after ${(tookMs / 1000).toFixed(0)} s`)
    await wait(settleMs)
    for (const { requests } of fleet.clients) requests.clear()
    await wait(scale.minutes * 60_000)
    // The source of the environment stays on its own schedules.
    const gaps = fleet.clients.slice(1).map(({ name, requests }) => ({ name, gaps: gapsIn(requests.times) }))
    for (const [client, ms] of before) client.behaviour.latencyMs = ms
    await change({}, scale.sources - 1)
    const turnMs =
      (scale.sources * streams * (requestsOfRun * latencyMs + besideMs)) / (slots * scale.workers)
    const longest = gaps.map((one) => ({
      name: one.name,
      ms: Math.max(...one.gaps, 0),
      runs: one.gaps.length,
    }))
    longest.sort((one, other) => other.ms - one.ms)
    const counts = longest.map(({ runs }) => runs).toSorted((a, b) => a - b)
    const [worst] = longest
    return [
      {
        what: 'no source waits longer than three turns of all of them',
        isFine: (worst?.ms ?? 0) < 3 * turnMs + 5_000,
        told: `longest ${((worst?.ms ?? 0) / 1000).toFixed(1)} s without a request (${worst?.name}), median ${(
          percentile(
            longest.map(({ ms }) => ms),
            0.5,
          ) / 1000
        ).toFixed(1)} s; one turn is ${(turnMs / 1000).toFixed(1)} s`,
      },
      {
        what: 'all are read equally often, within a half',
        isFine: (counts[0] ?? 0) * 2 > (counts.at(-1) ?? 0),
        told: `${counts[0]} to ${counts.at(-1)} requests`,
      },
    ]
  },
}

const gapsIn = (times: readonly number[]): readonly number[] =>
  times.slice(1).map((time, index) => time - (times[index] ?? time))
