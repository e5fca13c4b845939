// The probe as a run: tests what is believed of a changes stream and records it. It reads no rows into the mirror and moves no position;
// a belief that falls takes back what rested on it all the same.

import { int64 } from '../../streams/record.ts'
import type { Detected } from '../capabilities.ts'
import { performRun, type ReadingContext, type RunOutcome } from '../perform-run.ts'
import type { Run, Store } from '../ports/store.ts'
import { type KnownRow, testBeliefs } from './test-beliefs.ts'

/** Which of the highest rows are compared with their records. */
const ranksOfKnown = [1, 3, 9, 27]

/** Rows of different ages, the youngest first. */
export async function knownRows(
  { history }: Pick<Store, 'history'>,
  stream: string,
): Promise<readonly KnownRow[]> {
  const highest = await history.anchors(stream, int64.max, ranksOfKnown.at(-1) ?? 1)
  return ranksOfKnown.flatMap((rank) => highest[rank - 1] ?? [])
}

export function probeStream(context: Omit<ReadingContext, 'pageSize'>): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'probe' }, async (run, source) => {
    const rows = await knownRows(context.store, context.stream.name)
    const seen: Detected[] = []
    run.progress.step('Test what is believed of the upstream')
    // Only the incremental run decides which field the version is: positions are numbers of it.
    for await (const { name, value, evidence } of testBeliefs({ ...context, source, rows }))
      if (value !== null && name !== 'version_field') seen.push({ name, value, evidence })
    return await record(run, seen, context.now())
  })
}

/** Records what was tested outside of a run, by somebody who asked. */
export const recordTested = (
  context: Omit<ReadingContext, 'pageSize'>,
  seen: readonly Detected[],
): Promise<RunOutcome> => performRun({ ...context, kind: 'probe' }, (run) => record(run, seen, context.now()))

async function record(run: Run<'probe'>, seen: readonly Detected[], now: Date) {
  await run.findings.learn(seen.map((one) => ({ ...one, testedAt: now })))
  const changed = seen.flatMap(({ name, value, evidence }) => {
    const known = run.state.beliefs.find((belief) => belief.name === name)
    return known && known.value !== value ? [`${name} was ${known.value} and is ${value}: ${evidence}`] : []
  })
  return { isComplete: true, note: changed.join('; ') || null }
}
