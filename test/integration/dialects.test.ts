// Every dialect in which services page their lists and end them, over HTTP, by every kind of reading, while records come, change, vanish
// and become visible late: the mirror ends equal (P6, P7), and how the list ended is known.

import type { Pool } from 'pg'
import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import type { Behaviour } from '../../src/simulator/behaviour.ts'
import { type DialectName, dialectNamed, dialectNames } from '../../src/simulator/dialects.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { requestBackfill } from '../../src/store/book/backfills.ts'
import { runNextBackfill } from '../../src/sync/changes/backfill.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import type { RunOutcome } from '../../src/sync/perform-run.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { beliefOf, neverAborted, openTestContext, positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const objects = streamOf('assignment_object')

/** What makes pages by number the only way to read on. */
const inPasses: Partial<Behaviour> = { sorts: 'ignored', filters: 'ignored', order: 'id' }

describe.skipIf(!hasPostgres)('a service that pages like', () => {
  for (const dialect of dialectNames)
    describe(`${dialect} (${dialectNamed(dialect).of})`, () => {
      const database = createTestDatabase()
      it('is read whole, by row version and key, and then in passes', async () => {
        await using simulator = await startSimulator({
          ...{ assignments: 120, objects: 40 },
          behaviour: { dialect },
        })
        await using context = await openTestContext(database, simulator, {
          STREAMS: 'assignment,assignment_object',
          PAGE_SIZE: '20',
        })
        const seen: RunOutcome[] = []
        const traffic = startTraffic(simulator)
        seen.push(...(await readAll(context)))
        Object.assign(simulator.behaviour, inPasses)
        seen.push(...(await readAll(context)))
        traffic.stop()
        await requestBackfill(database.pool, { stream: 'assignment', from: 0n, to: 80n, by: 'somebody@here' })
        const backfill = await runNextBackfill({ ...context.contextOf(assignment), signal: neverAborted })
        if (backfill) seen.push(backfill)
        seen.push(...(await readAll(context)))
        const last = await readAll(context)
        expect([...seen, ...last].flatMap(failureOf)).toEqual([])
        expect(last.filter(({ isComplete }) => !isComplete)).toEqual([])
        expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
        expect(await keysOf(database.pool)).toEqual(simulator.source.ids('assignment_object').sort(byNumber))
        expect(await positionOf(database.pool)).toBe(simulator.source.highestVersion('assignment'))
        expect(await beliefOf(database.pool, 'page_end')).toBe(endOf(dialect))
      }, 60_000)
    })
})

const failureOf = ({ kind, error }: RunOutcome): readonly string[] =>
  error ? [`${kind}: ${error.message}`] : []

async function readAll(context: SyncContext): Promise<readonly RunOutcome[]> {
  const given = { ...context.contextOf(assignment), signal: neverAborted }
  const hooks = { signal: neverAborted, reach: 'whole' } as const
  return [
    await context.read(assignment, 'incremental', hooks),
    await context.read(assignment, 'lookback', hooks),
    await findDeletions(given),
    await reconcileStream({ ...given, approved: 0 }),
    await context.read(objects, 'incremental', hooks),
  ]
}

function endOf(dialect: DialectName): string {
  const { pastEnd } = dialectNamed(dialect)
  if (pastEnd === 'empty list') return dialect === 'hal' ? 'null' : 'an empty list'
  if (pastEnd === 'first page') return 'the first page again'
  if (pastEnd === 'last page') return 'a page that came before'
  return pastEnd.status === 200 ? 'null' : `status ${pastEnd.status}`
}

async function keysOf(pool: Pool): Promise<readonly number[]> {
  const { rows } = await pool.query<{ key: string }>(
    'select assignment_object_id as key from mirror.assignment_object where _deleted_at is null order by 1',
  )
  return rows.map(({ key }) => Number(key))
}

const byNumber = (a: number, b: number): number => a - b

/** Beside every other request, records come, change, vanish, or get a version that becomes visible some requests later. */
function startTraffic({ source, onRequest }: Simulator) {
  let requests = 0
  let changes = 0
  const someId = () => source.ids('assignment')[(changes * 37) % source.count('assignment')] ?? 1
  const forget = onRequest(({ method }) => {
    requests += 1
    if (method !== 'GET' || requests % 2 > 0 || changes >= 40) return
    changes += 1
    if (changes % 4 === 0) source.remove('assignment', someId())
    else if (changes % 4 === 1) source.insert('assignment')
    else if (changes % 4 === 2) source.changeLate('assignment', someId())
    else source.change('assignment', someId())
    if (changes % 9 === 0) source.commitLate()
    if (changes % 20 === 0) source.insert('assignment_object')
  })
  return {
    stop() {
      forget()
      source.commitLate()
    },
  }
}
