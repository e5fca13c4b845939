// The table of contents: one entry for each mirrored resource. A new stream is one more entry here.

import { NotThere } from '../util/errors.ts'
import { nearest } from '../util/text.ts'
import type { StreamMeaning } from './dictionary.ts'
import type { FieldKind } from './field-types.ts'
import { baseOf, keyIn, sourceIn } from './names.ts'

/** Why a stream is read, each with its lane: runs of one lane exclude each other on a stream (P2). */
export const laneOfKind = {
  incremental: 'incremental',
  // These list everything. Without row versions, a verification could not tell an old record from one that a poll has just written.
  list: 'whole',
  lookback: 'lookback',
  deletions: 'deletions',
  probe: 'probe',
  reconcile: 'whole',
  backfill: 'backfill',
  verify: 'whole',
  'quarantine-retry': 'backfill',
  related: 'related',
} as const
export type RunKind = keyof typeof laneOfKind
export const kinds = Object.keys(laneOfKind) as readonly RunKind[]
/** Why a run was asked for: `again` is by the worker itself, for one that was cut short or missed. */
export type Cause = 'tick' | 'webhook' | 'operator' | 'write' | 'again'
export type RunRequest = { readonly stream: string; readonly kind: RunKind; readonly cause: Cause }
export type ServiceName = 'assignment' | 'tracking'

/** By the field's name, whatever its case. `texts`: what its codes stand for. */
export type FieldKinds = Readonly<
  Record<string, { readonly kind: FieldKind; readonly texts?: Readonly<Record<string, string>> }>
>

type CommonStream = {
  readonly name: string
  readonly service: ServiceName
  /** Operations of the upstream, by their names in the table of operations. */
  readonly list: string
  readonly lookup: string | null
  /** Candidates for the key, the first that fits wins; compared without regard to case. One may be several fields, with commas between. */
  readonly keyFields: readonly string[]
  readonly defaultSchedule: string
  /** The settings name it; no code does. */
  readonly isAdded?: true
  /** Fields whose types the upstream describes. */
  readonly fieldKinds?: FieldKinds
  /** Time zones of fields whose date-times have no offset, by the folded name of the dictionary. */
  readonly fieldZones?: Readonly<Record<string, string>>
  /** The operator's choice of volatile fields, in lower case; left out or null: what was found out holds. */
  readonly volatileFields?: readonly string[] | null
  /** What the dictionary says of it. */
  readonly meaning?: StreamMeaning
  /** How long every observed change is kept, in a table beside the stream's own; left out: it is not. */
  readonly historyMs?: number
}
export type ChangesStream = CommonStream & {
  readonly kind: 'changes'
  readonly changes: string
  /** What its row version is likely called, the likeliest first; which of them it is, or another one, is found by asking. */
  readonly versionFields: readonly string[]
}
export type ListStream = CommonStream & { readonly kind: 'list' }
export type Stream = ChangesStream | ListStream

/** A reconcile asks for records of it by key. */
export const isLookedUpByKey = ({ kind, lookup }: Pick<Stream, 'kind' | 'lookup'>): boolean =>
  kind === 'changes' && lookup !== null

/** The stream with one field alone as its row version; null: nobody knows yet which, and the likely ones stand for it. */
export const versionedBy = <Any extends { readonly kind: string }>(
  stream: Any,
  versionField: string | null,
): Any =>
  stream.kind === 'changes' && versionField !== null ? { ...stream, versionFields: [versionField] } : stream

/** A group of records that an assignment carries, in its extended read. It is read by assignment, and written like any stream. */
export type RelatedStream = {
  readonly name: string
  readonly kind: 'related'
  /** The group's name in the answer; its flag is `Include<group>`. */
  readonly group: string
  /** Whether a record belongs to one assignment, or many point to it. */
  readonly belongsTo: 'one' | 'many'
  readonly keyFields: readonly string[]
  /** The operator named the key. */
  readonly isKeyChosen?: boolean
  /** Fields whose types are documented. */
  readonly fieldKinds?: FieldKinds
  readonly fieldZones?: Readonly<Record<string, string>>
  /** What the dictionary says of it. */
  readonly meaning?: StreamMeaning
  /** As for other streams; null: its history is not kept. */
  readonly historyMs?: number | null
  /** The only field that this table takes from the records of its group, besides the key; the others leave it out. */
  readonly bulkField?: string
}
/** Whatever has a table in the mirror. */
export type MirroredStream = Stream | RelatedStream

const versionFields = ['RowVersion', 'SysRowVersion']

/** The entry points of the table; the settings may add lists of the upstream that nobody wrote down. */
export const knownStreams = [
  {
    name: 'assignment',
    kind: 'changes',
    service: 'assignment',
    changes: 'listChangedAssignments',
    list: 'listAssignments',
    lookup: 'getAssignment',
    keyFields: ['AssignmentId'],
    versionFields,
    defaultSchedule: '30s',
  },
  {
    name: 'assignment_note',
    kind: 'changes',
    service: 'assignment',
    changes: 'listChangedAssignmentNotes',
    list: 'listAssignmentNotes',
    lookup: 'getAssignmentNote',
    keyFields: ['AssignmentNoteId'],
    versionFields,
    defaultSchedule: '30s',
  },
  {
    name: 'tracker_object',
    kind: 'list',
    service: 'tracking',
    list: 'listTrackerObjects',
    lookup: null,
    keyFields: ['TrackerObjectId', 'Id', 'UID', 'ObjectId', 'TrackerId', 'VehicleId'],
    defaultSchedule: '60s',
  },
  {
    name: 'assignment_object',
    kind: 'list',
    service: 'assignment',
    list: 'listAssignmentObjects',
    lookup: null,
    keyFields: ['AssignmentObjectId', 'Id', 'UID'],
    defaultSchedule: '1h',
  },
  {
    name: 'webhook_definition',
    kind: 'list',
    service: 'assignment',
    list: 'listWebhookDefinitions',
    lookup: null,
    keyFields: ['WebhookDefinitionId', 'Id', 'UID'],
    defaultSchedule: '1h',
  },
  {
    name: 'webhook_subscription',
    kind: 'list',
    service: 'assignment',
    list: 'listWebhookSubscriptions',
    lookup: 'getWebhookSubscription',
    keyFields: ['WebhookSubscriptionId', 'Id', 'UID'],
    defaultSchedule: '1h',
  },
] as const satisfies readonly Stream[]

// Streams that the settings add, each by the path of its list. What kind they are, and by which key, is found by asking.
export type AddedStream = { readonly name: string; readonly path: string }
export type FoundOut = {
  readonly kind: Stream['kind']
  readonly keyField: string | null
  readonly hasLookup: boolean
  /** The path of the list that was asked; left out by older programs. */
  readonly path?: string
}

/** All that can be mirrored: what is in the table, and what the settings add, as far as it is found out what that is like. */
export type Catalogue = readonly Stream[]

export const catalogueOf = (
  added: readonly AddedStream[],
  found: ReadonlyMap<string, FoundOut> = new Map(),
  source = '',
): Catalogue => [
  ...ofSource(knownStreams, source),
  ...added.map((one) => addedStream(one, found.get(one.name))),
]

/** The same streams of another source. */
const ofSource = <One extends Named>(streams: readonly One[], source: string): readonly One[] =>
  source === '' ? streams : streams.map((one) => ({ ...one, name: keyIn(source, one.name) }))

/** A list until it is known to have a `neworchanged`. */
export function addedStream(
  { name, path }: AddedStream,
  found: FoundOut = { kind: 'list', keyField: null, hasLookup: false },
): Stream {
  const type = path.split('/').at(-1) ?? ''
  const keys = [`${type}Id`, ...(type.endsWith('s') ? [`${type.slice(0, -1)}Id`] : []), 'Id', 'UID']
  const common = {
    name,
    service: 'assignment',
    list: `GET ${path}`,
    lookup: found.hasLookup ? `GET ${path}/Id/{id}` : null,
    keyFields: found.keyField === null ? keys : [found.keyField],
    isAdded: true,
  } as const
  return found.kind === 'list'
    ? { ...common, kind: 'list', defaultSchedule: '1h' }
    : {
        ...common,
        kind: 'changes',
        changes: `GET ${path}/neworchanged/{rowVersion}`,
        versionFields,
        defaultSchedule: '30s',
      }
}

const related = (
  name: string,
  group: string,
  belongsTo: RelatedStream['belongsTo'],
  more: Pick<RelatedStream, 'bulkField'> = {},
): RelatedStream => ({
  name,
  kind: 'related',
  group,
  belongsTo,
  keyFields: [`${group}Id`, 'Id', 'UID'],
  ...more,
})

export const relatedStreams: readonly RelatedStream[] = [
  related('customer', 'Customer', 'many'),
  related('employee', 'Employee', 'many'),
  related('assignment_product', 'AssignmentProduct', 'one'),
  related('assignment_service', 'AssignmentService', 'one'),
  related('assignment_quality_control', 'AssignmentQualityControl', 'one'),
  related('attachment', 'Attachment', 'one'),
  related('attachment_data', 'Attachment', 'one', { bulkField: 'FileData' }),
]

export const relatedIn = (source: string): readonly RelatedStream[] => ofSource(relatedStreams, source)

/** Of the sources that these are of. */
export const relatedBeside = (streams: readonly Named[]): readonly RelatedStream[] =>
  [...new Set(streams.map(({ name }) => sourceIn(name)))].flatMap(relatedIn)

/** Null: it is no group of related records. */
export const relatedNamed = (key: string): RelatedStream | null =>
  relatedIn(sourceIn(key)).find(({ name }) => name === key) ?? null

/** The group by whose setting the key is chosen: the bytes of attachments share that of attachments. */
export const keyOwner = ({ name, group }: Pick<RelatedStream, 'name' | 'group'>): RelatedStream => {
  const owner = relatedIn(sourceIn(name)).find((one) => one.group === group)
  if (!owner) throw new Error(`No stream is of the group ${group}.`)
  return owner
}

// The streams that somebody named.
type Named = { readonly name: string }

export function pickStreams<Stream extends Named>(
  names: readonly string[],
  configured: readonly Stream[],
): readonly Stream[] {
  if (names.length === 0) return configured
  return [...new Set(names)].map((name) => pickStream(name, configured))
}

export function pickStream<Stream extends Named>(name: string, configured: readonly Stream[]): Stream {
  const stream = configured.find((candidate) => candidate.name === name)
  if (stream) return stream
  const ofOnlySource = configured.filter((candidate) => baseOf(candidate.name) === name)
  if (ofOnlySource.length === 1 && ofOnlySource[0]) return ofOnlySource[0]
  const known = configured.map((candidate) => candidate.name)
  const [near] = nearest(name, known)
  throw new NotThere(
    `There is no stream "${name}"${near ? `; did you mean ${near}?` : '.'} The streams here are ${known.join(', ')}.`,
  )
}
