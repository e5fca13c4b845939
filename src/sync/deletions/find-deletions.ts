// Finds records that vanished from the upstream without a word. Each minute the rank probe asks for one record; where that says that
// something vanished, or where ranks cannot be believed, the sweep compares slices of the list with the rows. Both only raise suspects: a row
// is marked when a look at the record itself says that it is gone (P7). That is done for a few. When more are missing, none is marked before a
// reconcile has compared the whole list.

import type { Json, JsonObject } from '../../json/json.ts'
import { versionedBy } from '../../streams/catalog.ts'
import { isFlaggedDeleted, isObject, keyReader, toInt64 } from '../../streams/record.ts'
import { plural } from '../../util/text.ts'
import { parsedRecords } from '../../wire/record-page.ts'
import { type Detected, detected, learn, usable } from '../capabilities.ts'
import { KeyOrderBroken, keyListing, keyOrderOf } from '../lists/by-key.ts'
import { performRun, type ReadingContext, type RunOutcome, type RunReading } from '../perform-run.ts'
import type { SortOrder } from '../ports/source.ts'
import { countListed, probeRanks, type RankSides } from './rank-probe.ts'
import { bring, decide, lookAt, mostAtOnce, openSearch, type Search } from './search.ts'
import { sweep } from './sweep.ts'

/** Of records that lists hide, so many are looked up in each run: one of them may vanish, too. */
const mostHiddenLooks = 20
/** Of rows that were marked by parts of the list, so many are looked up in each run, until each was. */
const mostConfirmed = 40
/** A slice is swept this often although the rank probe finds nothing: one vanished and one unknown record cancel each other. */
const sweepEveryMs = 600_000
/** One vanished and one unknown record cancel each other in ranks, too: so often another place is compared. */
const spotEveryMinutes = 5
/** The end of the list is asked for in a page of so many at most. */
const mostOfEnd = 4
/** No list is as long as this. */
const farBehind = 2_000_000_000

export function findDeletions(context: ReadingContext): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'deletions' }, async (run, source) => {
    if (!source.lookup || !source.listHasPages) return done('the upstream offers no look at one record')
    const stream = versionedBy(context.stream, run.state.versionField)
    if (run.state.inconclusiveRuns > 0) return done(waitsForPolls, false)
    const counts = await run.shown.counts()
    if (counts === null || counts.living === 0) return done(null)
    const search = await openSearch({ ...context, source, stream }, run, counts)
    try {
      const reading = await findAll(search)
      return { ...reading, wantsReconcile: search.wantsReconcile }
    } catch (error) {
      if (!(error instanceof KeyOrderBroken)) throw error
      await believe(search, detected('key_order', 'ignored', error.message))
      return done(notByKey)
    }
  })
}

const waitsForPolls = 'the last poll was shown nothing that is known, so what is missing proves nothing'

const notByKey =
  'the list is not sorted and filtered by key: vanished records are found by the next reconcile'

const done = (note: string | null, isComplete = true): RunReading => ({ isComplete, note })

async function findAll(search: Search): Promise<RunReading> {
  const { run, now } = search
  if ((await keyOrderOf(search)).order !== 'honoured') return done(notByKey)
  const withDeleted = await showsDeleted(search)
  const ranked =
    (await ranksOf(search)) === 'trusted' ? await findByRank(search, withDeleted) : nothingSettled
  if (ranked.blocked !== null) return done(ranked.blocked, false)
  const { isSettled } = ranked
  if (search.before.mustLookAgain) {
    await lookAt(search, await run.shown.hiddenKeys(mostHiddenLooks))
    // Lists may have begun to hide one of them just when the others went: it lives again.
    await lookAt(search, await run.shown.markedByParts(mostConfirmed))
  }
  const { sweepBeganAt } = search.before
  const isSweepDue = sweepBeganAt === null || now().getTime() - sweepBeganAt.getTime() > sweepEveryMs
  if (!isSettled || isSweepDue) {
    const blocked = await sweep(search, withDeleted, isSettled)
    if (blocked !== null) return done(blocked, false)
    if (ranked.isOverwhelmed && search.isSweptWhole && search.missing < mostAtOnce)
      await distrustRanks(search)
  }
  const { marked, brought } = search
  const parts = [marked > 0 ? `${marked} gone` : null, brought > 0 ? `${brought} brought by the list` : null]
  return done(parts.filter(Boolean).join('; ') || null)
}

const believe = ({ run, now }: Search, belief: Detected): Promise<void> => learn(run, [belief], now())

// ── what the list does ───────────────────────────────────────────────────────────────────────────────────────

/** Whether the list shows records that the source itself marks as deleted. */
async function showsDeleted(search: Search): Promise<boolean> {
  const known = usable(search.run.state.beliefs, 'list_shows_deleted', search.now())
  if (known) return known.value === 'yes'
  const { living, withDeleted } = search.counts
  if (living === withDeleted) return true
  const key = await search.run.shown.someDeleted()
  if (key === null) return true
  // Any list lacks a record that is gone, or hidden from the user: that tells nothing about records that are marked.
  const answer = await search.source.lookup?.(String(key), search.signal)
  if (typeof answer !== 'object' || !isFlaggedDeleted(answer.found)) return true
  const { keys } = await keyListing(search).ask({ after: key - 1n, page: 1, pageSize: 1 })
  const isShown = keys[0] === key
  const evidence = `asked for what is behind key ${key - 1n}, of a record that is marked deleted, it served ${keys[0] ?? 'nothing'}`
  await believe(search, detected('list_shows_deleted', isShown ? 'yes' : 'no', evidence))
  return isShown
}

/**
 * Whether the N-th record of the list can be asked for: an upstream that shows its last page for ever has a record in every place, and
 * where pages are cut, the N-th page of so many records begins elsewhere.
 */
async function ranksOf(search: Search): Promise<string> {
  // Two records of one key have two places, and are one row.
  if (usable(search.run.state.beliefs, 'keys_unique', search.now())?.value === 'no') return 'not trusted'
  const known = usable(search.run.state.beliefs, 'ranks', search.now())
  return known ? known.value : await testRanks(search)
}

async function testRanks(search: Search): Promise<string> {
  // Rights may hide the record at one end, and the last page that is shown for ever would be empty.
  const served =
    (await askRank(search, farBehind)).records.length ||
    (await askPage(search, farBehind, 1, 'descending')).records.length
  const { length } = (await askPage(search, 1, mostOfEnd)).records
  // Where no second page is shown at the moment, nothing says what comes far behind the end at other times.
  if (length > 1 && (await askRank(search, 2)).records.length === 0) return 'not trusted'
  const isCut = length < mostOfEnd && (await askRank(search, length + 1)).records.length > 0
  const value = served > 0 || isCut ? 'not trusted' : 'trusted'
  const evidence = `asked for record ${farBehind} of the list, it served ${served}; for the first ${mostOfEnd}, ${length}${isCut ? ' although there are more' : ''}`
  await believe(search, detected('ranks', value, evidence))
  return value
}

const askPage = (
  { source, keyField, signal }: Search,
  page: number,
  pageSize: number,
  order: SortOrder = 'ascending',
) => source.list({ page, pageSize, byKey: { field: keyField, after: null, order } }, signal)

const askRank = (search: Search, rank: number) => askPage(search, rank, 1)

// ── the rank probe ───────────────────────────────────────────────────────────────────────────────────────────

type Ranked = {
  /** Everything up to our highest key has been explained. */
  readonly isSettled: boolean
  readonly blocked: string | null
  /** There are more differences than the rank probe explains. */
  readonly isOverwhelmed?: boolean
}
const nothingSettled: Ranked = { isSettled: false, blocked: null }

/** Each place of the list, and each of our rows, is asked for once. */
function rankSides(search: Search, withDeleted: boolean): RankSides {
  const { run, keyField, signal, listed } = search
  const readKey = keyReader([keyField])
  const keyOf = (record: Json | undefined) =>
    isObject(record) ? toInt64(readKey(record) ?? undefined) : null
  const count = search.counts[withDeleted ? 'withDeleted' : 'living']
  const known = new Map<number, bigint | null>()
  const mine = new Map<number, bigint | null>()
  const note = (rank: number, key: bigint | null) => {
    if (key !== null) listed.show([key])
    known.set(rank, key)
  }
  async function ours(rank: number): Promise<bigint | null> {
    const key = mine.get(rank) ?? (await run.shown.keyAt(rank, withDeleted))
    mine.set(rank, key)
    return key
  }
  /** Mostly our last row is in its place and nothing stands behind it. One page shows that: the smallest that holds both places. */
  async function askForEnd(): Promise<void> {
    let pageSize = 2
    while (count % pageSize === 0) pageSize++
    if (pageSize > mostOfEnd) return
    const last = (count - 1) % pageSize
    const { records } = await askPage(search, 1 + Math.floor((count - 1) / pageSize), pageSize)
    const keys = parsedRecords(records).map(keyOf)
    if (keys.length > last + 2 || keys.includes(null) || keys[last] !== (await ours(count))) return
    // Rights may hide a record before it, and one that is unknown here stand in its place.
    if (last > 0 && keys[0] !== (await ours(count - last))) return
    note(count, keys[last] ?? null)
    note(count + 1, keys[last + 1] ?? null)
  }
  return {
    count,
    ours,
    async theirs(rank) {
      signal.throwIfAborted()
      if (rank === count && !known.has(rank)) await askForEnd()
      const before = known.get(rank)
      if (before !== undefined) return before
      const [record] = (await askRank(search, rank)).records
      const key = keyOf(record)
      note(rank, key)
      return key
    },
  }
}

async function findByRank(search: Search, withDeleted: boolean, isAgain = false): Promise<Ranked> {
  const { run } = search
  run.progress.step('Search for vanished records by rank')
  const sides = rankSides(search, withDeleted)
  const tooManyByRank = await decideBySize(search, sides)
  if (tooManyByRank !== null) return { ...nothingSettled, blocked: tooManyByRank }
  const seconds = Math.floor(search.now().getTime() / 1_000)
  const isThorough = Math.floor(seconds / 60) % spotEveryMinutes === 0
  const found = await probeRanks(sides, mostAtOnce, 1 + (seconds % Math.max(1, sides.count)), isThorough)
  // Behind its last place the list showed a record again. Either it has no end, which is tested now, or a record came in between just now.
  if (found.repeats) {
    await testRanks(search)
    return nothingSettled
  }
  // There are too many differences for this, or they cancel each other: whether they are real, the sweep finds out.
  if (!found.isWhole)
    return { ...nothingSettled, isOverwhelmed: found.vanished.length + found.unknown.length > 0 }
  // Rows that the source had marked as deleted before do not count: that they go is no news.
  const blocked = await decide(search, await run.shown.countLiving(found.vanished))
  if (blocked !== null) return { ...nothingSettled, blocked }
  const looked = await lookAt(search, found.vanished)
  const unexplained = looked.unclear + (await fetchUnknown(search, found.unknown))
  // A record that ranks called vanished and that is there: others went while they were counted, which a second count shows. Or else rights
  // may hide it from lists, or pages may have gaps.
  if (looked.alive > 0 && !isAgain) {
    search.counts = (await run.shown.counts()) ?? search.counts
    return await findByRank(search, withDeleted, true)
  }
  if (looked.alive > 0) {
    const evidence = `${looked.alive} of ${found.vanished.length} records that the ranks called vanished are there`
    await believe(search, detected('ranks', 'not trusted', evidence))
    return nothingSettled
  }
  if (unexplained === 0) await run.shown.ranksAgree()
  else await run.shown.ranksDiffer(unexplained)
  if (search.before.isBlocked) await run.shown.block(null)
  const evidence = `${plural(found.compared, 'place')} of the list compared: each held our row, or what vanished explains it`
  await believe(search, detected('ranks', 'trusted', evidence))
  return { isSettled: unexplained === 0, blocked: null }
}

/**
 * Writes records that the list has and we have no row of, whatever kept them from coming through polls. Returns of how many a look told
 * nothing: each of them may hide one that vanished.
 */
async function fetchUnknown(search: Search, keys: readonly bigint[]): Promise<number> {
  const found: JsonObject[] = []
  for (const key of keys) {
    const answer = await search.source.lookup?.(String(key), search.signal)
    if (typeof answer === 'object') found.push(answer.found)
  }
  await bring(search, found)
  return keys.length - found.length
}

/** When many vanished, finds their number before any is marked (P7). Returns why none is looked at here; null: they are few. */
async function decideBySize(search: Search, sides: RankSides): Promise<string | null> {
  const missing = sides.count - (await countListed(sides))
  // Rows that the source had marked as deleted before may be among them: that they go is no news.
  const ofLiving = missing - Math.max(0, sides.count - search.living)
  return await decide(search, ofLiving)
}

/** A record that the user may not see counts in ranks, but its place in the list is empty: so ranks call rows vanished that are there. */
function distrustRanks(search: Search): Promise<void> {
  const evidence = `the ranks told of more than ${mostAtOnce} differences, and the list itself of ${search.missing}`
  return believe(search, detected('ranks', 'not trusted', evidence))
}
