// Reconciles of sources drawn at random, which change between any two requests, in every order a list may have. No living record
// is ever marked gone; when the source is quiet, the mirror ends equal to it (P6, P7).

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { type ReconcileOutcome, reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { seededRandom } from '../support/random.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'
import { worldSeed } from '../support/worlds.ts'

const assignment = streamOf('assignment')

const worlds = fc.record({
  seed: fc.nat(),
  behaviour: fc.record({
    order: fc.constantFrom('row-version', 'id', 'descending', 'unstable'),
    inclusive: fc.boolean(),
    pageCap: fc.constantFrom(null, 7, 23),
    ownPageSize: fc.constantFrom(null, null, null, 27),
    pageCapArithmetic: fc.constantFrom('sieve', 'clamped'),
    pagingIgnored: fc.constantFrom(false, false, false, true),
  }),
  changeChance: fc.constantFrom(0, 0.3, 0.8),
  damage: fc.integer({ min: 0, max: 8 }),
})

describe.skipIf(!hasPostgres)('reconciles', () => {
  const database = createTestDatabase()
  it('of random worlds mark nothing that lives, and miss nothing in the end (P6, P7)', async () => {
    await fc.assert(
      fc.asyncProperty(worlds, async ({ seed, behaviour, changeChance, damage }) => {
        const { pool } = database
        await pool.query(`truncate mirror.assignment, tidemark.run, tidemark.lease, tidemark.checkpoint, tidemark.belief, tidemark.suspect;
          update tidemark.stream set position = 0, blocked_deletions = null`)
        const random = seededRandom(seed)
        await using simulator = await startSimulator({ assignments: 60, seed, behaviour })
        await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
        const { source } = simulator
        const reconcile = async (approved = 0): Promise<ReconcileOutcome> => {
          const outcome = await reconcileStream({ ...context.contextOf(assignment), signal, approved })
          if (outcome.error) throw outcome.error
          const { rows } = await pool.query<{ id: string }>(
            `select assignment_id::text as id from mirror.assignment where _deleted_reason = 'absent'`,
          )
          expect(rows.filter(({ id }) => source.record('assignment', Number(id)))).toEqual([])
          // So many may vanish at once that they are blocked until a person looks and approves just those.
          const { blocked, marked } = outcome.findings
          if (!blocked || approved > 0) return outcome
          expect(marked).toBe(0)
          return await reconcile(blocked.missing)
        }
        await context.read(assignment, 'incremental', { signal })
        for (let row = 0; row < damage; row++)
          await pool.query('delete from mirror.assignment where assignment_id = $1', [1 + random.integer(60)])
        let changesLeft = 40
        simulator.onRequest(() => {
          while (changesLeft > 0 && random.chance(changeChance)) {
            changesLeft--
            const id = random.pick(source.ids('assignment'))
            const kind = random.integer(5)
            if (kind === 0) source.insert('assignment')
            else if (kind === 1 && source.count('assignment') > 50) source.remove('assignment', id, 'hard')
            else if (kind === 2) source.remove('assignment', id, 'soft')
            else source.change('assignment', id)
          }
        })
        await reconcile()
        await context.read(assignment, 'incremental', { signal })
        await reconcile()
        changesLeft = 0
        await context.read(assignment, 'incremental', { signal })
        const last = await reconcile()
        expect(last.status).toBe('done')
        // Pages in an order that is drawn anew each time prove nothing within reasonable passes.
        if (behaviour.order === 'unstable' && !behaviour.pagingIgnored) return
        expect(last.isComplete).toBe(true)
        const { rows: deleted } = await pool.query<{ told: string }>(
          `select assignment_id || ': no longer there' as told from mirror.assignment where _deleted_at is not null`,
        )
        // A record may go for good after it was flagged: its row is deleted already.
        const dead = new Set(deleted.map(({ told }) => told))
        const found = await differences(pool, simulator, 'assignment')
        expect(found.filter((told) => !dead.has(told))).toEqual([])
      }),
      {
        numRuns: Number(process.env.RECONCILE_WORLDS ?? 12),
        ...worldSeed(),
      },
    )
  }, 120_000)
})
