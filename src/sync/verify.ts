// Verification of a stream: finds the rows that differ from their records, by key and column, and accuses none without a
// second look. Writes nothing, unless it is told to mend what it found.

import { readRecords } from '../record.ts'
import { type Difference, isDoubtful } from './audit-ports.ts'
import { batches } from './census.ts'
import { listWhole } from './list-whole.ts'
import { type LaneOutcome, type LaneReading, runLane } from './run-lane.ts'
import {
  extra,
  type Inspection,
  told,
  tooMuchIsGone,
  unsteadyList,
  type VerifyContext,
  type VerifyFindings,
} from './verification.ts'
import { keyChooser, verifyList } from './verify-list.ts'

export type VerifyOutcome = LaneOutcome & { readonly findings: VerifyFindings }

const keysAtOnce = 200
/** A record that changes at every look is not wrong, only busy. */
const mostLooks = 4

export async function verifyStream(context: VerifyContext): Promise<VerifyOutcome> {
  const { stream } = context
  const findings = { compared: 0, differences: 0, repaired: 0, unclear: 0, isWhole: true }
  const lane = {
    ...context,
    mirror: { startRun: context.mirror.startAudit },
    // A list stream must not be polled meanwhile: without versions nothing tells the older record from the newer.
    lane: stream.kind === 'list' ? 'head' : 'census',
  } as const
  const outcome = await runLane(lane, (run, counted) => {
    const read: Inspection['read'] =
      stream.kind === 'list'
        ? keyChooser(stream, run.state.keyField, context.keyField)
        : (records) => readRecords(records, stream.keyFields, stream.versionFields)
    const inspection: Inspection = { context, run, source: counted, findings, read }
    if (context.sample !== null) return verifySample(inspection, context.sample)
    return stream.kind === 'list' ? verifyList(inspection) : verifyAll(inspection)
  })
  return { ...outcome, findings }
}

async function verifySample(inspection: Inspection, sample: number): Promise<LaneReading> {
  for (const key of await inspection.run.randomKeys(sample)) {
    inspection.findings.compared += 1
    await inspect(inspection, key, true)
  }
  return told(inspection, null)
}

async function verifyAll(inspection: Inspection): Promise<LaneReading> {
  const { context, run, source, findings, read } = inspection
  const { pageSize, signal } = context
  const { position } = run.state
  const listed = await listWhole({ source, run, read, pageSize, signal }, async (page) => {
    const differing = await run.compare(page)
    findings.compared += page.rows.length
    // What lies above the position the head has yet to read.
    const doubtful = differing.filter(({ version }) => version === null || version <= position)
    if (doubtful.length > 0) await run.suspect(doubtful)
  })
  findings.compared = Math.round(findings.compared / listed.passes)
  for await (const keys of batches((after) => run.suspects(after, keysAtOnce)))
    for (const key of keys) await inspect(inspection, key, false)
  if (!listed.isProven) return told(inspection, unsteadyList)
  const shortfall = await run.gatherAbsent()
  if (isDoubtful(shortfall)) return told(inspection, tooMuchIsGone(shortfall))
  for await (const keys of batches((after) => run.absentKeys(after, keysAtOnce)))
    for (const key of keys) await inspect(inspection, key, true)
  if (context.repair) findings.repaired += await run.markGone()
  return told(inspection, null)
}

/** Looks at one record until two looks agree on what is wrong with its row. `isLiving`: the row is known to live. */
async function inspect(
  { context, run, source, findings, read }: Inspection,
  key: string,
  isLiving: boolean,
): Promise<void> {
  const { stream, signal, repair, onDifference } = context
  const { lookup } = source
  if (!lookup) throw new Error(`${stream.name} offers no look at one record`)
  let before: Difference | null = null
  for (let look = 0; look < mostLooks; look++) {
    signal.throwIfAborted()
    const answer = await lookup(key, signal)
    if (answer === 'unclear') {
      findings.unclear += 1
      return
    }
    if (answer === 'gone') {
      // When only this look finds it gone, it was deleted just now, and the next census will see.
      if (!isLiving) return
      findings.differences += 1
      onDifference(extra(key))
      if (repair)
        await run.noteGone([{ key, evidence: 'the list lacked it, and asked for by its id it is gone' }])
      return
    }
    const page = read([answer.found])
    const [now] = await run.compare(page)
    // Equal by now, or not a row at all, or not read yet.
    if (!now || (now.version !== null && now.version > (await run.currentPosition()))) return
    if (before?.version === now.version && before.mirrored === now.mirrored && before.kind === now.kind) {
      findings.differences += 1
      onDifference(now)
      if (!repair) return
      await run.distrust([key])
      await run.write(page, null)
      if ((await run.compare(page)).length === 0) findings.repaired += 1
      return
    }
    before = now
  }
}
