// Upstreams drawn at random that lie, read into a real Postgres by every kind of run. After each run `tidemark.freshness` is compared with
// the truth, and with what a worker notes of the stream (P18).

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { lyingWorlds, readLyingWorld } from '../support/lying-world.ts'
import { openPostgresMirror, type Shown } from '../support/postgres-mirror.ts'
import { worldSeed } from '../support/worlds.ts'

const hourMs = 3_600_000
const numRuns = Number(process.env.FRESHNESS_WORLDS ?? 2)

describe.skipIf(!hasPostgres)('freshness', () => {
  const database = createTestDatabase()

  it(
    `says nothing false in ${numRuns} random worlds (P18)`,
    async () => {
      await fc.assert(
        fc.asyncProperty(lyingWorlds, async (plan) => {
          const mirror = await openPostgresMirror(database, {
            world: plan.world,
            isWatched: plan.seed % 3 > 0,
          })
          const { wrong, told } = await readLyingWorld(plan, {
            ...mirror,
            nowOfRuns: () => new Date(),
            answers() {},
            falseBesides: () => falseOf(mirror.shown(), mirror.store.isBlocked(), mirror.now()),
          })
          if (wrong.length > 0) expect(told, `in silence: ${wrong.join('; ')}`).not.toEqual([])
        }),
        // Each takes some seconds.
        { numRuns, endOnFailure: true, ...worldSeed() },
      )
    },
    120_000 + 30_000 * numRuns,
  )
})

/** What is false in the state, the reason and the share of a stream. */
function falseOf(
  { state, reason, loadedShare: share, readThroughTime: read }: Shown,
  isBlocked: boolean,
  now: Date,
): string[] {
  const isOld = read !== null && now.getTime() - read.getTime() > hourMs
  return [
    state === 'live' && read === null ? 'it is live, and was never read whole' : null,
    state === 'live' && isOld
      ? `it is live, and read through ${read?.toISOString()} at ${now.toISOString()}`
      : null,
    state === 'live' && isBlocked && reason === null
      ? 'deletions wait for a person, and no reason is told'
      : null,
    state === 'loading' && read !== null ? 'it loads, and was read whole' : null,
    (share === 1) !== (read !== null)
      ? `its share is ${share}, and it is read through ${read?.toISOString()}`
      : null,
    share !== null && !(share >= 0 && share <= 1) ? `its share is ${share}` : null,
  ].flatMap((what) => what ?? [])
}
