// Looks for the reason why rows were missed that only a reconcile found. Perhaps the upstream cuts its answers before it sorts them: then
// a page looks sorted and leaves out rows below its last version, and the stream has to be read in small ranges from now on.

import { readRecords } from '../../streams/record.ts'
import { detected, usable } from '../capabilities.ts'
import type { ReadingContext } from '../perform-run.ts'
import type { Arrival } from '../ports/audits.ts'
import type { Run } from '../ports/store.ts'
import { highest } from '../versions.ts'

/** At most so many of the missed rows are asked for. */
const mostAsked = 3

type Context = ReadingContext & { readonly run: Run<'reconcile'> }

export async function lookForCut(context: Context, missed: readonly Arrival[]): Promise<void> {
  const { run, source, now } = context
  const { beliefs, versionField } = run.state
  const isKnown = usable(beliefs, 'sorted_before_cut', now())?.value === 'no'
  if (isKnown || versionField === null || usable(beliefs, 'sorting', now())?.value !== 'proven') return
  const sorted = { ...context, source: source.sortedBy(versionField) }
  for (const { key, version } of missed.slice(0, mostAsked)) {
    const evidence = version === null ? null : await leftOut(sorted, key, version)
    if (evidence === null) continue
    await run.findings.learn([{ ...detected('sorted_before_cut', 'no', evidence), testedAt: now() }])
    return
  }
}

/** A sorted page that begins half a page below the row has to show the row, or end before it. Returns the evidence if it does neither. */
async function leftOut(
  { source, stream, store, pageSize, signal }: Context,
  key: string,
  version: bigint,
): Promise<string | null> {
  const { keyFields, versionFields } = stream
  const below = await store.history.anchors(stream.name, version - 1n, Math.max(1, pageSize >> 1))
  const since = (below.at(-1)?.version ?? version) - 1n
  const answer = await source.changes({ since, page: 1, pageSize, sorts: 'ascending' }, signal)
  if ('refused' in answer) return null
  const { rows } = readRecords(answer.records, keyFields, versionFields)
  const last = highest(
    rows.flatMap((row) => row.version ?? []),
    0n,
  )
  if (last <= version || rows.some((row) => row.key === key)) return null
  // It may have been changed, or gone, since it was listed.
  const looked = (await source.lookup?.(key, signal)) ?? 'unclear'
  if (typeof looked === 'string') return null
  const [now] = readRecords([looked.found], keyFields, versionFields).rows
  return now?.version === version
    ? `a sorted page of what is above ${since} went up to version ${last} without record ${key}, which has version ${version}`
    : null
}
