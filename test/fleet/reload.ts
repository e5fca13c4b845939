// The file of sources changes every five seconds: one comes, one goes, one is set otherwise. Now and then it is broken, or names a secret that
// no worker has. Changes hold soon, and nobody else notices.

import { setTimeout as wait } from 'node:timers/promises'
import { percentile } from '../soak/ages.ts'
import { figuresOf, lagsInWords, watchLags } from './lags.ts'
import { equalityFinding, type Trial, untilEqual } from './stage.ts'

const everyMs = 5_000
const longestMs = 5_000
const lookEveryMs = 100
const moreMs = 5_000
const longestEqualMs = 180_000

export const reload: Trial = {
  name: 'reload',
  what: 'the file of sources changes every five seconds, and is sometimes broken',
  async run(stage) {
    const { fleet, scale, sources, pool, say } = stage
    const half = Math.ceil(fleet.clients.length / 2)
    const [still, moving] = [fleet.clients.slice(0, half), fleet.clients.slice(half)]
    const before = figuresOf(await watchLags(stage, still, AbortSignal.timeout((scale.minutes * 60_000) / 2)))
    say(`before: ${lagsInWords(before)}`)
    const ending = AbortSignal.timeout(scale.minutes * 60_000)
    const watching = watchLags(stage, still, ending)
    const tookMs: number[] = []
    let broken = 0
    let lacking = 0
    let heardOfBroken = 0
    let heardOfLacking = 0
    const isGone = async (name: string) => {
      const { rows } = await pool.query(
        'select gone_at is not null as gone from tidemark.source_config where name = $1',
        [name],
      )
      return rows[0]?.gone === true
    }
    const isNoticed = async (key: string) =>
      (await pool.query('select from tidemark.notice where key = $1', [key])).rows.length > 0
    const until = async (check: () => Promise<boolean>): Promise<number> => {
      const startedMs = performance.now()
      while (!(await check()) && performance.now() - startedMs < 6 * longestMs) await wait(lookEveryMs)
      return performance.now() - startedMs
    }
    for (let round = 0; !ending.aborted; round++) {
      const { name } = moving[round % moving.length] as (typeof moving)[number]
      const rest = wait(everyMs)
      switch (round % 5) {
        case 0:
        case 2: {
          sources.write({ without: [name] })
          tookMs.push(await until(() => isGone(name)))
          break
        }
        case 1:
          sources.write({ of: { [name]: { page_size: String(100 + round) } } })
          break
        case 3: {
          broken++
          sources.writeText('sources:\n  c002: { client_giud: 1 }')
          if ((await until(() => isNoticed('sources_file'))) < 6 * longestMs) heardOfBroken++
          break
        }
        default: {
          lacking++
          sources.write({ of: { [name]: { api_key: 'env:NOT_HERE' } } })
          if ((await until(() => isNoticed(`source_stopped:${name}`))) < 6 * longestMs) heardOfLacking++
        }
      }
      await rest
    }
    sources.write()
    const during = figuresOf(await watching)
    const equality = await untilEqual(stage, fleet.clients, longestEqualMs)
    const { rows: left } = await pool.query('select key from tidemark.notice')
    return [
      {
        what: 'a source is gone within five seconds',
        isFine: percentile(tookMs, 0.95) < longestMs,
        told: `p95 ${percentile(tookMs, 0.95)} ms of ${tookMs.length}`,
      },
      {
        what: 'each broken file and each missing secret is told of',
        isFine: heardOfBroken === broken && heardOfLacking === lacking,
        told: `${heardOfBroken} of ${broken} files, ${heardOfLacking} of ${lacking} secrets`,
      },
      {
        what: 'changes of sources that stay get no older, within 5 s',
        isFine: during.p95 < before.p95 + moreMs,
        told: lagsInWords(during),
      },
      equalityFinding('all are equal afterwards', equality),
      {
        what: 'no problem is left',
        isFine: left.length === 0,
        told: left.map(({ key }) => key).join(', ') || 'none',
      },
    ]
  },
}
