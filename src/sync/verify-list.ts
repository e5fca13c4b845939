// Verification of a list stream: two listings, the second as the second look. What differs in both, with the same record, is
// named; a record that changed between them is not wrong, only busy.

import { type Records, readRecords } from '../record.ts'
import type { ListStream } from '../streams.ts'
import { isDoubtful } from './audit-ports.ts'
import { batches } from './census.ts'
import { chooseKey } from './list-stream.ts'
import { listWhole } from './list-whole.ts'
import type { LaneReading } from './run-lane.ts'
import { extra, type Inspection, told, tooMuchIsGone, unsteadyList } from './verification.ts'

const keysAtOnce = 200

/** Reads records by the key of the stream's table, or by the one that a first poll would choose. */
export function keyChooser(
  stream: ListStream,
  known: string | null,
  chosen: string | null,
): Inspection['read'] {
  let keyField = known
  return (records) => {
    if (keyField === null && records.length > 0) keyField = chooseKey(stream, chosen, records)
    return readRecords(records, [keyField ?? ''], null)
  }
}

export async function verifyList(inspection: Inspection): Promise<LaneReading> {
  const { context, run, source, findings, read } = inspection
  const { pageSize, signal, stream } = context
  const list = (eachPage: (page: Records) => Promise<void>) =>
    listWhole({ source, run, read, pageSize, signal }, eachPage)

  const first = await list(async (page) => {
    findings.compared += page.rows.length
    const differing = await run.compare(page)
    if (differing.length > 0) await run.suspect(differing)
  })
  findings.compared = Math.round(findings.compared / first.passes)
  const shortfall = await run.gatherAbsent()
  if (first.received > 0 && run.state.keyField === null)
    return told(inspection, `it was never polled; run: tidemark sync ${stream.name}`)
  const second = await list((page) => nameConfirmed(inspection, page))
  if (!first.isProven || !second.isProven) return told(inspection, unsteadyList)
  if (isDoubtful(shortfall) || (second.received === 0 && shortfall.missing > 0))
    return told(inspection, tooMuchIsGone(shortfall))
  await run.spareShown()
  await nameAbsent(inspection)
  return told(inspection, null)
}

async function nameConfirmed({ context, run, findings }: Inspection, page: Records): Promise<void> {
  const differing = await run.compare(page)
  const confirmed = await run.confirm(differing)
  if (confirmed.size === 0) return
  const named = differing.filter(({ key }) => confirmed.has(key))
  findings.differences += named.length
  for (const difference of named) context.onDifference(difference)
  if (!context.repair) return
  const wrong: Records = { ...page, rows: page.rows.filter(({ key }) => confirmed.has(key)), unfit: [] }
  await run.distrust([...confirmed])
  await run.write(wrong, null)
  findings.repaired += named.length - (await run.compare(wrong)).length
}

/** Two listings in a row are the proof (P7). */
async function nameAbsent({ context, run, findings }: Inspection): Promise<void> {
  for await (const keys of batches((after) => run.absentKeys(after, keysAtOnce))) {
    findings.differences += keys.length
    for (const key of keys) context.onDifference(extra(key))
    if (context.repair)
      await run.noteGone(keys.map((key) => ({ key, evidence: 'two lists in a row lacked it' })))
  }
  if (context.repair) findings.repaired += await run.markGone()
}
