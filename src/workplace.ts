// Opens what every command needs that reads the upstream into the mirror: the database, migrated; the mirror; and one source for
// each stream that is configured.

import type { Config, MirrorConfig, UpstreamConfig } from './config.ts'
import { openConfiguredUpstream } from './configured-upstream.ts'
import type { Logger } from './log.ts'
import { type Database, openDatabase } from './mirror/database.ts'
import { migrateDatabase } from './mirror/migrate.ts'
import { openMirror } from './mirror/mirror.ts'
import { isRelatedDue } from './mirror/related-due.ts'
import { type RelatedStream, relatedStreams, type Stream, streams } from './streams.ts'
import type { Audits, Backfills } from './sync/audit-ports.ts'
import type { Mirror, Source } from './sync/ports.ts'
import { type ReadStreamContext, readStream, type ScheduledLane } from './sync/read-stream.ts'
import { readRelated } from './sync/related.ts'
import type { Relations } from './sync/related-ports.ts'
import { openRightOfWay } from './sync/right-of-way.ts'
import type { LaneOutcome } from './sync/run-lane.ts'
import { maskSource } from './upstream/masked-source.ts'
import type { UpstreamObserver } from './upstream/observer.ts'
import { openRelatedSource } from './upstream/related-source.ts'
import { openSource } from './upstream/source.ts'
import type { Upstream } from './upstream/upstream.ts'

export type ReadOptions = Pick<ReadStreamContext, 'signal' | 'shouldGiveWay' | 'onWritten'>

type ReadingContext<Kind extends Stream> = Omit<
  ReadStreamContext,
  'mirror' | 'stream' | 'lane' | 'signal'
> & {
  readonly mirror: Workplace['mirror']
  readonly stream: Kind
}

export type Workplace = AsyncDisposable & {
  readonly database: Database
  readonly mirror: Mirror & Audits & Backfills & Relations
  readonly streams: readonly Stream[]
  /** The related records that are wanted. */
  readonly related: readonly RelatedStream[]
  readonly assignmentService: Upstream
  sourceOf(stream: Stream): Source
  /** What every reading of a stream needs, whatever its lane. */
  contextOf<Kind extends Stream>(stream: Kind): ReadingContext<Kind>
  read(stream: Stream, lane: ScheduledLane, options: ReadOptions): Promise<LaneOutcome>
  /** The backlog of related records. */
  readRelated(options: ReadOptions): Promise<LaneOutcome>
  /** Whether there may be such a backlog. */
  isRelatedDue(): Promise<boolean>
}

export async function openWorkplace(options: {
  readonly config: MirrorConfig & UpstreamConfig & Pick<Config, 'webhookSecret'>
  readonly log: Logger
  readonly observer?: UpstreamObserver
}): Promise<Workplace> {
  const { config, log } = options
  // When the rest cannot be opened, the database is left again: it would keep the program from ending.
  await using opened = new AsyncDisposableStack()
  const database = opened.adopt(await openMigratedDatabase(config, log), ({ close }) => close())
  const related = wantedRelated(config)
  const relatedOptions = { groups: related.map(({ name }) => name), refreshMs: config.relatedRefreshMs }
  const mirror = openMirror({
    database,
    streams,
    sourceTimezone: config.sourceTimezone,
    historyMs: config.trackerHistoryMs,
    related: relatedOptions,
    log,
  })
  const upstreams = {
    assignment: openConfiguredUpstream(options, 'assignment'),
    tracking: openConfiguredUpstream(options, 'tracking'),
  }
  opened.defer(() => {
    upstreams.assignment.close()
    upstreams.tracking?.close()
  })
  const sourceOf = (stream: Stream): Source => {
    const upstream = upstreams[stream.service]
    if (!upstream) throw new Error(`${stream.name} needs TRACKING_BASE_URL, which is not set`)
    const source = openSource(upstream, stream)
    const holdsSecret = stream.list === 'listWebhookSubscriptions' && config.webhookSecret
    return holdsSecret ? maskSource(source, holdsSecret) : source
  }
  // Head runs are short; one that is not still leaves the backlog some reads a second.
  const rightOfWay = openRightOfWay({ longestMs: 1_000 })
  const relatedSource = openRelatedSource(upstreams.assignment, {
    streams: related,
    requestsPerSecond: config.requestsPerSecond,
    giveWay: rightOfWay.giveWay,
  })
  const contextOf = <Kind extends Stream>(stream: Kind): ReadingContext<Kind> => ({
    mirror,
    source: sourceOf(stream),
    stream,
    pageSize: config.pageSize,
    lookbackFloorMs: config.lookbackMs,
    keyField: config.keyFields[stream.name] ?? null,
    now: () => new Date(),
  })
  const everything = opened.move()
  return {
    database,
    mirror,
    streams: configuredStreams(config),
    assignmentService: upstreams.assignment,
    sourceOf,
    contextOf,
    related,
    async read(stream, lane, hooks) {
      const reading = () => readStream({ ...contextOf(stream), ...hooks, lane })
      return lane === 'head' ? await rightOfWay.goFirst(reading) : await reading()
    },
    isRelatedDue: () => isRelatedDue(database.pool, relatedOptions),
    readRelated: ({ onWritten, ...hooks }) =>
      readRelated({
        ...hooks,
        mirror,
        source: relatedSource,
        streams: related,
        now: () => new Date(),
        ...(onWritten && { onWritten: (written) => onWritten(written, null) }),
      }),
    [Symbol.asyncDispose]: () => everything.disposeAsync(),
  }
}

export async function openMigratedDatabase(config: MirrorConfig, log: Logger): Promise<Database> {
  const database = await openDatabase({ url: config.databaseUrl, log })
  try {
    await migrateDatabase({ database, streams, biRole: config.biRole, log })
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

/** The bytes of attachments share the key of attachments. */
function wantedRelated(
  config: Pick<Config, 'related' | 'attachmentData' | 'keyFields'>,
): readonly RelatedStream[] {
  const wanted: readonly RelatedStream[] = relatedStreams
  return wanted
    .filter(({ name, bulkField }) => (bulkField ? config.attachmentData : config.related.includes(name)))
    .map((stream) => {
      const owner = relatedStreams.find(({ group }) => group === stream.group) ?? stream
      const key = config.keyFields[owner.name] ?? null
      return key === null ? stream : { ...stream, keyFields: [key] }
    })
}

export function configuredStreams(config: Pick<Config, 'streams' | 'trackingBaseUrl'>): readonly Stream[] {
  return streams.filter(
    (stream) =>
      (config.streams === null || config.streams.includes(stream.name)) &&
      (stream.service !== 'tracking' || config.trackingBaseUrl !== null),
  )
}
