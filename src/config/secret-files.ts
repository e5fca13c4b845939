// Secrets of a running worker that stand in files (NAME_FILE): when a file changes, its new value is taken up without a restart.

import type { Logger } from '../log.ts'
import type { ServiceName } from '../streams/catalog.ts'
import type { Environment } from './environment.ts'
import { peopleVariables } from './people-variables.ts'
import { readOne } from './reader.ts'
import { upstreamVariables } from './upstream-variables.ts'
import type { Variable } from './variable.ts'
import { workerVariables } from './worker-variables.ts'

const { API_KEY, TRACKING_API_KEY } = upstreamVariables
const { ADMIN_TOKEN, VIEWER_TOKEN } = workerVariables
const { OIDC_CLIENT_SECRET } = peopleVariables
const variables = {
  API_KEY,
  TRACKING_API_KEY,
  ADMIN_TOKEN,
  VIEWER_TOKEN,
  OIDC_CLIENT_SECRET,
} satisfies Record<string, Variable>
type SecretName = keyof typeof variables

export type SecretFiles = ReturnType<typeof openSecretFiles>

/** How long a token that was replaced is still taken: whoever sends it learns of the new one at another time. */
export const takenLongerMs = 10 * 60_000

type Held = { readonly value: string | null; readonly before: string | null; readonly sinceMs: number }

export function openSecretFiles(environment: Environment, now: () => number = Date.now) {
  const read = (name: SecretName) => {
    const problems: string[] = []
    const value = readOne(environment, name, variables[name], problems)
    return { value: typeof value === 'string' ? value : null, problems }
  }
  const held = new Map<SecretName, Held>()
  for (const name of Object.keys(variables) as SecretName[])
    held.set(name, { value: read(name).value, before: null, sinceMs: 0 })
  const inFiles = [...held].filter(
    ([name, { value }]) => environment[`${name}_FILE`]?.trim() && value !== null,
  )
  const told = new Map<SecretName, string | null>()
  const textOf = (name: SecretName) => held.get(name)?.value ?? null
  return {
    /** With which a service is signed in to. */
    keyOf: (service: ServiceName): string =>
      (service === 'tracking' ? textOf('TRACKING_API_KEY') : null) ?? textOf('API_KEY') ?? '',
    /** What people and programs may send. With the token before, which is taken for ten minutes longer. */
    tokensOf(role: 'admin' | 'viewer'): readonly string[] {
      const one = held.get(role === 'admin' ? 'ADMIN_TOKEN' : 'VIEWER_TOKEN')
      if (!one) return []
      const taken = now() < one.sinceMs + takenLongerMs ? [one.value, one.before] : [one.value]
      return taken.filter((token) => token !== null)
    },
    /** With which the console tells the identity provider who it is. */
    oidcClientSecret: () => textOf('OIDC_CLIENT_SECRET'),
    /** Looks at the files. Until then everything is as it was. */
    look(log: Logger) {
      for (const [name] of inFiles) {
        const { value, problems } = read(name)
        const problem = value === null ? (problems[0] ?? `${name}_FILE names a file that is empty`) : null
        if (problem !== null && problem !== told.get(name))
          log.warn(`${problem}. The value that was there before goes on.`)
        told.set(name, problem)
        const before = textOf(name)
        if (value === null || value === before) continue
        held.set(name, { value, before, sinceMs: now() })
        log.info(`${name} was taken up anew from its file.`)
      }
    },
  }
}
