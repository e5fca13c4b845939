// What the upstream says about itself, for verbs that send something: operations that no table of ours has, and whether a request is one
// that it describes. Read from the mirror; without one nothing is known, and everything is sent.

import { sourceOfEnvironment } from '../config/environment.ts'
import { loadDescriptionConfig, loadMirrorConfig } from '../config/load.ts'
import { ownValue } from '../json/json.ts'
import { checkRequest } from '../openapi/check-request.ts'
import { operationAt } from '../openapi/described-streams.ts'
import type { DescribedOperation } from '../openapi/description.ts'
import { type StoredDescription, storedDescriptions } from '../openapi/stored.ts'
import { openDatabase } from '../store/server/connect.ts'
import type { ServiceName } from '../streams/catalog.ts'
import { type Found, matchPath } from '../upstream/operations/find.ts'
import type { AnyRequest } from '../upstream/operations/request.ts'
import type { Method, Operation } from '../upstream/operations/table.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, flag, type Option } from './command.ts'
import { embeddedUrl } from './upstream-call.ts'

/** Empty if no description was read, none is to be used, or the mirror cannot be asked. */
export async function readDescriptions({
  environment,
  log,
}: Pick<Call, 'environment' | 'log'>): Promise<readonly StoredDescription[]> {
  try {
    if (loadDescriptionConfig(environment).contract === null) return []
    const url = loadMirrorConfig(environment).databaseUrl ?? (await embeddedUrl())
    if (url === null) return []
    const quiet = log.child({}, { level: 'error' })
    await using database = await openDatabase({ url, log: quiet, isReadOnly: true })
    return await storedDescriptions(database.pool, {
      source: sourceOfEnvironment(environment),
      isWhole: true,
    })
  } catch (error) {
    log.debug({ err: error }, 'could not look up what the upstream says about itself')
    return []
  }
}

const methods: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] satisfies readonly Method[]

/** Null: the upstream describes none with that method and path. Of several the one with the fewest parameters is meant. */
export function describedOperation(
  {
    description,
    service = 'assignment',
  }: Pick<StoredDescription, 'description'> & Partial<StoredDescription>,
  method: string,
  path: string,
): Found | null {
  const found = description.operations.flatMap((one) => {
    if (one.method !== method || !methods.includes(method)) return []
    const values = matchPath(one.path.split('/'), path.split('/'))
    return values ? [{ one, values }] : []
  })
  const [best] = found.toSorted((a, b) => Object.keys(a.values).length - Object.keys(b.values).length)
  if (!best) return null
  return { operation: operationOf(best.one, service), path: best.values }
}

const bodies = { json: 'any json', form: 'form', multipart: 'multipart' } as const

const operationOf = (
  { method, path, parameters, takes, bodyIs }: DescribedOperation,
  service: ServiceName,
): Operation => ({
  method: method as Method,
  name: `${method} ${path}`,
  path,
  service,
  success: 200,
  body: bodyIs !== undefined ? bodies[bodyIs] : takes === null ? 'none' : 'any json',
  query: Object.fromEntries(
    parameters.filter((one) => one.in === 'query').map(({ name }) => [name, 'text' as const]),
  ),
})

export const unchecked: Option = flag('send it even if it does not match the description of the upstream')

/** Throws a `UsageError` that names each field and the rule it breaks. */
export async function checkAsDescribed(
  call: Call,
  { service, method, path }: Operation,
  request: AnyRequest,
): Promise<void> {
  if (call.values.unchecked === true) return
  const stored = (await readDescriptions(call)).find((one) => one.service === service)
  const known = stored && operationAt(stored.description, path, method)
  if (!stored || !known) return
  const asked = {
    method,
    path: known.path,
    body: request.body as never,
    inPath: renamed(request.path ?? {}, path, known.path),
    query: request.query ?? {},
  }
  const all = checkRequest(JSON.parse(stored.document ?? 'null'), asked, (error) =>
    call.log.debug({ err: error }, 'a part of the description cannot be read; it is not checked'),
  )
  // A part that is merged into a record need not have all required fields: the record has the rest.
  const isPart = call.values.merge === true
  const complaints = all.filter((complaint) => !(isPart && complaint.endsWith(' is required')))
  if (complaints.length === 0) return
  throw new UsageError(
    `The request is not as the upstream describes it, so it was not sent:\n${complaints.map((one) => `  ${one}`).join('\n')}\nTo send it all the same: --unchecked.`,
  )
}

/** The values of a path by the names that another spelling of it has at the same places. */
function renamed(
  values: Readonly<Record<string, unknown>>,
  path: string,
  described: string,
): Readonly<Record<string, unknown>> {
  const namesIn = (text: string) => [...text.matchAll(/\{([^{}]*)\}/g)].map(([, name = '']) => name)
  const theirs = namesIn(described)
  return Object.fromEntries(
    namesIn(path).map((name, index) => [theirs[index] ?? name, ownValue(values, name)]),
  )
}
