// Tests what is believed of a changes stream by asking its upstream, with a few dozen small requests. The probe is the run that does so,
// and records it. Each test can fail; one that can neither confirm nor refute says why. What only runs can see (how late records come, whether ranks hold) is not
// asked here.

import { type JsonObject, ownValue } from '../../json/json.ts'
import type { BeliefName } from '../../streams/beliefs.ts'
import { type ChangesStream, versionedBy } from '../../streams/catalog.ts'
import {
  fieldNames,
  fingerprint,
  int64,
  isFlaggedDeleted,
  type Row,
  readRecords,
} from '../../streams/record.ts'
import { plural } from '../../util/text.ts'
import type { RecordList } from '../../wire/record-page.ts'
import { type Detected, detected, type Verdict } from '../capabilities.ts'
import { judge, proofQuestions } from '../changes/proof-of-sorting.ts'
import { versionsOf } from '../changes/state.ts'
import { askChanges, findVersionField, NoVersionField } from '../changes/version-field.ts'
import { keyListing, testKeyOrder } from '../lists/by-key.ts'
import { farBehind, pageAgain } from '../lists/page-ends.ts'
import { performRun, type ReadingContext, type RunOutcome } from '../perform-run.ts'
import type { SortOrder, Source } from '../ports/source.ts'
import type { Run, Store } from '../ports/store.ts'

/** What one test saw. Value null: it could not tell, and `evidence` says why. */
export type Tested = Omit<Detected, 'value'> & { readonly value: string | null }
/** Rows that are stored, of different ages. */
type KnownRow = { readonly key: string; readonly version: bigint }
export type Asked = Pick<ReadingContext, 'source' | 'stream' | 'versionField' | 'signal'> & {
  readonly rows: readonly KnownRow[]
}

const sampleSize = 100
const pageSize = 5
const mostLookedAt = 3

export type SamplePage = { readonly received: number; readonly rows: readonly Row[] }
type Test = Asked & {
  readonly keyField: string
  /** A page from the beginning, in the upstream's own order. */
  readonly sample: SamplePage
  readonly ask: AskPage
}
type AskPage = (since: bigint, size: number, sorts: SortOrder | null) => Promise<SamplePage | null>

/** Rejects when the upstream fails, and when no field answers to `neworchanged`. */
export async function* testBeliefs(asked: Asked): AsyncGenerator<Tested> {
  const { source, signal, versionField } = asked
  const found = await findVersionField(askChanges(source, signal), asked.stream, versionField)
  if (found.kind === 'none') throw new NoVersionField(asked.stream, found.evidence)
  if (found.kind === 'empty') return yield untold('version_field', isEmpty)
  yield { name: 'version_field', value: found.field, evidence: found.evidence }
  const stream = versionedBy(asked.stream, found.field)
  const ask = pageAsker(source.sortedBy(found.field), stream, signal)
  const sample = await ask(0n, sampleSize, null)
  if (sample === null || sample.rows.length === 0) return yield untold('sorting', isEmpty)
  const test: Test = { ...asked, stream, keyField: stream.keyFields[0] ?? '', sample, ask }
  const sorting = await testSorting(test)
  yield sorting
  const isSorted = sorting.value === 'proven'
  yield await testInclusive(test, isSorted)
  const newest = isSorted ? await ask(0n, sampleSize, 'descending') : null
  const { filters, order } = await testKeyOrder({ ...test, pageSize })
  yield decided('filters', filters)
  yield decided('key_order', order)
  const isByKey = order.value === 'honoured'
  const listed = await listSample(test, 1)
  yield await testPaging(test, listed)
  yield await testPageEnd(test, listed)
  yield await testListShowsChanges(test, listed, { isSorted, isByKey })
  yield await testListShowsDeleted(test, newest ?? sample, isByKey)
  yield await testSingleLook(test, listed)
  yield testKeysUnique([sample, listed])
  yield* testRows(test)
}

const isEmpty = 'the stream shows no record: nothing can be learnt from an empty stream'
const untold = (name: BeliefName, evidence: string): Tested => ({ name, value: null, evidence })
const decided = (name: BeliefName, { value, evidence }: Verdict): Tested => ({
  name,
  value: value === 'undecided' ? null : value,
  evidence,
})

export const pageAsker =
  (source: Pick<Source, 'changes'>, stream: ChangesStream, signal: AbortSignal): AskPage =>
  async (since, size, sorts) => {
    const answer = await source.changes({ since, page: 1, pageSize: size, sorts }, signal)
    return 'refused' in answer ? null : pageOf(answer.records, stream)
  }

const pageOf = (records: RecordList, { keyFields, versionFields }: ChangesStream): SamplePage => ({
  received: records.length,
  rows: readRecords(records, keyFields, versionFields).rows,
})

/** The first, the last and one in the middle. */
function spread<Item>(items: readonly Item[]): readonly Item[] {
  const places = [0, Math.floor(items.length / 2), items.length - 1]
  return [...new Set(places)].flatMap((place) => items[place] ?? []).slice(0, mostLookedAt)
}

// ── neworchanged ─────────────────────────────────────────────────────────────────────────────────────────────

async function testSorting({ ask }: Test): Promise<Tested> {
  const answers: SamplePage[] = []
  for (const { sorts, pageSize: size } of proofQuestions) {
    const answer = await ask(0n, size, sorts)
    if (answer === null) return detected('sorting', 'refused', 'the upstream refuses Sorts')
    answers.push(answer)
  }
  return decided('sorting', judge(answers))
}

/** Asks for what changed since a version that is there. */
async function testInclusive({ ask, sample }: Test, isSorted: boolean): Promise<Tested> {
  const page = isSorted ? ((await ask(0n, pageSize, 'ascending')) ?? sample) : sample
  const versions = versionsOf(page)
  // Where nothing sorts, the highest version is best: so few records are above it that it has to be on the page with them.
  const chosen = isSorted ? versions[0] : versions.reduce((a, b) => (a > b ? a : b), 0n)
  if (chosen === undefined) return untold('inclusive', 'no record has a version')
  const since = await ask(chosen, sampleSize, isSorted ? 'ascending' : null)
  if (since?.rows.some(({ version }) => version === chosen))
    return detected('inclusive', 'yes', `neworchanged/${chosen} showed version ${chosen}`)
  const isAll = since !== null && (isSorted || since.received < sampleSize)
  if (!isAll) return untold('inclusive', `version ${chosen} was not in the first page, and there are more`)
  return detected('inclusive', 'no', `neworchanged/${chosen} did not show version ${chosen}, which is there`)
}

// ── the list ─────────────────────────────────────────────────────────────────────────────────────────────────

const listSample = async ({ source, stream, signal }: Test, page: number): Promise<SamplePage> =>
  pageOf((await source.list({ page, pageSize }, signal)).records, stream)

async function testPaging(test: Test, first: SamplePage): Promise<Tested> {
  const name = 'paging'
  const { received } = first
  if (received > pageSize)
    return detected(name, 'ignored', `asked for ${pageSize} records the list served ${received}`)
  if (received < pageSize) return untold(name, `the list shows only ${plural(received, 'record')}`)
  const second = await listSample(test, 2)
  const shown = new Set(first.rows.map(({ key }) => key))
  const again = second.rows.filter(({ key }) => shown.has(key)).length
  // If only some come twice, the order may be drawn anew for each request.
  if (again > 0 && again === second.received)
    return detected(name, 'ignored', `page 2 of the list served the ${again} records of page 1 again`)
  if (again > 0 || second.received === 0)
    return untold(name, `${again} of the ${second.received} records of page 2 were on page 1 as well`)
  const evidence = `pages 1 and 2 of the list served ${received} and ${second.received} records, none twice`
  return detected(name, 'heeded', evidence)
}

/** Asks for a page far behind the last one. */
async function testPageEnd({ source, signal }: Test, first: SamplePage): Promise<Tested> {
  const name = 'page_end'
  if (first.received > pageSize || !source.listHasPages) return untold(name, 'the list knows no pages')
  const page = Math.floor(farBehind / pageSize)
  const { records, noPage = 'an empty list' } = await source.list({ page, pageSize }, signal)
  if (records.length === 0)
    return detected(name, noPage, `asked for page ${page} of the list it answered ${noPage}`)
  const evidence = `asked for page ${page} of the list it served ${plural(records.length, 'record')}`
  return detected(name, pageAgain, evidence)
}

type Ways = { readonly isSorted: boolean; readonly isByKey: boolean }

/** A few records that one way of reading shows are looked for by the other. What was deleted or changed meanwhile says nothing. */
async function testListShowsChanges(test: Test, listed: SamplePage, ways: Ways): Promise<Tested> {
  const name = 'list_shows_changes'
  const { sample, ask } = test
  if (!ways.isSorted || !ways.isByKey)
    return untold(
      name,
      'only a reconcile can tell where neworchanged is not sorted by version, or the list not by key',
    )
  const doubts: string[] = []
  const differs = async (difference: string, key: string, version?: bigint): Promise<boolean> => {
    const is = await isThere(test, key, version)
    if (is === null) doubts.push(difference)
    return is === true
  }
  let inList = 0
  for (const { key } of spread(livingOf(sample))) {
    const isShown = await listByKeyShows(test, key)
    if (isShown) inList += 1
    const difference = `neworchanged shows record ${key}, and the list does not`
    if (isShown === false && (await differs(difference, key))) return detected(name, 'no', difference)
  }
  let inChanges = 0
  for (const { key, version } of livingOf(listed).slice(0, pageSize)) {
    const page = version === null ? null : await ask(version - 1n, pageSize, 'ascending')
    if (version === null || page === null) continue
    const isShown = page.rows.some((row) => row.key === key)
    if (isShown) inChanges += 1
    const isPerhapsBehind = page.received >= pageSize && versionsOf(page).at(-1) === version
    if (isShown || isPerhapsBehind) continue
    const difference = `the list shows record ${key} with version ${version}, and neworchanged/${version - 1n} does not`
    if (await differs(difference, key, version)) return detected(name, 'no', difference)
  }
  const [first] = doubts
  if (first !== undefined) return untold(name, `${first}; the record itself cannot be looked at`)
  if (inList === 0 || inChanges === 0) return untold(name, 'no record was found by both ways of reading')
  const evidence = `${inList} records of neworchanged are in the list, ${inChanges} of the list in neworchanged`
  return detected(name, 'yes', evidence)
}

/** Without the records that the source marks as deleted: one way of reading may leave them out. */
const livingOf = ({ rows }: SamplePage) => rows.filter(({ record }) => !isFlaggedDeleted(record))

async function listByKeyShows(test: Test, key: string): Promise<boolean | null> {
  if (!/^-?\d+$/.test(key)) return null
  const listing = keyListing({ ...test, pageSize: 1 })
  const { keys } = await listing.ask({ after: BigInt(key) - 1n, page: 1, pageSize: 1 })
  return keys[0] === BigInt(key)
}

/** Null: it cannot be looked at. */
async function isThere(
  { source, stream, signal }: Test,
  key: string,
  version?: bigint,
): Promise<boolean | null> {
  const answer = source.lookup ? await source.lookup(key, signal) : 'unclear'
  if (answer === 'unclear') return null
  if (answer === 'gone' || isFlaggedDeleted(answer.found)) return false
  const [row] = pageOf([answer.found], stream).rows
  return version === undefined || row?.version === version
}

async function testListShowsDeleted(test: Test, changed: SamplePage, isByKey: boolean): Promise<Tested> {
  const name = 'list_shows_deleted'
  if (!isByKey) return untold(name, 'the list cannot be asked by key')
  const key = changed.rows.find(({ record }) => isFlaggedDeleted(record))?.key
  if (key === undefined) return untold(name, 'no record that is marked as deleted was seen')
  const isShown = await listByKeyShows(test, key)
  const evidence = `record ${key}, which is marked as deleted, is ${isShown ? '' : 'not '}in the list`
  return detected(name, isShown ? 'yes' : 'no', evidence)
}

// ── single records ───────────────────────────────────────────────────────────────────────────────────────────

/** The same record, from the list and by its id. */
async function testSingleLook(test: Test, listed: SamplePage): Promise<Tested> {
  const { source, stream, signal } = test
  const name = 'single_look'
  if (!source.lookup) return untold(name, 'the upstream has no request for one record')
  let compared = 0
  for (const row of spread(listed.rows)) {
    const answer = await source.lookup(row.key, signal)
    if (answer === 'gone') {
      // A record that was deleted meanwhile, or is marked as deleted, tells nothing.
      if (isFlaggedDeleted(row.record) || !(await isListed(test, row.key))) continue
      return detected(name, 'other', `record ${row.key} is in the list, and is not found by its id`)
    }
    if (answer === 'unclear')
      return detected(name, 'other', `record ${row.key} is in the list, and cannot be read by its id`)
    const [looked] = pageOf([answer.found], stream).rows
    if (looked?.version !== row.version) continue
    const differing = differingFields(row.record, answer.found)
    if (differing.length > 0) {
      const evidence = `record ${row.key}, version ${row.version}: ${differing.slice(0, 5).join(', ')} differ`
      return detected(name, 'other', evidence)
    }
    compared += 1
  }
  if (compared === 0) return untold(name, 'the records changed while they were looked at')
  return detected(name, 'same', `${plural(compared, 'record')} of the list, the same by id`)
}

const isListed = async (test: Test, key: string): Promise<boolean> =>
  (await listSample(test, 1)).rows.some((row) => row.key === key)

const differingFields = (one: JsonObject, other: JsonObject): readonly string[] =>
  [...new Set([...fieldNames(one), ...fieldNames(other)])].filter(
    (field) => fingerprint(ownValue(one, field) ?? null) !== fingerprint(ownValue(other, field) ?? null),
  )

function testKeysUnique(pages: readonly SamplePage[]): Tested {
  for (const { rows } of pages) {
    const seen = new Set<string>()
    for (const { key } of rows) {
      if (seen.has(key)) return detected('keys_unique', 'no', `one answer held two records with key ${key}`)
      seen.add(key)
    }
  }
  const records = pages.reduce((sum, { rows }) => sum + rows.length, 0)
  return detected('keys_unique', 'yes', `no key twice in answers with ${plural(records, 'record')}`)
}

/** Rows that are stored, against what their records say now. */
async function* testRows({ source, stream, rows, signal }: Test): AsyncGenerator<Tested> {
  const fallen: string[] = []
  let compared = 0
  for (const { key, version } of source.lookup ? rows : []) {
    const answer = await source.lookup?.(key, signal)
    if (answer === undefined || typeof answer === 'string') continue
    const there = pageOf([answer.found], stream).rows[0]?.version ?? null
    if (there === null) continue
    compared += 1
    if (there < version) fallen.push(`record ${key} has version ${there} there and ${version} here`)
  }
  const [first] = fallen
  if (compared === 0) {
    yield untold('versions_rise', 'no row is stored yet whose record could be looked at')
    return yield untold('same_upstream', 'no row is stored yet whose record could be looked at')
  }
  const evidence = `${plural(compared, 'row')} of different ages compared with their records: none has a lower version there`
  yield first === undefined
    ? detected('versions_rise', 'yes', evidence)
    : detected('versions_rise', 'no', first)
  yield testSameUpstream(fallen, compared)
}

/** One that fell is one row to mend; many are another upstream. */
function testSameUpstream(fallen: readonly string[], compared: number): Tested {
  const name = 'same_upstream'
  const { length } = fallen
  if (length > 1 && length * 2 > compared)
    return detected(
      name,
      'no',
      `${length} of ${compared} records have lower versions than here: ${fallen[0]}`,
    )
  if (length === compared) return untold(name, `only one row could be compared, and it fell: ${fallen[0]}`)
  const stand = `${compared - length} of ${plural(compared, 'record')}`
  return detected(name, 'yes', `${stand} have at least the version that is here`)
}

// ── as a run ─────────────────────────────────────────────────────────────────────────────────────────────────
// It reads no rows into the mirror and moves no position; a belief that falls takes back what rested on it all the same.

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
