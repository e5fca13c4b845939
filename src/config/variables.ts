// All variables, as the manual and `tidemark config` show them.

import { mirrorVariables } from './mirror-variables.ts'
import { peopleVariables } from './people-variables.ts'
import { upstreamVariables } from './upstream-variables.ts'
import type { Variable } from './variable.ts'
import { workerVariables } from './worker-variables.ts'

export const variableGroups: readonly (readonly [
  title: string,
  variables: Readonly<Record<string, Variable>>,
])[] = [
  ['The upstream, and what is copied', upstreamVariables],
  ['The copy', mirrorVariables],
  ['The worker', workerVariables],
  ['Signing in to the console', peopleVariables],
]

export const variables: Readonly<Record<string, Variable>> = {
  ...mirrorVariables,
  ...upstreamVariables,
  ...workerVariables,
  ...peopleVariables,
}
