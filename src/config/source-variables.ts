// Which variables a source can say for itself, and which are said once for the whole deployment.

import { mirrorVariables } from './mirror-variables.ts'
import { proxyVariables } from './proxy-variables.ts'
import { streamVariables } from './stream-variables.ts'
import { upstreamVariables } from './upstream-variables.ts'
import type { Variable } from './variable.ts'
import { workerVariables } from './worker-variables.ts'

const { SOURCE_TIMEZONE, DICTIONARY, FIELD_TIMEZONES, BI_ROLE, BI_SCHEMAS, INDEXES } = mirrorVariables
const { SCHEDULE_RECONCILE, SCHEDULE_DELETIONS, WEBHOOK_SECRET, WEBHOOK_SIGNING_SECRET } = workerVariables
const { STALE_AFTER, DELETIONS_FROZEN_AFTER, FORGET_DELETED } = workerVariables

/** What a source can say for itself, besides what there is of each stream. All else is said once, by the environment. */
export const sourceVariables: Readonly<Record<string, Variable>> = {
  ...Object.fromEntries(Object.entries(upstreamVariables).filter(([name]) => !(name in proxyVariables))),
  ...{ SOURCE_TIMEZONE, DICTIONARY, FIELD_TIMEZONES, BI_ROLE, BI_SCHEMAS, INDEXES },
  ...{ SCHEDULE_RECONCILE, SCHEDULE_DELETIONS, WEBHOOK_SECRET, WEBHOOK_SIGNING_SECRET },
  ...{ STALE_AFTER, DELETIONS_FROZEN_AFTER, FORGET_DELETED },
}
const families = Object.keys(streamVariables).map((family) => `${family}_`)

/** Whether each source has its own. */
export const isOfSource = (name: string): boolean =>
  name in sourceVariables || families.some((one) => name.startsWith(one))
