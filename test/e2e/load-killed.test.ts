// A first load in ranges of versions, by the real program, killed again and again: when the upstream hears a request, and when Postgres
// is told a statement. At every moment what counts as read is there (P1, P6), and each run goes on where the one before was (P8).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { untilAsked } from '../support/asked.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark, startTidemark } from '../support/program.ts'
import { seededRandom } from '../support/random.ts'
import { differences } from '../support/same-as-source.ts'

const words = ['sync', 'assignment']
const kills = 12
const pageSize = 100

describe.skipIf(!hasPostgres)(`a first load in ranges that is killed ${kills} times`, () => {
  const database = createTestDatabase()

  /** What the state says is read, and the versions of the rows that are here. */
  async function readState() {
    const { pool } = database
    const { rows } = await pool.query<{ position: string; unread: Unread | null; has_rows: boolean }>(
      `select position::text, unread, exists (
         select from information_schema.columns where table_schema = 'mirror' and column_name = 'row_version'
       ) as has_rows
       from tidemark.stream where name = 'assignment'`,
    )
    const [state] = rows
    if (!state) throw new Error('there is no stream')
    const { unread } = state
    const there = state.has_rows
      ? await pool.query<{ version: string }>('select row_version::text as version from mirror.assignment')
      : { rows: [] }
    const position = BigInt(state.position)
    const isRead = (version: bigint) =>
      version <= position ||
      (unread !== null &&
        version <= BigInt(unread.up_to) &&
        !unread.ranges.some(([above, upTo]) => version > BigInt(above) && version <= BigInt(upTo)))
    return {
      position,
      isInRanges: unread !== null,
      isRead,
      there: new Set(there.rows.map(({ version }) => version)),
    }
  }

  it('ends equal to the source, and repeats no more than was not committed (P1, P6, P8)', {
    timeout: 240_000,
  }, async () => {
    const random = seededRandom(20_261_122)
    await using simulator = await startSimulator({ assignments: 20_000, behaviour: { latencyMs: 20 } })
    const versions = simulator.source
      .texts('assignment')
      .map((text) => BigInt(/"RowVersion":\s*(\d+)/.exec(text)?.[1] ?? 0))
    const environment = environmentFor(simulator, database, {
      PAGE_SIZE: String(pageSize),
      LOAD_CONNECTIONS: '6',
    })
    const killAtRequest = async () => {
      const asked = untilAsked(simulator, 14 + random.integer(10))
      const program = startTidemark(words, environment)
      await Promise.race([asked, program.ended])
      program.child.kill('SIGKILL')
      return await program.ended
    }
    const killAtStatement = async () => {
      const cut = { after: 40 + random.integer(60), isHeard: random.chance(0.5) }
      const proxy = await startCuttingProxy(database.url, cut, () => program.child.kill('SIGKILL'))
      const program = startTidemark(words, { ...environment, DATABASE_URL: proxy.url })
      const ended = await program.ended
      await proxy.close()
      return ended
    }

    let before = await readState()
    let inRanges = 0
    for (let kill = 0; kill < kills; kill++) {
      const ended = await (kill % 2 === 0 ? killAtRequest() : killAtStatement())
      expect(ended.code, ended.stderr).toBe(null)
      const now = await readState()
      if (now.isInRanges) inRanges += 1
      const read = versions.filter(now.isRead)
      expect(read.filter((version) => !now.there.has(String(version)))).toEqual([])
      expect(read.length).toBeGreaterThanOrEqual(versions.filter(before.isRead).length)
      before = now
    }
    expect(inRanges).toBeGreaterThan(kills / 2)

    const left = versions.filter((version) => !before.isRead(version)).length
    expect(left).toBeGreaterThan(0)
    const last = await runTidemark([...words, '--json'], environment)
    expect(last.code, last.stderr).toBe(0)
    const [{ inserted, unchanged }] = JSON.parse(last.stdout).streams
    expect(inserted).toBeLessThanOrEqual(left)
    // The page that was on the way when it was killed last may be there, and the first page goes over what others have read.
    expect(inserted + unchanged).toBeLessThanOrEqual(left + 3 * pageSize)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    const end = await readState()
    expect(end.position).toBe(simulator.source.highestVersion('assignment'))
    expect(end.isInRanges).toBe(false)
  })
})

type Unread = { readonly up_to: string; readonly ranges: readonly (readonly [string, string])[] }
