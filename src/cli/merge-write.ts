// A PUT replaces a record whole: what its body leaves out is emptied, and without `sysDeleted` a deleted record comes back. Here the
// record is read first, so that only what was given changes, or that what would change is shown.

import { type Json, type JsonObject, ownValue } from '../json/json.ts'
import { isObject } from '../streams/record.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/http/errors.ts'
import type { Operation, OperationName } from '../upstream/operations/table.ts'
import { UsageError } from '../util/errors.ts'

type Look = { readonly field: string; readonly operation: OperationName; readonly parameter: string }

/** How the record that a PUT names is read: by the first of these fields that its body has. */
const looks: Readonly<Record<string, readonly Look[]>> = {
  updateAssignment: [
    { field: 'assignmentId', operation: 'getAssignment', parameter: 'assignmentId' },
    { field: 'assignmentIdext', operation: 'getAssignmentByIdExt', parameter: 'assignmentIdExt' },
  ],
  updateAssignmentNote: [
    { field: 'assignmentNoteId', operation: 'getAssignmentNote', parameter: 'assignmentNoteId' },
    { field: 'assignmentNoteIdext', operation: 'getAssignmentNoteByIdExt', parameter: 'assignmentNoteIdExt' },
  ],
  updateWebhookSubscription: [
    {
      field: 'webhookSubscriptionId',
      operation: 'getWebhookSubscription',
      parameter: 'webhookSubscriptionId',
    },
  ],
}

/** Whether it replaces a record that can be read first. */
export const replacesRecord = ({ name }: Operation): boolean => Object.hasOwn(looks, name)

export const replaceWarning =
  'This PUT replaces the whole record: what the body leaves out is emptied, and without sysDeleted a deleted record comes back. --merge changes only what is given; --dry-run shows what would change.'

/** The record was changed since the change was planned. */
class RecordChanged extends Error {
  override readonly name = 'RecordChanged'
}

export type Change = { readonly before: Json; readonly after: Json }
export type Planned = {
  /** What would be sent. */
  readonly body: JsonObject
  readonly changes: Readonly<Record<string, Change>>
}
type Writing = {
  readonly upstream: Upstream
  readonly operation: Operation
  readonly body: JsonObject
  readonly isMerge: boolean
  readonly signal: AbortSignal
}

/** Reads the record, and changes nothing. */
export async function planWrite(writing: Writing): Promise<Planned> {
  const { operation, body, isMerge } = writing
  const current = await readCurrent(writing)
  const given = versionOf(body)
  const stored = versionOf(current)
  if (given !== null && stored !== null && given !== stored)
    throw new RecordChanged(
      `The record has version ${stored} by now, and the body was made from version ${given}. Read it again and repeat the change.`,
    )
  const sent = isMerge ? merged(current, body) : body
  return { body: sent, changes: changesOf(current, sent, waysOf(operation)) }
}

/** Reads the record once more, just before the write, and rejects if somebody has changed it meanwhile. */
export async function checkUnchanged(writing: Writing, { body }: Planned): Promise<void> {
  const [planned, stored] = [versionOf(body), versionOf(await readCurrent(writing))]
  if (planned !== stored)
    throw new RecordChanged(
      `The record was changed while this change was made (version ${stored ?? 'none'}, not ${planned ?? 'none'}). Nothing was written. Repeat the change.`,
    )
}

const waysOf = ({ name }: Operation): readonly Look[] => looks[name] ?? []

async function readCurrent({ upstream, operation: write, body, signal }: Writing): Promise<JsonObject> {
  const ways = waysOf(write)
  for (const { field, operation, parameter } of ways) {
    const value = fieldOf(body, field)
    if (value === undefined || value === null || value === '') continue
    const request = { path: { [parameter]: JSON.isRawJSON(value) ? value.rawJSON : value } }
    const { body: current } = await upstream.call(operation, request, signal)
    if (isObject(current ?? undefined)) return current as JsonObject
    throw new UpstreamError({
      code: 'UPSTREAM_SHAPE',
      method: 'GET',
      path: operation,
      retryable: false,
      problem: 'the answer should be the record that is to be changed, but is none.',
    })
  }
  throw new UsageError(
    `The body does not say which record it is about. It needs ${ways.map(({ field }) => field).join(' or ')}.`,
  )
}

/** The record with the given fields, in the record's spelling. Fields that it does not have are added as they were given. */
function merged(current: JsonObject, given: JsonObject): JsonObject {
  const entries = Object.entries(given).map(([name, value]) => [spelledAs(current, name) ?? name, value])
  return { ...current, ...Object.fromEntries(entries) }
}

/** Fields that the upstream sets by itself whenever a record is written. */
const setByItself = /^(?:sysRowVersion|rowVersion|sys(?:Created|Updated)(?:By|DateUTC))$/i

function changesOf(current: JsonObject, sent: JsonObject, ways: readonly Look[]): Planned['changes'] {
  const keys = new Set(ways.map(({ field }) => field.toLowerCase()))
  const names = [
    ...Object.keys(current),
    ...Object.keys(sent).filter((one) => spelledAs(current, one) === null),
  ]
  const changes = names.flatMap((field): [string, Change][] => {
    const [before, after] = [ownValue(current, field) ?? null, fieldOf(sent, field) ?? null]
    const isOwn = setByItself.test(field) || (keys.has(field.toLowerCase()) && after === null)
    return isOwn || JSON.stringify(before) === JSON.stringify(after) ? [] : [[field, { before, after }]]
  })
  return Object.fromEntries(changes)
}

function versionOf(record: JsonObject): string | null {
  const value = fieldOf(record, 'sysRowVersion') ?? fieldOf(record, 'rowVersion') ?? null
  return value === null ? null : JSON.isRawJSON(value) ? value.rawJSON : String(value)
}

const spelledAs = (record: JsonObject, name: string): string | null =>
  Object.keys(record).find((other) => other.toLowerCase() === name.toLowerCase()) ?? null

function fieldOf(record: JsonObject, name: string): Json | undefined {
  const spelled = spelledAs(record, name)
  return spelled === null ? undefined : record[spelled]
}
