// Gives each difference that a reconcile finds its cause, and each cause its cure (P16). The listed records are written already. Here
// differences are counted, a few lines of each cause are kept, late versions teach the look-back, and records that fell back are looked
// at one by one.

import type { JsonObject } from '../../json/json.ts'
import { type Records, readRecords } from '../../streams/record.ts'
import { sharedKey, usableFields } from '../../streams/twins.ts'
import { plural } from '../../util/text.ts'
import { usable } from '../capabilities.ts'
import { causeOf, twinsIn } from '../changes/causes.ts'
import {
  currentLookback,
  type LookbackContext,
  measureLateness,
  mostRecorded,
  nextLookback,
} from '../changes/lookback.ts'
import { findVolatile, openSteadyFields } from '../changes/volatile.ts'
import type { Listed } from '../lists/read-whole.ts'
import type { Arrival, Cause, CausedDifference, Difference } from '../ports/audits.ts'
import type { Belief, LateArrival, Run, Written } from '../ports/store.ts'

export type Differences = Awaited<ReturnType<typeof openDifferences>>

/** Rows at or below the position that nothing else had brought, and what the look-back run would have found as well. */
export type Missed = { missedRows: number; samples: readonly Arrival[]; late: number }

/** Lines of one cause that a run keeps; more are counted. */
const mostLines = 1_000
/** More missed rows are counted, not named. */
const mostSamples = 1_000
const mostTwins = 10_000
const mostVolatilityTests = 3
/** Records that fell back and are looked at singly. */
const mostLooks = 100

type Book = Awaited<ReturnType<typeof openBook>>

type Context = LookbackContext & { readonly run: Run<'reconcile'> }

async function openBook(context: Context, missed: Missed) {
  const { run, store, stream, now, lookbackFloorMs } = context
  const { lookbackMs, beliefs, isLocallyChanged, startedAt } = run.state
  // In a table that somebody changed here no row counts as missed or late: everything is read again anyway.
  const position = isLocallyChanged ? 0n : run.state.position
  // What is settled has to be true also where the clock of this machine is ahead.
  const nowMs = Math.min(now().getTime(), startedAt.getTime())
  const past = new Date(nowMs - currentLookback(lookbackMs, lookbackFloorMs))
  const held = await store.history.positionAt(stream.name, past)
  return {
    context,
    run,
    missed,
    position,
    lookbackMs,
    /** The position passed versions up to here longer than a look-back ago: one that comes only now was missed, and is not late. */
    readLongAgo: held ?? thereAtFirst(beliefs, position, now()),
    /** What is settled when the whole list has been compared: no transaction that began before then is expected any more. */
    settled: held === null ? null : { version: held, at: past },
    counts: {} as Partial<Record<Cause, number>>,
    lines: new Map<Cause, number>(),
    twins: new Set<string>(),
    fallen: new Map<string, Difference>(),
    fallenCount: 0,
    /** Rows that differed at the same version, by column. */
    silentRows: new Map<string, number>(),
    testedColumns: new Set<string>(),
    volatilityTests: 0,
    volatileColumns: new Set<string>(),
    /** Fields that this run found to be volatile. */
    named: [] as string[],
    steady: openSteadyFields(await run.reconciliation.volatileFields(), now()),
    /** Fields that it found to be volatile no more. */
    comparedAgain: [] as readonly string[],
  }
}

export async function openDifferences(context: Context, missed: Missed) {
  const { run } = context
  const book = await openBook(context, missed)
  // Pages may be written side by side; they are noted one after the other.
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }
  return {
    book: book as Readonly<Pick<Book, 'counts' | 'named' | 'comparedAgain' | 'settled'>>,
    /** After a page was written. */
    note: (written: Written, page: Records) => inTurn(() => notePage(book, written, page)),
    /** Of rows whose records are gone, as an answer about each of them says. `all`: how many there are, if these are only some. */
    noteGone: (keys: readonly string[], all = keys.length) => inTurn(() => noteGone(book, keys, all)),
    /** When all is listed: how many records came, in how many passes. */
    async end({ isProven, passes, received }: Listed) {
      await lookAtFallen(book)
      if (!isProven) return
      if (book.fallenCount === book.fallen.size) await run.reconciliation.noteMended([...book.fallen.keys()])
      await noteOftenSilent(book, received / passes)
      book.comparedAgain = await run.reconciliation.noteSteady(book.steady.looks())
    },
  }
}

async function noteGone(book: Book, keys: readonly string[], all: number): Promise<void> {
  const line = {
    cause: 'deleted',
    columns: [],
    version: null,
    mirrored: null,
    isCured: false,
    cure: null,
  } as const
  await record(
    book,
    'deleted',
    keys.map((key) => ({ ...line, key })),
  )
  book.counts.deleted = (book.counts.deleted ?? 0) + all - keys.length
}

/** For a stream younger than its look-back: what its first load should have shown was missed; what came since may be late. */
function thereAtFirst(beliefs: readonly Belief[], position: bigint, now: Date): bigint {
  const top = BigInt(usable(beliefs, 'first_top', now)?.value ?? position)
  return top < position ? top : position
}

async function notePage(book: Book, { arrivals }: Written, page: Records): Promise<void> {
  book.steady.see(page)
  await noteTwins(book, page)
  const others = arrivals.filter(({ key }) => !book.twins.has(key))
  const groups = Map.groupBy(others, (one) => causeOf(one, book.position))
  for (const [cause, found] of groups) {
    if (cause === null) continue
    if (cause === 'fell back') noteFallen(book, found)
    else if (cause === 'silent') await noteSilent(book, found)
    else await record(book, cause, found.map(asLine(cause)))
    if (cause === 'late') await noteLate(book, found)
  }
}

const asLine =
  (cause: Cause) =>
  ({ key, columns, version, mirrored, isWritten }: Arrival): CausedDifference => ({
    key,
    cause,
    columns,
    version,
    mirrored,
    isCured: isWritten,
    cure: isWritten ? 'written as the list shows it' : null,
  })

/** Counts all of them, and keeps some. */
async function record(book: Book, cause: Cause, found: readonly CausedDifference[]): Promise<void> {
  if (found.length === 0) return
  const kept = book.lines.get(cause) ?? 0
  const lines = found.slice(0, mostLines - kept)
  book.counts[cause] = (book.counts[cause] ?? 0) + found.length
  book.lines.set(cause, kept + lines.length)
  await book.run.findings.recordDifferences(lines)
}

/** The row holds one of them: the one that came last, or has the highest version. To compare it with the others would tell nothing. */
async function noteTwins(book: Book, { rows }: Records): Promise<void> {
  const found = [...twinsIn(rows)].filter((key) => !book.twins.has(key))
  if (found.length === 0) return
  for (const key of found) if (book.twins.size < mostTwins) book.twins.add(key)
  const versionOf = new Map(rows.map(({ key, version }) => [key, version]))
  await record(
    book,
    'twin',
    found.map((key) => ({
      key,
      cause: 'twin',
      columns: [],
      mirrored: null,
      isCured: false,
      cure: null,
      version: versionOf.get(key) ?? null,
    })),
  )
}

// ── late: the only cause that teaches the look-back ──────────────────────────────────────────────────────────

async function noteLate(book: Book, found: readonly Arrival[]): Promise<void> {
  const { run, missed, readLongAgo } = book
  const isMissed = ({ version }: Arrival) => version !== null && version <= readLongAgo
  const [missedRows, late] = [found.filter(isMissed), found.filter((one) => !isMissed(one))]
  if (late.length > 0) {
    // Enough are measured to tell how late rows come; the rest are only counted.
    const noted = late.slice(0, Math.max(0, mostRecorded - missed.late))
    missed.late += late.length
    const lateness = await measure(book, noted, run.state.lastLookbackAt)
    await run.findings.recordLateArrivals(lateness)
    await teach(book, lateness)
  }
  if (missedRows.length === 0) return
  const noted = missedRows.slice(0, Math.max(0, mostSamples - missed.missedRows))
  missed.missedRows += missedRows.length
  missed.samples = [...missed.samples, ...noted]
  // At once: if this reconcile is killed, the rows are written already, and no other run would find that they were missed.
  await run.reconciliation.recordMissedRows(missed.missedRows, missed.samples)
  // No look-back reaches back that far, so they may have come at any time until now.
  await teach(book, await measure(book, noted, null))
}

function measure({ context, run }: Book, found: readonly Arrival[], lastLookbackAt: Date | null) {
  const { store, stream, now } = context
  return measureLateness(store.history, stream.name, found, { ...run.state, lastLookbackAt }, now())
}

/** Makes the look-back longer, and at once. Only look-back runs themselves make it shorter. */
async function teach(book: Book, late: readonly LateArrival[]): Promise<void> {
  const { lookbackFloorMs } = book.context
  const next = late.length > 0 ? nextLookback(book.lookbackMs, lookbackFloorMs, late) : null
  if (!next || next.lookbackMs <= currentLookback(book.lookbackMs, lookbackFloorMs)) return
  await book.run.findings.setLookback(next.lookbackMs, next.reason, book.lookbackMs)
  book.lookbackMs = next.lookbackMs
}

// ── silent and volatile: other content at the same version ───────────────────────────────────────────────────

async function noteSilent(book: Book, found: readonly Arrival[]): Promise<void> {
  for (const { columns } of found)
    for (const column of columns) book.silentRows.set(column, (book.silentRows.get(column) ?? 0) + 1)
  await testColumns(book, found)
  const isVolatile = ({ columns }: Arrival) => columns.every((column) => book.volatileColumns.has(column))
  const [again, once] = [found.filter(isVolatile), found.filter((one) => !isVolatile(one))]
  if (again.length > 0) await record(book, 'volatile', again.map(asLine('volatile')))
  if (once.length > 0) await record(book, 'silent', once.map(asLine('silent')))
}

/** At once, so that pages to come are not written for nothing. */
async function testColumns(book: Book, found: readonly Arrival[]): Promise<void> {
  const untested = found.filter(({ columns }) => columns.some((column) => !book.testedColumns.has(column)))
  if (untested.length === 0 || book.volatilityTests >= mostVolatilityTests) return
  book.volatilityTests += 1
  for (const { columns } of untested) for (const column of columns) book.testedColumns.add(column)
  const named = await findVolatile(
    book.context,
    untested.map(({ key }) => key),
  )
  for (const { field, column } of named) {
    book.named.push(field)
    book.volatileColumns.add(column)
  }
}

/** For fields that change too slowly for two looks in a row, such as an address that is signed anew each day. */
async function noteOftenSilent(book: Book, records: number): Promise<void> {
  const often = [...book.silentRows].filter(
    ([column, rows]) => rows * 2 >= records && column !== '_deleted_at',
  )
  const named = await book.run.reconciliation.noteSilent(often.map(([column]) => column))
  book.named.push(...named.map(({ field }) => field))
}

// ── fell back: a lower version than the row has ──────────────────────────────────────────────────────────────

function noteFallen(book: Book, found: readonly Arrival[]): void {
  for (const difference of found) {
    if (book.fallen.has(difference.key)) continue
    book.fallenCount += 1
    if (book.fallen.size < mostLooks) book.fallen.set(difference.key, difference)
  }
}

/**
 * The record itself is asked: it may have changed between its page and now, or the list lags. What fell is pinned: the look-backs look
 * at it again, and know whether it is one row to mend or a backup that was restored (P14).
 */
async function lookAtFallen(book: Book): Promise<void> {
  const looks = [...book.fallen.keys()]
  if (looks.length > 0)
    book.run.progress.step(`Look at ${plural(looks.length, 'record')} with a lower version`)
  const fallen: Difference[] = []
  const twins: Difference[] = []
  for (const key of looks) {
    const found = await lookAgain(book, key)
    if (!found) continue
    const other = await otherServed(book, found.difference)
    ;(other ? twins : fallen).push(found.difference)
    // The row holds the other record, so this one goes into quarantine (P5).
    if (other) await setAside(book, found.record, twinReason(found.record, other))
  }
  const line = (cause: Cause, cure: string | null) => (difference: Difference) => ({
    ...difference,
    cause,
    cure,
    isCured: false,
  })
  await record(book, 'twin', twins.map(line('twin', null)))
  await book.run.pinned.pinNext(
    fallen.map(({ key, mirrored }) => ({ key, version: mirrored ?? 0n })),
    0,
  )
  await record(
    book,
    'fell back',
    fallen.map(line('fell back', 'pinned: mended when it is still so minutes later')),
  )
  // Those that were not looked at are counted as if they had fallen too.
  if (fallen.length > 0)
    book.counts['fell back'] = (book.counts['fell back'] ?? 0) + book.fallenCount - looks.length
}

const twinReason = (record: JsonObject, other: JsonObject): string =>
  sharedKey([[record, other]], usableFields([{ record }, { record: other }]), null)

const setAside = ({ run }: Book, record: JsonObject, reason: string) =>
  run.pages.commit({ rows: [], rejected: [{ record, reason }] }, null)

async function lookAgain({ context, run, position }: Book, key: string) {
  const { source, stream, signal } = context
  signal.throwIfAborted()
  const answer = await source.lookup?.(key, signal)
  if (answer === undefined || typeof answer === 'string') return null
  const page = readRecords([answer.found], stream.keyFields, stream.versionFields)
  const [difference] = await run.reconciliation.compare(page)
  return difference && causeOf(difference, position) === 'fell back'
    ? { difference, record: answer.found }
    : null
}

/** Asks for the record that the row holds. If it is served too, two records have one key. */
async function otherServed(
  { context: { source, stream, signal } }: Book,
  { key, mirrored }: Difference,
): Promise<JsonObject | null> {
  if (mirrored === null) return null
  const request = { since: mirrored - 1n, page: 1, pageSize: 100, sorts: 'ascending' } as const
  const answer = await source.changes(request, signal)
  if ('refused' in answer) return null
  const { rows } = readRecords(answer.records, stream.keyFields, stream.versionFields)
  return rows.find((row) => row.key === key && row.version === mirrored)?.record ?? null
}
