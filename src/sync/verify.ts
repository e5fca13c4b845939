// Verification of a changes stream: finds the rows that differ from their records, by key and column, and accuses none
// without a second look. Writes nothing, unless it is told to mend what it found.

import { readRecords } from '../record.ts'
import type { AuditRun, Audits, Difference } from './audit-ports.ts'
import { batches, isDoubtful } from './census.ts'
import type { ChangesContext } from './head.ts'
import { listWhole } from './list-whole.ts'
import type { Source } from './ports.ts'
import { type LaneOutcome, type LaneReading, runLane } from './run-lane.ts'

export type VerifyContext = Omit<ChangesContext, 'mirror' | 'onWritten' | 'shouldGiveWay'> & {
  readonly mirror: Audits
  readonly repair: boolean
  /** Look at this many rows drawn at random, each by its id, instead of at all; null: at all. */
  readonly sample: number | null
  readonly onDifference: (difference: Difference) => void
}
type VerifyFindings = {
  readonly compared: number
  readonly differences: number
  readonly repaired: number
  /** The look at the record told nothing. */
  readonly unclear: number
  /** False when rows that may differ could not be looked for. */
  readonly isWhole: boolean
}
export type VerifyOutcome = LaneOutcome & { readonly findings: VerifyFindings }

type Findings = { -readonly [Name in keyof VerifyFindings]: VerifyFindings[Name] }
type Inspection = {
  readonly context: VerifyContext
  readonly run: AuditRun
  readonly source: Source
  readonly findings: Findings
}

const keysAtOnce = 200
/** A record that changes at every look is not wrong, only busy. */
const mostLooks = 4

export async function verifyStream(context: VerifyContext): Promise<VerifyOutcome> {
  const { mirror, source, stream, signal } = context
  const findings: Findings = { compared: 0, differences: 0, repaired: 0, unclear: 0, isWhole: true }
  const lane = {
    mirror: { startRun: mirror.startAudit },
    source,
    stream: stream.name,
    lane: 'census',
    collectArrivals: false,
    signal,
  } as const
  const outcome = await runLane(lane, (run, counted) => {
    const inspection: Inspection = { context, run, source: counted, findings }
    return context.sample === null ? verifyAll(inspection) : verifySample(inspection, context.sample)
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
  const { context, run, source, findings } = inspection
  const { stream, pageSize, signal } = context
  const { position } = run.state
  const listed = await listWhole({ source, run, stream, pageSize, signal }, async (page) => {
    const differing = await run.compare(page)
    findings.compared += page.rows.length
    // What lies above the position the head has yet to read.
    const doubtful = differing.filter(({ version }) => version === null || version <= position)
    if (doubtful.length > 0) await run.suspect(doubtful.map(({ key }) => key))
  })
  findings.compared = Math.round(findings.compared / listed.passes)
  for await (const keys of batches((after) => run.suspects(after, keysAtOnce)))
    for (const key of keys) await inspect(inspection, key, false)
  if (!listed.isProven)
    return told(
      inspection,
      'the list changed during every pass: rows whose records are gone were not looked for',
    )
  const shortfall = await run.gatherAbsent()
  if (isDoubtful(shortfall))
    return told(
      inspection,
      `the list lacks ${shortfall.missing} of ${shortfall.living} rows, too many to be believed; a census holds them until it is told otherwise`,
    )
  for await (const keys of batches((after) => run.absentKeys(after, keysAtOnce)))
    for (const key of keys) await inspect(inspection, key, true)
  if (context.repair) {
    findings.repaired += await run.markGone()
    await run.guardAgain()
  }
  return told(inspection, null)
}

function told({ context, findings }: Inspection, why: string | null): LaneReading {
  findings.isWhole = why === null
  const what = context.sample === null ? 'verification' : 'verification of a sample'
  const { differences, repaired } = findings
  const found = differences === 0 ? 'no difference' : `${differences} differences`
  const mended = repaired > 0 ? `, ${repaired} mended` : ''
  // Not a census: it is not to be taken for one.
  return {
    isComplete: false,
    gaveWay: false,
    note: [`${what}: ${found}${mended}`, why].filter(Boolean).join('; '),
  }
}

/** Looks at one record until two looks agree on what is wrong with its row. `isLiving`: the row is known to live. */
async function inspect(
  { context, run, source, findings }: Inspection,
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
      onDifference({ key, kind: 'extra', columns: [], version: null, mirrored: null })
      if (repair)
        await run.noteGone([{ key, evidence: 'the list lacked it, and asked for by its id it is gone' }])
      return
    }
    const page = readRecords([answer.found], stream.keyFields, stream.versionFields)
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
