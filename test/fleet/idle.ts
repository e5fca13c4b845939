// At rest: nothing changes upstream, and all is read on the schedules that hold by default.

import { setTimeout as wait } from 'node:timers/promises'
import { figuresOf, lagsInWords, watchLags } from './lags.ts'
import type { Stage, Trial } from './stage.ts'
import { measure, sizesInWords, usageInWords } from './usage.ts'

const schedule = 30_000
/** What is due together finds its slots one after another. */
const longestLagMs = schedule + 10_000

const longestSettleMs = 2_400_000

/**
 * Until the lists that follow a first load are over. Each is read twice: at once, and when its look-back has gone by. Until then look-backs
 * read all rows again.
 */
async function untilSettled({ pool, say }: Stage): Promise<void> {
  const untilMs = performance.now() + longestSettleMs
  for (;;) {
    const { rowCount } = await pool.query(
      `select from tidemark.stream
       where first_read_through_at is not null and position > 0 and settled_through_version is null limit 1`,
    )
    if (rowCount === 0) return say('every stream is settled')
    if (performance.now() > untilMs) return say('not every stream is settled')
    await wait(5_000)
  }
}

export const idle: Trial = {
  name: 'idle',
  what: 'what a fleet costs at rest, and how old changes get by default',
  async run(stage) {
    const { scale, fleet, say } = stage
    await untilSettled(stage)
    await wait(60_000)
    const before = await measure(stage)
    await wait(scale.minutes * 60_000)
    for (const line of usageInWords(before, await measure(stage), scale.sources)) say(line)
    say(await sizesInWords(stage))
    const lags = figuresOf(await watchLags(stage, fleet.clients, AbortSignal.timeout(scale.minutes * 60_000)))
    return [
      {
        what: 'p95 of the age of a change stays below the schedule of 30 s and 10 s',
        isFine: lags.p95 < longestLagMs,
        told: lagsInWords(lags),
      },
    ]
  },
}
