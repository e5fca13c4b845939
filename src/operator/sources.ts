// Compares some records, to tell whether the source that the settings name is the one whose rows are here, although its address or account
// is another. Another customer has records with the same ids, but hardly one with the same content.

import type { SyncContext } from '../context.ts'
import { readKeyField, readVersionField } from '../store/book/checkpoints.ts'
import { type ChangesStream, type ListStream, type ServiceName, versionedBy } from '../streams/catalog.ts'
import { int64, type Records, readRecords } from '../streams/record.ts'

export type Agreement = {
  readonly stream: string
  /** So many were compared, */
  readonly compared: number
  /** and so many of them are the same here and there. */
  readonly same: number
}

const rowsToCompare = 20
/** Rows are chosen evenly from so many of the newest, because the very newest may have changed meanwhile. */
const rowsToChooseFrom = 2_000

/** Compares each stream of a service that has rows here. */
export async function compareSource(
  context: SyncContext,
  service: ServiceName,
  signal: AbortSignal,
): Promise<readonly Agreement[]> {
  const agreements: Agreement[] = []
  for (const stream of context.streams.filter((one) => one.service === service)) {
    if (!(await context.store.history.hasRows(stream.name))) continue
    const agreement =
      stream.kind === 'changes'
        ? await compareRows(context, stream, signal)
        : service === 'tracking' && (await compareKeys(context, stream, signal))
    if (agreement) agreements.push(agreement)
  }
  return agreements
}

export const isSameSource = (agreements: readonly Agreement[]): boolean =>
  agreements.length > 0 && agreements.every(({ compared, same }) => compared > 0 && same * 2 >= compared)

/** Rows from here, looked up there. */
async function compareRows(
  context: SyncContext,
  stream: ChangesStream,
  signal: AbortSignal,
): Promise<Agreement> {
  const newest = await context.store.history.anchors(stream.name, int64.max, rowsToChooseFrom)
  const step = Math.max(1, Math.floor(newest.length / rowsToCompare))
  const chosen = newest.filter((_row, index) => index % step === 0).slice(0, rowsToCompare)
  const source = context.sourceOf(stream)
  const found = []
  for (const { key } of chosen) {
    const answer = await source.lookup?.(key, signal)
    if (typeof answer === 'object') found.push(answer.found)
  }
  const versioned = versionedBy(stream, await readVersionField(context.database.pool, stream.name))
  const page = readRecords(found, versioned.keyFields, versioned.versionFields)
  const differences = await context.compareOnce(versioned, page)
  return { stream: stream.name, compared: chosen.length, same: page.rows.length - differences.length }
}

/** For streams whose records change all the time: only keys are compared. Records from there are looked for here. */
async function compareKeys(
  context: SyncContext,
  stream: ListStream,
  signal: AbortSignal,
): Promise<Agreement> {
  const { records } = await context.sourceOf(stream).list({ page: 1, pageSize: rowsToCompare }, signal)
  const keyField = await readKeyField(context.database.pool, stream.name)
  const page: Records = readRecords(records, keyField === null ? stream.keyFields : [keyField], null)
  const missing = (await context.compareOnce(stream, page)).filter(({ kind }) => kind === 'missing')
  return { stream: stream.name, compared: page.rows.length, same: page.rows.length - missing.length }
}
