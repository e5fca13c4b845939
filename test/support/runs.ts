// Runs of the mirror as tests want them: begun or failed, ended with the usual numbers.

import type { Json } from '../../src/json/json.ts'
import { openStore } from '../../src/store/runs/open-store.ts'
import { type RunKind, knownStreams as streams } from '../../src/streams/catalog.ts'
import { nothingSaid, nothingSaidOfField, type StreamMeaning } from '../../src/streams/dictionary.ts'
import { type Records, readRecords } from '../../src/streams/record.ts'
import type { Run, Store } from '../../src/sync/ports/store.ts'
import { quietLog, type TestDatabase } from './database.ts'

export const storeOf = (
  database: Pick<TestDatabase, 'pool'>,
  options: {
    sourceTimezone?: string
    fieldZones?: Readonly<Record<string, Readonly<Record<string, string>>>>
    writeConnections?: 1 | 2
    silenceMs?: number
    histories?: Readonly<Record<string, number>>
    beforeRun?: () => Promise<void>
  } = {},
): Store => {
  const { histories = { tracker_object: 90 * 24 * 3_600_000 }, fieldZones = {}, ...others } = options
  const meant = [...Object.keys(histories), ...Object.keys(fieldZones)].map(
    (name): [string, StreamMeaning] => {
      const zones = Object.entries(fieldZones[name] ?? {})
      const fields = zones.map(
        ([field, timezone]) => [field, { ...nothingSaidOfField, name: field, timezone }] as const,
      )
      return [name, { ...nothingSaid, historyMs: histories[name] ?? null, fields: new Map(fields) }]
    },
  )
  const dictionary = () => new Map(meant)
  return openStore({ database, streams, sourceTimezone: 'UTC', log: quietLog, dictionary, ...others })
}

export async function begin<Kind extends RunKind = 'incremental'>(
  store: Store,
  stream = 'assignment',
  kind = 'incremental' as Kind,
): Promise<Run<Kind>> {
  const run = await store.openRun(kind, stream)
  if ('busy' in run) throw new Error(`busy: ${run.busy}`)
  return run
}

export const done = {
  status: 'done',
  error: null,
  errorCode: null,
  note: null,
  requests: 1,
  bytes: 100,
  isComplete: true,
} as const
export const failed = { ...done, status: 'failed', error: 'a test ended it', isComplete: false } as const

export const assignments = (...records: readonly Json[]): Records =>
  readRecords(records, ['AssignmentId'], ['RowVersion', 'SysRowVersion'])

export const trackers = (...records: readonly Json[]): Records =>
  readRecords(records, ['TrackerObjectId'], null)

/** Writes pages in a run of its own. */
export async function writeAll(store: Store, stream: string, ...pages: readonly Records[]): Promise<void> {
  const run = await begin(store, stream, stream === 'assignment' ? 'incremental' : 'list')
  if (stream !== 'assignment') await run.findings.setKeyField('TrackerObjectId')
  for (const page of pages) await run.pages.commit(page, null)
  await run.finish(done)
}
