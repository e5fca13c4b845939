// Three hosts fail at once, each in its own way. What the others have to show must not get older; and once the three answer again, they are
// read again soon.

import type { Fault } from '../../src/simulator/faults.ts'
import { figuresOf, lagsInWords, watchLags } from './lags.ts'
import { type Trial, untilEqual } from './stage.ts'

/** An empty path is part of any: the sign-in fails too. */
const failures: readonly { readonly told: string; readonly fault: Fault }[] = [
  { told: 'no answer', fault: { kind: 'hang', path: '' } },
  { told: '503', fault: { kind: 503, path: '' } },
  { told: 'Retry-After: 300', fault: { kind: 429, path: '', retryAfterSeconds: 300 } },
]
const moreMs = 5_000
const minuteMs = 60_000
/** The longest pause between two attempts at what fails is five minutes. */
const longestMs = 330_000

export const outage: Trial = {
  name: 'outage',
  what: 'three hosts fail: one does not answer, one answers 503, one asks to come again in five minutes',
  async run(stage) {
    const { fleet, scale, say } = stage
    const halfMs = (scale.minutes * 60_000) / 2
    const failing = failures.map((one, index) => {
      const origin = fleet.origins[index + 1]
      return { ...one, members: fleet.clients.filter((client) => client.origin === origin) }
    })
    const others = fleet.clients.filter(
      ({ origin }) => !fleet.origins.slice(1, failures.length + 1).includes(origin),
    )
    const before = figuresOf(await watchLags(stage, others, AbortSignal.timeout(halfMs)))
    say(`before: ${lagsInWords(before)}`)
    for (const { members, fault } of failing)
      for (const { faults, requests, source } of members) {
        faults.add(fault)
        requests.clear()
        source.insert('assignment')
      }
    const startedMs = performance.now()
    const during = figuresOf(await watchLags(stage, others, AbortSignal.timeout(2 * halfMs)))
    const minutes = (performance.now() - startedMs) / 60_000
    for (const { told, members } of failing) {
      const times = fleet.timesOf(members)
      const lately = times.filter((time) => time > performance.now() - minuteMs).length
      say(
        `${told}: ${(times.length / minutes).toFixed(1)} requests a minute of all ${members.length} sources of the host, ${lately} in the last minute`,
      )
    }
    const backMs: string[] = []
    let isBack = true
    for (const { members } of failing) for (const { faults } of members) faults.clear()
    const endedMs = performance.now()
    const ended = await Promise.all(
      failing.map(async ({ told, members }) => {
        const equality = await untilEqual(stage, members, longestMs)
        const asked = fleet.timesOf(members).find((time) => time > endedMs) ?? endedMs
        return { told, askedMs: asked - endedMs, ...equality }
      }),
    )
    for (const { told, askedMs, tookMs, different } of ended) {
      backMs.push(
        `${told}: ${(tookMs / 1000).toFixed(0)} s, of which ${(askedMs / 1000).toFixed(0)} s until it was asked again`,
      )
      isBack &&= different.length === 0
    }
    return [
      {
        what: 'changes of the other sources get no older, within 5 s',
        isFine: during.p95 < before.p95 + moreMs,
        told: lagsInWords(during),
      },
      { what: 'the failed ones are equal again after the outage', isFine: isBack, told: backMs.join(', ') },
    ]
  },
}
