// Large sources come in while all others are at rest: what they load must not make the others old.

import { setTimeout as wait } from 'node:timers/promises'
import { figuresOf, lagsInWords, watchLags } from './lags.ts'
import { type Trial, untilEqual } from './stage.ts'

const largeCount = 5
/** Times those of the largest source before. */
const moreRows = 50
const moreMs = 10_000
const longestLoadMs = 1_200_000
const lookEveryMs = 1_000

export const loads: Trial = {
  name: 'loads',
  what: 'five large sources load for the first time, while the others are read as always',
  async run(stage) {
    const { fleet, scale, sources, pool, say, cli } = stage
    const large = fleet.clients.slice(-largeCount)
    const others = fleet.clients.slice(0, -largeCount)
    const without = large.map(({ name }) => name)
    sources.write({ without })
    const before = figuresOf(
      await watchLags(stage, others, AbortSignal.timeout((scale.minutes * 60_000) / 2)),
    )
    say(`before: ${lagsInWords(before)}`)
    for (const name of without) {
      const { code, output } = await cli('sources', 'drop', name, '--confirm', name)
      if (code !== 0) throw new Error(`${name} could not be dropped: ${output}`)
    }
    const rows = moreRows * scale.rows
    for (const { source } of large) for (let row = 0; row < rows; row++) source.insert('assignment')
    const ending = new AbortController()
    const watching = watchLags(stage, others, ending.signal)
    const startedMs = performance.now()
    sources.write()
    const countOf = async (name: string): Promise<number> => {
      const found = await pool
        .query(`select count(*)::int as rows from ${name}_mirror.assignment`)
        .catch(() => null)
      return found?.rows[0]?.rows ?? 0
    }
    let loadedMs = 0
    for (;;) {
      await wait(lookEveryMs)
      const counts = await Promise.all(without.map(countOf))
      loadedMs = performance.now() - startedMs
      if (counts.every((count) => count >= rows) || loadedMs > longestLoadMs) break
    }
    ending.abort()
    const during = figuresOf(await watching)
    const equality = await untilEqual(stage, large.slice(0, 1), 120_000)
    return [
      {
        what: 'changes of the other sources get no older than 10 s more',
        isFine: during.p95 < before.p95 + moreMs,
        told: lagsInWords(during),
      },
      {
        what: 'the large ones are loaded',
        isFine: loadedMs < longestLoadMs && equality.different.length === 0,
        told: `${((largeCount * rows) / (loadedMs / 1000)).toFixed(0)} rows a second, ${largeCount} sources of ${rows} rows in ${(loadedMs / 1000).toFixed(0)} s`,
      },
    ]
  },
}
