// The reconcile of a changes stream: everything is listed, to find what other runs cannot: rows that were missed, and rows
// whose records are gone. What is gone is believed only when a look at the record itself confirms it (P7).

import type { Json, JsonObject } from '../../json/json.ts'
import { versionedBy } from '../../streams/catalog.ts'
import { isFlaggedDeleted, readRecords } from '../../streams/record.ts'
import { plural } from '../../util/text.ts'
import { currentLookback, measureLateness, mostRecorded } from '../changes/lookback.ts'
import type { ChangesContext } from '../changes/read-changes.ts'
import { listEverything } from '../lists/read-whole.ts'
import { performRun, type RunOutcome, type RunReading } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import {
  type Arrival,
  type Gone,
  isDoubtful,
  type Run,
  type Shortfall,
  type Written,
} from '../ports/store.ts'

export type ReconcileContext = ChangesContext & {
  readonly lookbackFloorMs: number
  /** An operator believes that so many rows are gone, although the listing is empty or has shrunk by more than a fifth; 0: nobody does. */
  readonly approved: number
}
type ReconcileFindings = {
  /** Rows at or below the position that nothing else had brought, the first of them by key. */
  readonly missedRows: number
  readonly samples: readonly Arrival[]
  /** Versions that came late, within the look-back: the look-back run would have found them as well. */
  readonly late: number
  readonly missing: number
  readonly marked: number
  /** Missing from the listing, but there when looked at; or the look told nothing. */
  readonly alive: number
  readonly unclear: number
  readonly blocked: Shortfall | null
}
export type ReconcileOutcome = RunOutcome & { readonly findings: ReconcileFindings }

/** More are counted, not named. */
const mostSamples = 1000
const keysTold = 20
const keysAtOnce = 200
const looksAtOnce = 4

type Findings = { -readonly [Name in keyof ReconcileFindings]: ReconcileFindings[Name] }

export async function reconcileStream(context: ReconcileContext): Promise<ReconcileOutcome> {
  const findings: Findings = {
    missedRows: 0,
    samples: [],
    late: 0,
    missing: 0,
    marked: 0,
    alive: 0,
    unclear: 0,
    blocked: null,
  }
  const outcome = await performRun({ ...context, kind: 'reconcile' }, (run, counted) =>
    reconcile(
      { ...context, stream: versionedBy(context.stream, run.state.versionField) },
      run,
      counted,
      findings,
    ),
  )
  return { ...outcome, findings }
}

async function reconcile(
  context: ReconcileContext,
  run: Run<'reconcile'>,
  source: Source,
  findings: Findings,
): Promise<RunReading> {
  const { pageSize, signal, stream } = context
  const arrivals = await openArrivalNotes(context, run, findings)
  const read = (records: readonly Json[]) => readRecords(records, stream.keyFields, stream.versionFields)
  const listing = { source, run, read, pageSize, signal, keyField: stream.keyFields[0] ?? '' }
  const listed = await listEverything({ ...listing, now: context.now }, async (page) => {
    await arrivals.note(await run.pages.commit(page, null))
  })
  if (!listed.isProven)
    return reading(
      false,
      findings,
      `the list changed while it was read, ${listed.passes} times in a row, so no row was marked deleted`,
    )
  const shortfall = await run.absent.gather()
  findings.missing = shortfall.missing
  if (shortfall.missing > context.approved && isDoubtful(shortfall)) {
    findings.blocked = shortfall
    await run.reconciliation.block(shortfall)
    return reading(
      false,
      findings,
      `deletions blocked: ${shortfall.missing} of ${shortfall.living} rows disappeared from the upstream at once and were not marked deleted. To review them: tidemark deletions list ${stream.name}. Or check the permissions of the integration user`,
    )
  }
  await lookAtAbsent(context, run, source, findings, arrivals.note)
  findings.marked = await run.absent.markGone()
  await run.reconciliation.block(null)
  await run.reconciliation.guardAgain()
  // What the list lacked and is there, or may be, shows that the list is not whole.
  const isWhole = findings.alive === 0 && findings.unclear === 0
  return {
    ...reading(true, findings, null),
    knowsDeletions: findings.unclear === 0,
    ...(isWhole && arrivals.settled && { settled: arrivals.settled }),
  }
}

function reading(isComplete: boolean, findings: Findings, why: string | null): RunReading {
  const { missedRows, samples, late, marked, unclear } = findings
  const keys = samples.slice(0, keysTold).map(({ key }) => key)
  const parts = [
    missedRows > 0
      ? `${plural(missedRows, 'missed row')} (${keys.join(', ')}${missedRows > keysTold ? ', …' : ''})`
      : null,
    late > 0 ? `${late} late` : null,
    marked > 0 ? `${marked} marked deleted` : null,
    unclear > 0 ? `${unclear} could not be looked at` : null,
    why,
  ]
  return { isComplete, yielded: false, note: parts.filter(Boolean).join('; ') || null }
}

type ArrivalNotes = {
  readonly note: (written: Written) => Promise<void>
  /** What is settled when the whole list has been compared: no transaction that began before then is expected any more. */
  readonly settled: { readonly version: bigint; readonly at: Date } | null
}

/** Tells missed rows from what the incremental run has not reached yet, and from what is late by no more than usual. */
async function openArrivalNotes(
  { store, stream, now, lookbackFloorMs }: ReconcileContext,
  run: Run<'reconcile'>,
  findings: Findings,
): Promise<ArrivalNotes> {
  const { lookbackMs } = run.state
  // Of a table that others changed nothing is missed or late: it is read again.
  const position = run.state.isLocallyChanged ? 0n : run.state.position
  const past = new Date(now().getTime() - currentLookback(lookbackMs, lookbackFloorMs))
  // A stream younger than its look-back has no excuse yet.
  const held = await store.history.positionAt(stream.name, past)
  const settled = held ?? position

  async function note({ arrivals }: Written) {
    const missed = arrivals.filter(({ version }) => version !== null && version <= position)
    const missedRows = missed.filter(({ version }) => version !== null && version <= settled)
    const late = missed.filter(({ version }) => version !== null && version > settled)
    if (late.length > 0) {
      // As many are noted as tell how late rows come; the rest are counted.
      const noted = late.slice(0, Math.max(0, mostRecorded - findings.late))
      findings.late += late.length
      await run.findings.recordLateArrivals(
        await measureLateness(store.history, stream.name, noted, run.state, now()),
      )
    }
    if (missedRows.length === 0) return
    findings.missedRows += missedRows.length
    findings.samples = [...findings.samples, ...missedRows].slice(0, mostSamples)
    // At once: a reconcile that is killed has written them all the same.
    await run.reconciliation.recordMissedRows(findings.missedRows, findings.samples)
  }
  return { note, settled: held === null ? null : { version: held, at: past } }
}

async function lookAtAbsent(
  { stream, signal }: ReconcileContext,
  run: Run<'reconcile'>,
  { lookup }: Source,
  findings: Findings,
  note: (written: Written) => Promise<void>,
): Promise<void> {
  if (!lookup)
    throw new Error(
      `The upstream has no request for a single record of ${stream.name}, so no deletion can be proven.`,
    )
  for await (const keys of batches((after) => run.absent.keys(after, keysAtOnce))) {
    for (let start = 0; start < keys.length; start += looksAtOnce) {
      signal.throwIfAborted()
      const looks = keys.slice(start, start + looksAtOnce).map(async (key) => ({
        key,
        answer: await lookup(key, signal),
      }))
      const gone: Gone[] = []
      const found: JsonObject[] = []
      for (const { key, answer } of await Promise.all(looks)) {
        if (answer === 'unclear') findings.unclear += 1
        else if (answer === 'gone')
          gone.push({
            key,
            evidence: 'missing from the list, and the upstream says that there is no record of this id',
          })
        else {
          found.push(answer.found)
          if (isFlaggedDeleted(answer.found))
            gone.push({
              key,
              evidence: 'missing from the list, and the record itself says that it is deleted',
            })
          else findings.alive += 1
        }
      }
      if (found.length > 0)
        await note(await run.pages.commit(readRecords(found, stream.keyFields, stream.versionFields), null))
      if (gone.length > 0) await run.absent.noteGone(gone)
    }
  }
}

/** Keys in their order, some at a time. */
export async function* batches(
  next: (after: string | null) => Promise<readonly string[]>,
): AsyncGenerator<readonly string[]> {
  for (let after: string | null = null; ; ) {
    const keys = await next(after)
    if (keys.length === 0) return
    yield keys
    after = keys.at(-1) ?? null
  }
}
