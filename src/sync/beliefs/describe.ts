// Describes an upstream for people: the probe prints these traits. They are no beliefs, so no run relies on them.

import type { Json } from '../../json/json.ts'
import { type ChangesStream, versionedBy } from '../../streams/catalog.ts'
import { isFlaggedDeleted, isObject } from '../../streams/record.ts'
import { versionsOf } from '../changes/state.ts'
import type { Source } from '../ports/source.ts'
import { isAscending } from '../versions.ts'
import { pageAsker, type SamplePage } from './test-beliefs.ts'

export type Trait = { readonly name: string; readonly value: string }

const samplePageSize = 100
const largePageSize = 5_000

export async function describeUpstream(
  source: Source,
  stream: ChangesStream,
  versionField: string,
  signal: AbortSignal,
): Promise<readonly Trait[]> {
  const ask = pageAsker(source.sortedBy(versionField), versionedBy(stream, versionField), signal)
  const plain = await ask(0n, samplePageSize, null)
  if (plain === null || plain.rows.length === 0) return []
  const sorted = (await ask(0n, samplePageSize, 'ascending')) ?? plain
  const records = plain.rows.map(({ record }) => record)
  return [
    { name: 'order', value: orderOf(plain) },
    { name: 'cap', value: await capOf(source, signal) },
    {
      name: 'deletes',
      value: records.some(isFlaggedDeleted) ? 'soft: a record says that it is deleted' : 'none seen',
    },
    { name: 'row versions', value: spacingOf(sorted) },
    { name: 'time zone', value: zoneForm(records) },
  ]
}

function orderOf(page: SamplePage): string {
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

function spacingOf(page: SamplePage): string {
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
