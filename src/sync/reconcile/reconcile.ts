// The reconcile of a changes stream: everything is listed, to find what other runs cannot: rows that were missed, and rows
// whose records are gone. What is gone is believed only when a look at the record itself confirms it (P7).

import { versionedBy } from '../../streams/catalog.ts'
import { isFlaggedDeleted, readRecords } from '../../streams/record.ts'
import { blockStep, markStep } from '../../streams/run-steps.ts'
import { withoutTwins } from '../../streams/twins.ts'
import { count, plural } from '../../util/text.ts'
import type { RecordList } from '../../wire/record-page.ts'
import { type Detected, detected, learn, usable } from '../capabilities.ts'
import { steadyNote, volatileNote } from '../changes/volatile.ts'
import { openShownKeys } from '../deletions/shown-keys.ts'
import { listEverything, whyUnproven } from '../lists/read-whole.ts'
import { performRun, type RunOutcome, type RunReading } from '../perform-run.ts'
import {
  type Arrival,
  type DifferenceCounts,
  doubtfulWith,
  type MissingLook,
  type Shortfall,
} from '../ports/audits.ts'
import type { Run } from '../ports/store.ts'
import { highest } from '../versions.ts'
import { type Differences, openDifferences } from './differences.ts'
import { type Paced, proveGone } from './prove-gone.ts'

export type ReconcileContext = Paced & {
  readonly lookbackFloorMs: number
  /** An operator believes that so many rows are gone, although the listing is empty or has shrunk by more than a fifth; 0: nobody does. */
  readonly approved: number
}
/** What a reconcile begins with. */
const newFindings = () => ({
  /** Rows at or below the position that nothing else had brought, the first of them by key. */
  missedRows: 0,
  samples: [] as readonly Arrival[],
  /** Versions that came late, within the look-back: the look-back run would have found them as well. */
  late: 0,
  /** Whatever differed, by its cause. */
  differences: {} as DifferenceCounts,
  missing: 0,
  marked: 0,
  /** Missing from the listing, but there when looked at; or the look told nothing. */
  alive: 0,
  unclear: 0,
  blocked: null as Shortfall | null,
})
type Findings = ReturnType<typeof newFindings>
export type ReconcileOutcome = RunOutcome & { readonly findings: Readonly<Findings> }

const keysTold = 20

export async function reconcileStream(context: ReconcileContext): Promise<ReconcileOutcome> {
  const findings = newFindings()
  const outcome = await performRun({ ...context, kind: 'reconcile' }, (run, source) => {
    const stream = versionedBy(context.stream, run.state.versionField)
    return reconcile({ ...context, run, source, stream, findings })
  })
  return { ...outcome, findings }
}

type Reconcile = ReconcileContext & { readonly run: Run<'reconcile'>; readonly findings: Findings }

async function reconcile(context: Reconcile): Promise<RunReading> {
  const { run, source, stream, findings } = context
  const differences = await openDifferences(context, findings)
  const { counts } = differences.book
  findings.differences = counts
  const read = (records: RecordList) => readRecords(records, stream.keyFields, stream.versionFields)
  const shown = openShownKeys(source)
  const listing = { ...context, read, keyField: stream.keyFields[0] ?? '' }
  const listed = await listEverything(listing, async (page) => {
    shown.show(page.rows.map(({ key }) => key))
    await differences.note(await run.pages.commit(withoutTwins(page), null), page)
  })
  await differences.end(listed)
  const reading = (isComplete: boolean, why: string | null) =>
    told(isComplete, findings, differences.book, why)
  if (findings.missedRows > 0) await lookForCut(context)
  if (!listed.isProven) return reading(false, `${whyUnproven(listed)}, so no row was marked deleted`)
  const shortfall = await run.absent.gather()
  findings.missing = shortfall.missing
  if (shortfall.missing + shortfall.seen === 0 && run.state.inconclusiveRuns > 0) {
    await run.reconciliation.block(null)
    return reading(
      false,
      'the list shows no record that can be a row, and the last poll was shown nothing that is known, so nothing was proven',
    )
  }
  await learnWhetherListShowsDeleted(context, shortfall)
  const blocked = await blockTooMany(context, shortfall)
  if (blocked !== null) return reading(false, blocked)
  const proven = await proveGone(
    { ...context, shown, onFound: differences.note, onGone: differences.noteGone },
    shortfall.missing,
  )
  Object.assign(findings, proven)
  const gone = shortfall.missing - proven.alive - proven.unclear
  if (gone > 0) run.progress.step(markStep(gone))
  findings.marked = await run.absent.markGone()
  if (context.approved > 0) await run.reconciliation.noteApproved()
  if (findings.marked > 0) await run.reconciliation.cure('deleted', 'marked as deleted')
  await run.reconciliation.block(null)
  await run.reconciliation.guardAgain()
  await learn(run, whatWasCompared(findings, counts.twin ?? 0, shortfall.seen), context.now())
  // A record that the list lacked and that is there, or may be, shows that the list is not whole. One that fell back to an older version may
  // be one of many that a restored backup lost.
  const isWhole = findings.alive === 0 && findings.unclear === 0 && (counts['fell back'] ?? 0) === 0
  return {
    ...reading(true, null),
    knowsDeletions: findings.unclear === 0,
    // While polls show nothing that is known, only one of two ways has confirmed anything (P13).
    ...(isWhole &&
      run.state.inconclusiveRuns === 0 &&
      differences.book.settled && { settled: differences.book.settled }),
  }
}

/** Blocks the deletions if more rows are missing than is believed without asking (P7). Returns the note of the run; null: not blocked. */
async function blockTooMany(context: Reconcile, found: Shortfall): Promise<string | null> {
  const { run, findings } = context
  const { living, missing } = found
  if (missing <= context.approved) return null
  const marked = await run.reconciliation.markedBefore()
  const tooMany = doubtfulWith(found, marked)
  if (tooMany === null && !(await run.reconciliation.isRejected(found))) return null
  const shortfall = tooMany ?? found
  findings.blocked = shortfall
  // Before the looks, so that the block stands even if they fail.
  await run.reconciliation.block(shortfall)
  run.progress.step(`Look up some of ${plural(missing, 'missing row')}`)
  await run.reconciliation.block(shortfall, await looksAtSome(context))
  run.progress.step(blockStep)
  const before = marked > 0 ? `, after searches had marked ${count(marked)} others,` : ''
  return `deletions blocked: ${count(missing)} of ${count(living)} rows disappeared from the upstream at once${before} and were not marked deleted. To review them: tidemark deletions list ${context.stream.name}. Or check the permissions of the integration user`
}

const blockedLookedAt = 20

/** Looks at some missing records, to help the person who decides. Marks and writes nothing. */
async function looksAtSome({ run, source, signal }: Reconcile): Promise<readonly MissingLook[]> {
  const { lookup } = source
  const looks: MissingLook[] = []
  if (!lookup) return looks
  for (const key of await run.absent.some(blockedLookedAt)) {
    signal.throwIfAborted()
    try {
      const answer = await lookup(key, signal)
      const isThere = typeof answer === 'object' && !isFlaggedDeleted(answer.found)
      looks.push({ key, answer: answer === 'unclear' ? 'unclear' : isThere ? 'there' : 'gone' })
    } catch {
      // The block is shown with the looks that worked.
      signal.throwIfAborted()
      break
    }
  }
  return looks
}

const markedLookedAt = 3

/** Learns it from the whole list, so also where the list cannot be asked by key. A record that a look does not show either tells nothing. */
async function learnWhetherListShowsDeleted(
  { run, source, signal, now }: Reconcile,
  { missing, seen }: Shortfall,
): Promise<void> {
  const { shown, hidden } = await run.absent.markedBySource(markedLookedAt)
  const found = (value: string, evidence: string) =>
    learn(run, [detected('list_shows_deleted', value, evidence)], now())
  if (shown > 0)
    return await found(
      'yes',
      `a reconcile was shown ${plural(shown, 'record')} that the source had marked as deleted`,
    )
  // A list that shows nothing for a while, or that rights hide a part of, lacks these for that reason.
  const isWhole = missing === 0 && seen > 0
  for (const key of isWhole ? hidden : []) {
    signal.throwIfAborted()
    const answer = await source.lookup?.(key, signal)
    if (typeof answer === 'object' && isFlaggedDeleted(answer.found))
      return await found(
        'no',
        `the list of a reconcile lacked record ${key}, which is there and marked as deleted`,
      )
  }
}

/** What follows from a comparison of everything. A list that showed no record, or looks that told nothing, prove nothing (P11). */
function whatWasCompared(
  { missedRows, alive, unclear }: Findings,
  twins: number,
  listed: number,
): readonly Detected[] {
  const records = plural(listed, 'record')
  const seen: Detected[] = []
  if (missedRows > 0 || alive > 0) {
    const differing = `${plural(missedRows, 'row')} came by the list alone, and the list lacked ${plural(alive, 'record')} that are there`
    seen.push(detected('list_shows_changes', 'no', differing))
  } else if (listed > 0 && unclear === 0)
    seen.push(detected('list_shows_changes', 'yes', `a reconcile of ${records} found both the same`))
  if (listed > 0) {
    const twice = `${twins === 0 ? 'no key' : plural(twins, 'key')} twice in answers with ${records}`
    seen.push(detected('keys_unique', twins === 0 ? 'yes' : 'no', twice))
  }
  if (missedRows > 0) {
    const late = `a reconcile found ${plural(missedRows, 'row')} that no look-back had brought`
    seen.push(detected('lateness', 'later', late))
  }
  return seen
}

/** Causes that have a part of the note to themselves. */
const toldElsewhere: readonly string[] = ['late', 'deleted']

function told(
  isComplete: boolean,
  findings: Findings,
  { counts, named, comparedAgain }: Differences['book'],
  why: string | null,
): RunReading {
  const { missedRows, samples, late, marked, alive, unclear } = findings
  const keys = samples.slice(0, keysTold).map(({ key }) => key)
  const parts = [
    missedRows > 0
      ? `${plural(missedRows, 'missed row')} (${keys.join(', ')}${missedRows > keysTold ? ', …' : ''})`
      : null,
    late > 0 ? `${late} late` : null,
    ...Object.entries(counts).map(([cause, rows]) =>
      toldElsewhere.includes(cause) ? null : `${count(rows)} ${cause}`,
    ),
    named.length > 0 ? volatileNote(named) : null,
    comparedAgain.length > 0 ? steadyNote(comparedAgain) : null,
    marked > 0 ? `${marked} marked deleted` : null,
    alive > 0 ? `${count(alive)} not listed but still there` : null,
    unclear > 0 ? `${unclear} could not be looked at` : null,
    why,
  ]
  return { isComplete, note: parts.filter(Boolean).join('; ') || null, differences: counts }
}

// ── why rows were missed ─────────────────────────────────────────────────────────────────────────────────────
// Perhaps the upstream cuts its answers before it sorts them: then a page looks sorted and leaves out rows below its last version, and
// the stream has to be read in small ranges from now on.

/** At most so many of the missed rows are asked for. */
const mostAsked = 3

async function lookForCut(context: Reconcile): Promise<void> {
  const { run, source, now, findings } = context
  const { beliefs, versionField } = run.state
  const isKnown = usable(beliefs, 'sorted_before_cut', now())?.value === 'no'
  if (isKnown || versionField === null || usable(beliefs, 'sorting', now())?.value !== 'proven') return
  const sorted = { ...context, source: source.sortedBy(versionField) }
  for (const { key, version } of findings.samples.slice(0, mostAsked)) {
    const evidence = version === null ? null : await leftOut(sorted, key, version)
    if (evidence === null) continue
    await run.findings.learn([{ ...detected('sorted_before_cut', 'no', evidence), testedAt: now() }])
    return
  }
}

/** A sorted page that begins half a page below the row has to show the row, or end before it. Returns the evidence if it does neither. */
async function leftOut(
  { source, stream, store, pageSize, signal }: ReconcileContext,
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
