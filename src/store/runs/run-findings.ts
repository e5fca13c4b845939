// What a run writes down besides rows: facts about the upstream, late arrivals, and what is remembered of the stream.

import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import type { Pool } from 'pg'
import type { Belief, LateArrival } from '../../sync/ports/store.ts'
import { beliefTable, lateArrivalTable } from '../tables/findings.ts'
import { streamTable } from '../tables/state.ts'
import type { Lease } from './lease.ts'

export type Notes = {
  learn(beliefs: readonly Belief[]): Promise<void>
  setKeyField(field: string): Promise<void>
  stopStream(reason: string): Promise<void>
  recordLateArrivals(arrivals: readonly LateArrival[]): Promise<void>
  setLookback(lookbackMs: number, reason: string): Promise<void>
}

const arrivalsAtOnce = 1_000

export function openNotes(pool: Pool, { stream, runId }: Lease): Notes {
  const database = drizzle({ client: pool })
  const remember = async (values: Partial<typeof streamTable.$inferInsert>) => {
    await database.update(streamTable).set(values).where(eq(streamTable.name, stream))
  }

  return {
    async learn(beliefs) {
      if (beliefs.length === 0) return
      // One statement cannot write a row twice; of two facts of one name the later one holds.
      const newest = [...new Map(beliefs.map((belief) => [belief.name, belief])).values()]
      const isOther = sql`${beliefTable.value} is distinct from excluded.value`
      await database
        .insert(beliefTable)
        .values(newest.map((belief) => ({ ...belief, stream, firstAt: belief.testedAt })))
        .onConflictDoUpdate({
          target: [beliefTable.stream, beliefTable.name],
          set: {
            value: sql`excluded.value`,
            evidence: sql`excluded.evidence`,
            testedAt: sql`excluded.tested_at`,
            previousValue: sql`case when ${isOther} then ${beliefTable.value} else ${beliefTable.previousValue} end`,
            changedAt: sql`case when ${isOther} then excluded.tested_at else ${beliefTable.changedAt} end`,
          },
        })
    },
    setKeyField: (keyField) => remember({ keyField }),
    stopStream: (stoppedReason) => remember({ stoppedReason, stoppedAt: new Date() }),
    async recordLateArrivals(arrivals) {
      for (let start = 0; start < arrivals.length; start += arrivalsAtOnce) {
        const some = arrivals.slice(start, start + arrivalsAtOnce)
        await database.insert(lateArrivalTable).values(
          some.map(({ lateMs, ...arrival }) => ({
            ...arrival,
            stream,
            lateMs: BigInt(Math.round(lateMs)),
            runId: BigInt(runId),
          })),
        )
      }
    },
    setLookback: (lookbackMs, lookbackReason) =>
      remember({ lookbackMs: BigInt(Math.round(lookbackMs)), lookbackReason }),
  }
}
