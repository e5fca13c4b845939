// What an upstream's `neworchanged` and list are like, found out with a few requests and no writing: the same questions that
// runs ask, all at once and told in words.

import type { Json } from '../../json/json.ts'
import { type ChangesStream, versionedBy } from '../../streams/catalog.ts'
import { isFlaggedDeleted, isObject, readRecords } from '../../streams/record.ts'
import type { SeenPage } from '../lists/listing.ts'
import type { SortOrder, Source } from '../ports/source.ts'
import { judge, proofQuestions } from './hypotheses.ts'
import { isAscending } from './state.ts'
import { askChanges, findVersionField } from './version-field.ts'

export type ContractBelief = { readonly name: string; readonly value: string }

const samplePageSize = 100
const largePageSize = 5_000

export async function probeContract(
  anySource: Source,
  anyStream: ChangesStream,
  signal: AbortSignal,
): Promise<readonly ContractBelief[]> {
  const version = await findVersionField(askChanges(anySource, signal), anyStream.versionFields)
  if (version.kind === 'none') return [{ name: 'row version', value: `none found: ${version.evidence}` }]
  const field = version.kind === 'found' ? version.field : null
  const source = field === null ? anySource : anySource.sortedBy(field)
  const stream = versionedBy(anyStream, field)
  const ask = async (since: bigint, pageSize: number, sorts: SortOrder | null) => {
    const answer = await source.changes({ since, page: 1, pageSize, sorts }, signal)
    return 'refused' in answer ? null : seen(answer.records, stream)
  }
  const plain = await ask(0n, samplePageSize, null)
  if (!plain || plain.received === 0)
    return [{ name: 'records', value: 'none: nothing can be learnt from an empty stream' }]
  const answers: Seen[] = []
  for (const { sorts, pageSize } of proofQuestions) {
    const answer = await ask(0n, pageSize, sorts)
    if (answer) answers.push(answer)
  }
  const verdict = answers.length < proofQuestions.length ? null : judge(answers)
  const sorted = verdict?.sorting === 'proven' ? (answers[1] ?? plain) : plain
  return [
    {
      name: 'row version',
      value: version.kind === 'found' ? `${version.field}: ${version.evidence}` : 'unknown',
    },
    {
      name: 'sorting',
      value: verdict ? `${verdict.sorting}: ${verdict.evidence}` : 'refused: Sorts is answered with a 4xx',
    },
    { name: 'inclusivity', value: await inclusivity(ask, sorted, verdict?.sorting === 'proven') },
    { name: 'order', value: orderOf(plain) },
    { name: 'cap', value: await capOf(source, signal) },
    {
      name: 'deletes',
      value: plain.records.some(isDeleted) ? 'soft: a record says that it is deleted' : 'none seen',
    },
    { name: 'row versions', value: spacingOf(sorted) },
    { name: 'time zone', value: zoneForm(plain.records) },
  ]
}

type Seen = SeenPage & { readonly records: readonly Json[] }
type Ask = (since: bigint, pageSize: number, sorts: SortOrder | null) => Promise<Seen | null>

function seen(records: readonly Json[], stream: ChangesStream): Seen {
  return {
    received: records.length,
    rows: readRecords(records, stream.keyFields, stream.versionFields).rows,
    records,
  }
}

const versionsOf = (page: SeenPage): bigint[] => page.rows.map(({ version }) => version ?? 0n)

/** Asks for what changed since a version that was just served. */
async function inclusivity(ask: Ask, page: Seen, isSorted: boolean): Promise<string> {
  const versions = versionsOf(page)
  // Where nothing sorts, above the highest version there is the least, and so the best chance to see it among them.
  const chosen = isSorted ? versions[0] : versions.reduce((a, b) => (a > b ? a : b), 0n)
  if (chosen === undefined) return 'unknown'
  const since = await ask(chosen, samplePageSize, isSorted ? 'ascending' : null)
  if (since?.rows.some(({ version }) => version === chosen)) return `since ${chosen} includes ${chosen}`
  const isAll = since !== null && (isSorted || since.received < samplePageSize)
  return isAll ? `since ${chosen} begins above it` : 'not seen in the first page'
}

function orderOf(page: Seen): string {
  const versions = versionsOf(page)
  const keys = page.rows.map(({ key }) => key)
  if (new Set(versions).size < 3) return 'too few rows to tell'
  const isByKey = keys.every((key, index) => index === 0 || compareKeys(keys[index - 1] ?? key, key) < 0)
  if (isByKey && isAscending(versions)) return 'without Sorts, by key and by row version alike'
  if (isByKey) return 'without Sorts, by key'
  if (isAscending(versions)) return 'without Sorts, by row version'
  if (isAscending(versions.toReversed())) return 'without Sorts, the newest first'
  return 'without Sorts, none that can be told'
}

const compareKeys = (a: string, b: string): number => a.length - b.length || (a < b ? -1 : 1)

async function capOf(source: Source, signal: AbortSignal): Promise<string> {
  const first = await source.list({ page: 1, pageSize: largePageSize }, signal)
  const received = first.records.length
  if (received > largePageSize)
    return `paging is ignored: ${received} records came when ${largePageSize} were asked for`
  if (received === largePageSize) return `none up to ${largePageSize}`
  if (received === 0) return 'unknown'
  const next = await source.list({ page: 2, pageSize: received }, signal)
  return next.records.length > 0
    ? `pages hold ${received} records at most`
    : `none seen: all ${received} records came at once`
}

const isDeleted = (record: Json): boolean => isObject(record) && isFlaggedDeleted(record)

function spacingOf(page: Seen): string {
  const versions = [...new Set(versionsOf(page))].sort((a, b) => (a < b ? -1 : 1))
  const gaps = versions.slice(1).map((version, index) => version - (versions[index] ?? version))
  const ordered = gaps.toSorted((a, b) => (a < b ? -1 : 1))
  const ties = page.rows.length - versions.length
  const median = ordered[ordered.length >> 1]
  if (median === undefined) return 'one version only'
  return `${ordered[0]} to ${ordered.at(-1)} apart, ${median} mostly${ties > 0 ? `; ${ties} of ${page.rows.length} share one` : ''}`
}

const dateTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/

function zoneForm(records: readonly Json[]): string {
  const forms = new Map<string, number>()
  for (const record of records) {
    if (!isObject(record)) continue
    for (const value of Object.values(record)) {
      const match = typeof value === 'string' ? dateTime.exec(value) : null
      if (!match) continue
      const form =
        match[1] === undefined ? 'without an offset' : match[1] === 'Z' ? 'in UTC (Z)' : 'with an offset'
      forms.set(form, (forms.get(form) ?? 0) + 1)
    }
  }
  if (forms.size === 0) return 'no date-times seen'
  return `date-times ${[...forms].map(([form, count]) => `${form} (${count})`).join(', ')}`
}
