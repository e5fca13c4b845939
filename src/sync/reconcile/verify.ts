// Verification of a stream: finds the rows that differ from their records, by key and column, and accuses none without a
// second look. Writes nothing, unless it is told to mend what it found.

import { type ListStream, type Stream, versionedBy } from '../../streams/catalog.ts'
import { type Records, readRecords } from '../../streams/record.ts'
import { plural } from '../../util/text.ts'
import { parsedRecords, type RecordList } from '../../wire/record-page.ts'
import { causeOf } from '../changes/causes.ts'
import { openShownKeys, type ShownKeys } from '../deletions/shown-keys.ts'
import { chooseKey } from '../lists/poll.ts'
import { type Listed, listWhole, whyUnproven } from '../lists/read-whole.ts'
import { performRun, type ReadingContext, type RunOutcome, type RunReading } from '../perform-run.ts'
import { type Cause, type Difference, doubtfulWith, type Shortfall } from '../ports/audits.ts'
import type { Source } from '../ports/source.ts'
import type { Run } from '../ports/store.ts'
import { batches } from './prove-gone.ts'

// What verifications of all kinds of streams have in common: what they look with, what they count, and how they tell it.
export type VerifyContext = Omit<ReadingContext<Stream>, 'now'> & {
  readonly keyField: string | null
  readonly repair: boolean
  /** Look at this many rows drawn at random, each by its id, instead of at all rows; null: at all rows. */
  readonly sample: number | null
  readonly onDifference: (difference: Difference, cause: Cause | null) => void
}
const newFindings = () => ({
  compared: 0,
  differences: 0,
  /** By cause, as far as one can be told. */
  byCause: {} as Partial<Record<Cause, number>>,
  /** Of a list: records that are new or changed since the last poll, which the next one brings. They are no differences. */
  changedSincePoll: 0,
  repaired: 0,
  /** The look at the record told nothing. */
  unclear: 0,
  /** False when rows that may differ could not be looked for. */
  isWhole: true,
})
type Findings = ReturnType<typeof newFindings>
export type VerifyOutcome = RunOutcome & { readonly findings: Readonly<Findings> }

type Inspection = {
  readonly context: VerifyContext
  readonly run: Run<'verify'>
  readonly source: Source
  readonly findings: Findings
  readonly read: (records: RecordList) => Records
  readonly shown: ShownKeys
}

const notLookedForGone = (listed: Listed) =>
  `${whyUnproven(listed)}, so rows whose records are gone were not looked for`
const tooMuchIsGone = ({ missing, living, marked = 0 }: Shortfall): string =>
  `${missing} of ${living} rows are missing from the list${marked > 0 ? `, after ${plural(marked, 'other')} ${marked === 1 ? 'was' : 'were'} marked within a day` : ''}, too many to be believed: a reconcile blocks such deletions until an operator approves them`

const extra = (key: string): Difference => ({
  key,
  kind: 'extra',
  columns: [],
  version: null,
  mirrored: null,
  record: null,
  isLocal: false,
  isBack: false,
  isRewound: false,
})

/** Reports the difference, and counts it by its cause (P16). */
function tell({ context, run, findings }: Inspection, difference: Difference, isVolatile = false): void {
  const cause = isVolatile ? 'volatile' : causeOf(difference, run.state.position)
  findings.differences += 1
  if (cause !== null) findings.byCause[cause] = (findings.byCause[cause] ?? 0) + 1
  context.onDifference(difference, cause)
}

/** The end of a verification; `why` when there are rows that it could not look for. */
function told({ context, findings }: Inspection, why: string | null): RunReading {
  findings.isWhole = why === null
  const what = context.sample === null ? 'verification' : 'verification of a sample'
  const { differences, repaired, changedSincePoll } = findings
  const named = Object.entries(findings.byCause).map(([cause, rows]) => `${rows} ${cause}`)
  const causes = named.length > 0 ? ` (${named.join(', ')})` : ''
  const found = differences === 0 ? 'no difference' : `${differences} differences${causes}`
  const mended = repaired > 0 ? `, ${repaired} mended` : ''
  const changed =
    changedSincePoll > 0 ? `${plural(changedSincePoll, 'record')} changed since the last poll` : ''
  // Never complete: a verification must not count as a reconcile.
  return {
    isComplete: false,
    note: [`${what}: ${found}${mended}`, changed, why].filter(Boolean).join('; '),
  }
}

// Verification of a list stream: two listings, the second as the second look. What differs in both, with the same record, is
// named; a record that changed between them is not wrong, only busy. Nor is one that changed since the last poll, unless somebody changed
// the table here: then nobody knows which of both it was.
/** Reads records by the key of the stream's table, or by the one that a first poll would choose. */
function keyChooser(stream: ListStream, known: string | null, chosen: string | null): Inspection['read'] {
  let keyField = known
  return (records) => {
    if (keyField === null && records.length > 0) keyField = chooseKey(stream, chosen, parsedRecords(records))
    return readRecords(records, [keyField ?? ''], null)
  }
}

async function verifyList(inspection: Inspection): Promise<RunReading> {
  const { context, run, source, findings, read } = inspection
  const { pageSize, signal, stream } = context
  const list = (eachPage: (page: Records) => Promise<void>) =>
    listWhole({ source, run, read, pageSize, signal }, eachPage)

  const first = await list(async (page) => {
    findings.compared += page.rows.length
    const differing = await run.verification.compare(page)
    if (differing.length > 0) await run.verification.suspect(differing)
  })
  findings.compared = Math.round(findings.compared / first.passes)
  const shortfall = await run.absent.gather()
  if (first.received > 0 && run.state.keyField === null)
    return told(inspection, `it was never read. Run: tidemark sync ${stream.name}`)
  const second = await list((page) => nameConfirmed(inspection, page))
  for (const listed of [first, second])
    if (!listed.isProven) return told(inspection, notLookedForGone(listed))
  if (second.received === 0 && shortfall.missing > 0) return told(inspection, tooMuchIsGone(shortfall))
  const why = await whyNoneIsGone(inspection, shortfall)
  if (why !== null) return told(inspection, why)
  await run.absent.spareShown()
  await nameAbsent(inspection)
  return told(inspection, null)
}

/** Too many at once, or bit by bit, or a person has to decide about deletions (P7). Null: those that are missing may be gone. */
async function whyNoneIsGone({ context, run }: Inspection, shortfall: Shortfall): Promise<string | null> {
  const { isBlocked, marked } = await run.verification.beforehand()
  // Whoever only compares is told what is missing.
  const tooMany = doubtfulWith(shortfall, context.repair ? marked : 0)
  if (tooMany !== null) return tooMuchIsGone(tooMany)
  return isBlocked && context.repair && shortfall.missing > 0
    ? `deletions are blocked, so no row was marked deleted. To review them: tidemark deletions list ${context.stream.name}`
    : null
}

async function nameConfirmed(inspection: Inspection, page: Records): Promise<void> {
  const { context, run, findings } = inspection
  const differing = await run.verification.compare(page)
  const confirmed = await run.verification.confirm(differing)
  if (confirmed.size === 0) return
  const isOwed = (one: Difference) => !run.state.isLocallyChanged && causeOf(one, run.state.position) === null
  const all = differing.filter(({ key }) => confirmed.has(key))
  const named = context.repair ? all : all.filter((one) => !isOwed(one))
  findings.changedSincePoll += all.length - named.length
  for (const difference of named) tell(inspection, difference)
  if (!context.repair) return
  const wrong: Records = { ...page, rows: page.rows.filter(({ key }) => confirmed.has(key)), rejected: [] }
  await run.verification.invalidateRows(named)
  await run.pages.commit(wrong, null)
  findings.repaired += named.length - (await run.verification.compare(wrong)).length
}

/** Two listings in a row are the proof (P7). */
async function nameAbsent(inspection: Inspection): Promise<void> {
  const { context, run, findings } = inspection
  for await (const keys of batches((after) => run.absent.keys(after, keysAtOnce))) {
    for (const key of keys) tell(inspection, extra(key))
    if (context.repair)
      await run.absent.noteGone(
        keys.map((key) => ({ key, evidence: 'missing from two complete lists in a row' })),
      )
  }
  if (context.repair) findings.repaired += await run.absent.markGone()
}

const keysAtOnce = 200
/** A record that changes at every look is not wrong, only busy. */
const mostLooks = 4

export async function verifyStream(context: VerifyContext): Promise<VerifyOutcome> {
  const findings = newFindings()
  const outcome = await performRun({ ...context, kind: 'verify' }, (run, counted) => {
    const stream = versionedBy(context.stream, run.state.versionField)
    const read: Inspection['read'] =
      stream.kind === 'list'
        ? keyChooser(stream, run.state.keyField, context.keyField)
        : (records) => readRecords(records, stream.keyFields, stream.versionFields)
    const shown = openShownKeys(counted)
    const inspection: Inspection = { context, run, source: counted, findings, read, shown }
    if (context.sample !== null) return verifySample(inspection, context.sample)
    return stream.kind === 'list' ? verifyList(inspection) : verifyAll(inspection)
  })
  return { ...outcome, findings }
}

async function verifySample(inspection: Inspection, sample: number): Promise<RunReading> {
  inspection.run.progress.step('Look at some records, one by one')
  for (const key of await inspection.run.verification.randomKeys(sample)) {
    inspection.findings.compared += 1
    await inspect(inspection, key, true)
  }
  return told(inspection, null)
}

async function verifyAll(inspection: Inspection): Promise<RunReading> {
  const { context, run, source, findings, read } = inspection
  const { pageSize, signal } = context
  const { position } = run.state
  const listed = await listWhole({ source, run, read, pageSize, signal }, async (page) => {
    const differing = await run.verification.compare(page)
    findings.compared += page.rows.length
    inspection.shown.show(page.rows.map(({ key }) => key))
    // What lies above the position the incremental run has yet to read.
    const doubtful = differing.filter(({ version }) => version === null || version <= position)
    if (doubtful.length > 0) await run.verification.suspect(doubtful)
  })
  findings.compared = Math.round(findings.compared / listed.passes)
  run.progress.step('Look again at rows that differ, one by one')
  for await (const keys of batches((after) => run.verification.suspects(after, keysAtOnce)))
    for (const key of keys) await inspect(inspection, key, false)
  if (!listed.isProven) return told(inspection, notLookedForGone(listed))
  const shortfall = await run.absent.gather()
  const why = await whyNoneIsGone(inspection, shortfall)
  if (why !== null) return told(inspection, why)
  if (shortfall.missing > 0)
    run.progress.step(`Look up ${plural(shortfall.missing, 'missing row')} one by one`)
  for await (const keys of batches((after) => run.absent.keys(after, keysAtOnce)))
    for (const key of keys) await inspect(inspection, key, true)
  if (context.repair) findings.repaired += await run.absent.markGone()
  return told(inspection, null)
}

const fewListed = 3

/** Whether other records can be looked at. A verification of a sample has listed nothing yet, so it lists a few first. */
async function canReadOthers({ context, source, read, shown }: Inspection): Promise<boolean> {
  const { sample, signal } = context
  if (sample !== null) {
    const { records } = await source.list({ page: 1, pageSize: fewListed }, signal)
    shown.show(read(records).rows.map(({ key }) => key))
  }
  return await shown.areThere(signal)
}

/** Looks at one record until two looks agree on what is wrong with its row. `isLiving`: the row is known to live. */
async function inspect(inspection: Inspection, key: string, isLiving: boolean): Promise<void> {
  const { context, run, source, findings, read } = inspection
  const { stream, signal, repair } = context
  const { lookup } = source
  if (!lookup) throw new Error(`The upstream has no request for a single record of ${stream.name}.`)
  let before: Difference | null = null
  for (let look = 0; look < mostLooks; look++) {
    signal.throwIfAborted()
    const answer = await lookup(key, signal)
    if (answer === 'unclear') {
      findings.unclear += 1
      return
    }
    if (answer === 'gone') {
      // When only this look finds it gone, it was deleted just now, and the next reconcile will see.
      if (!isLiving) return
      if (!(await canReadOthers(inspection))) {
        findings.unclear += 1
        return
      }
      tell(inspection, extra(key))
      if (repair)
        await run.absent.noteGone([
          {
            key,
            evidence: 'missing from the list, and the upstream says that there is no record of this id',
          },
        ])
      return
    }
    const page = read([answer.found])
    const [now] = await run.verification.compare(page)
    // Equal by now, or not a row at all, or not read yet.
    if (!now || (now.version !== null && now.version > (await run.verification.currentPosition()))) return
    if (before?.version === now.version && before.mirrored === now.mirrored && before.kind === now.kind) {
      // Volatile: the record kept its version, and yet the two looks differ.
      tell(inspection, now, now.version === now.mirrored && now.record !== before.record)
      if (!repair) return
      await run.verification.invalidateRows([now])
      await run.pages.commit(page, null)
      if ((await run.verification.compare(page)).length === 0) findings.repaired += 1
      return
    }
    before = now
  }
}
