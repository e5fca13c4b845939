// All variables, as the manual and `tidemark config` show them, and which of them a source can say for itself.

import { mirrorVariables } from './mirror-variables.ts'
import { peopleVariables } from './people-variables.ts'
import { prefixesOfStreams } from './stream-variables.ts'
import { proxyVariables, upstreamVariables } from './upstream-variables.ts'
import type { Variable } from './variable.ts'
import { workerVariables } from './worker-variables.ts'

type Variables = Readonly<Record<string, Variable>>

export const variableGroups: readonly (readonly [title: string, variables: Variables])[] = [
  ['The upstream, and what is copied', upstreamVariables],
  ['The copy', mirrorVariables],
  ['The worker', workerVariables],
  ['Signing in to the console', peopleVariables],
]

export const variables: Variables = {
  ...mirrorVariables,
  ...upstreamVariables,
  ...workerVariables,
  ...peopleVariables,
}

const { SOURCE_TIMEZONE, DICTIONARY, FIELD_TIMEZONES, BI_ROLE, BI_SCHEMAS, INDEXES } = mirrorVariables
const { SCHEDULE_RECONCILE, SCHEDULE_DELETIONS, WEBHOOK_SECRET, WEBHOOK_SIGNING_SECRET } = workerVariables
const { STALE_AFTER, DELETIONS_FROZEN_AFTER, FORGET_DELETED } = workerVariables

/** What a source can say for itself, besides what there is of each stream. All else is said once, by the environment. */
export const sourceVariables: Variables = {
  ...Object.fromEntries(Object.entries(upstreamVariables).filter(([name]) => !(name in proxyVariables))),
  SOURCE_TIMEZONE,
  DICTIONARY,
  FIELD_TIMEZONES,
  BI_ROLE,
  BI_SCHEMAS,
  INDEXES,
  SCHEDULE_RECONCILE,
  SCHEDULE_DELETIONS,
  WEBHOOK_SECRET,
  WEBHOOK_SIGNING_SECRET,
  STALE_AFTER,
  DELETIONS_FROZEN_AFTER,
  FORGET_DELETED,
}

/** Whether each source has its own. */
export const isOfSource = (name: string): boolean =>
  name in sourceVariables || prefixesOfStreams.some((one) => name.startsWith(one))
