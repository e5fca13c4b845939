// The table of contents: one entry for each mirrored resource. A new stream is one more entry here.

export type Lane = 'head' | 'trailing' | 'backfill' | 'census'
export type ServiceName = 'assignment' | 'tracking'

type CommonStream = {
  readonly name: string
  readonly service: ServiceName
  /** Operations of the upstream, by their names in the table of operations. */
  readonly list: string
  readonly lookup: string | null
  /** Candidates for the key, the first that fits wins; compared without regard to case. */
  readonly keyFields: readonly string[]
  readonly defaultSchedule: string
}
export type ChangesStream = CommonStream & {
  readonly kind: 'changes'
  readonly changes: string
  readonly versionFields: readonly string[]
}
export type ListStream = CommonStream & {
  readonly kind: 'list'
  /** Every observed change is kept in a table beside the stream's own. */
  readonly keepsHistory?: boolean
}
export type Stream = ChangesStream | ListStream

const versionFields = ['RowVersion', 'SysRowVersion']

export const streams = [
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
    keepsHistory: true,
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
