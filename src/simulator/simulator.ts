// The stand-in upstream: identity provider, assignment service and tracking service in one process on one port. This
// file starts and stops the parts; what they do is theirs.

import { answering, type Hook } from './answering.ts'
import { type Behaviour, initialBehaviour, type Look } from './behaviour.ts'
import { startChurn } from './churn.ts'
import { openControl } from './control.ts'
import { type Fault, type Faults, scheduleFaults } from './faults.ts'
import { listen } from './http.ts'
import type { MalformedKind } from './malformed-records.ts'
import { seededRandom, uuidFrom } from './random.ts'
import { openRequestLog, type RequestLog } from './request-log.ts'
import { countVersions } from './row.ts'
import { type Counts, newIds, type OpenedState, openServiceState } from './service-state.ts'
import type { Source } from './source.ts'
import { type Credentials, openTokens, type Tokens } from './tokens.ts'
import { type Deliveries, startDeliveries } from './webhooks.ts'

export type SimulatorOptions = Partial<Counts> & {
  readonly host?: string
  /** 0, the default, picks a free one. */
  readonly port?: number
  readonly seed?: number
  /** Which service it looks like. */
  readonly look?: Look
  readonly credentials?: Partial<Credentials>
  readonly behaviour?: Partial<Behaviour>
  readonly faults?: readonly Fault[]
  readonly churnPerSecond?: number
  /** Malformed assignments, one of each kind. */
  readonly malformed?: readonly MalformedKind[]
  readonly firstRowVersion?: bigint
  /** Other clients that the same sign-in may name, with records of their own. */
  readonly otherClients?: readonly (Partial<Counts> & { readonly guid: string })[]
  /** False: there are no customers, employees and children but those that are inserted. */
  readonly hasGeneratedRecords?: boolean
  /** The clock by which a replica lags. */
  readonly now?: () => number
}

export type Upstream = {
  readonly answer: ReturnType<typeof answering>
  readonly look: Look
  readonly credentials: Credentials
  readonly source: Source
  /** The data of another client. */
  sourceOf(guid: string): Source
  readonly behaviour: Behaviour
  readonly faults: Faults
  readonly requests: RequestLog
  readonly deliveries: Deliveries
  /** Calls the hook before each request, which waits for it. Returns what takes the hook away again. */
  onRequest(hook: Hook): () => void
  /** Of its sign-in. */
  readonly tokens: Tokens
  /** Every token handed out so far is rejected from now on. */
  revokeTokens(): void
  /** Nothing changes by itself from now on. */
  stopChanges(): void
  close(): Promise<void>
}
export type Simulator = Upstream &
  AsyncDisposable & { readonly authUrl: string; readonly assignmentUrl: string; readonly trackingUrl: string }

export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const upstream = openUpstream(options)
  const at = { host: options.host ?? '127.0.0.1', port: options.port ?? 0 }
  const server = await listen(at, upstream.answer).catch(async (error) => {
    await upstream.close()
    throw error
  })
  return simulatorAt(server.origin, upstream, async () => {
    await upstream.close()
    await server.close()
  })
}

/** `close`: what ends both. */
export const simulatorAt = (origin: string, upstream: Upstream, close: () => Promise<void>): Simulator => ({
  ...upstream,
  authUrl: `${origin}/auth`,
  assignmentUrl: `${origin}/assignment`,
  trackingUrl: `${origin}/tracking`,
  close,
  [Symbol.asyncDispose]: close,
})

/** Without a port of its own. `tokens`: of a sign-in that it shares with others. */
export function openUpstream(options: SimulatorOptions & { readonly tokens?: Tokens }): Upstream {
  const { seed = 1, look = 'plain' } = options
  const behaviour = initialBehaviour(options.behaviour, look)
  const credentials = withDefaults(options.credentials, seed)
  const clients = openClients({ ...options, seed, look }, behaviour, credentials.clientGuid)
  const first = clientOf(clients, credentials.clientGuid)
  const faults = scheduleFaults(seed)
  for (const fault of options.faults ?? []) faults.add(fault)
  for (const kind of options.malformed ?? []) first.source.insertMalformed(kind)
  const tokens = options.tokens ?? openTokens(credentials, behaviour)
  const log = openRequestLog()
  const hooks = new Set<Hook>()
  const control = openControl({ look, behaviour, source: first.source, faults, log })
  const answer = answering({ control, clients, first, behaviour, faults, tokens, log, hooks })
  const deliveries = startDeliveries({ ...first, clientGuid: credentials.clientGuid })
  const churn = options.churnPerSecond
    ? startChurn({ ...first, random: seededRandom(seed + 2), changesPerSecond: options.churnPerSecond })
    : null
  return {
    answer,
    look,
    credentials,
    source: first.source,
    sourceOf: (guid) => clientOf(clients, guid).source,
    behaviour,
    faults,
    requests: log,
    deliveries,
    onRequest(hook) {
      hooks.add(hook)
      return () => hooks.delete(hook)
    },
    tokens,
    revokeTokens: tokens.revoke,
    stopChanges: () => churn?.stop(),
    async close() {
      churn?.stop()
      for (const { writes } of clients.values()) writes.close()
      await deliveries.close()
    },
  }
}

const withDefaults = (given: Partial<Credentials> | undefined, seed: number): Credentials => ({
  clientGuid: uuidFrom(seed, 0, 900),
  subjectId: `integration-${seed}`,
  apiKey: `stand-in-key-${seed}`,
  ...given,
})

type Clients = ReadonlyMap<string, OpenedState>

function openClients(
  options: SimulatorOptions & { readonly seed: number; readonly look: Look },
  behaviour: Behaviour,
  clientGuid: string,
): Clients {
  const { seed, look, firstRowVersion = 1n, hasGeneratedRecords = true, otherClients = [] } = options
  const { now = Date.now } = options
  const versions = countVersions(behaviour, firstRowVersion)
  const shared = { look, behaviour, seed, versions, ids: newIds(), hasGeneratedRecords, now, states: [] }
  const clients = new Map<string, OpenedState>()
  for (const client of [{ ...options, guid: clientGuid }, ...otherClients]) {
    const { assignments = 0, notes = 0, trackers = 0, objects = 0 } = client
    const state = openServiceState(shared, { assignments, notes, trackers, objects })
    clients.set(client.guid.toLowerCase(), state)
  }
  return clients
}

function clientOf(clients: Clients, guid: string): OpenedState {
  const state = clients.get(guid.toLowerCase())
  if (!state) throw new Error(`There is no client ${guid}.`)
  return state
}

// What somebody needs who has just started the stand-in: where it is, who may sign in, and something to paste.
type Known = Pick<
  Simulator,
  'authUrl' | 'assignmentUrl' | 'trackingUrl' | 'credentials' | 'behaviour' | 'source' | 'look'
>

export function introduction(simulator: Known): string {
  const { authUrl, assignmentUrl, trackingUrl, credentials, source, behaviour } = simulator
  const { clientGuid, subjectId, apiKey } = credentials
  const signIn = JSON.stringify({ clientId: 3, subjectId, apiKey })
  return `The stand-in upstream is up; Ctrl-C stops it.

  identity provider    ${authUrl}
  assignment service   ${assignmentUrl}
  tracking service     ${trackingUrl}
  records              ${source.count('assignment')} assignments, ${source.count('assignment_note')} notes, ${source.count('assignment_object')} objects, ${source.count('tracker_object')} vehicles

For a .env file:

ASSIGNMENT_BASE_URL=${assignmentUrl}
TRACKING_BASE_URL=${trackingUrl}
AUTH_URL=${authUrl}
CLIENT_GUID=${clientGuid}
SUBJECT_ID=${subjectId}
API_KEY=${apiKey}
SOURCE_TIMEZONE=${behaviour.timeZone}

To sign in, and to ask for five assignments:

TOKEN=$(curl -s ${authUrl}/Token/GenerateAccessTokenFromCache -H 'Content-Type: application/json' \\
  -d ${shellQuoted(signIn)} | ${tokenCut(behaviour)})
curl -s '${assignmentUrl}/api/Assignment/neworchanged/0?Page=1&PageSize=5&Sorts=${versionName(behaviour)}' \\
  -H "Authorization: Bearer $TOKEN" -H 'clientId: ${clientGuid}'

`
}

/** As the service shows it; the recorded one knows names in any case. */
const versionName = ({ rowVersionField }: Behaviour) =>
  rowVersionField === 'RowVersion' ? 'RowVersion' : 'SysRowVersion'

const shellQuoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

function tokenCut({ tokenShape, tokenField }: Simulator['behaviour']): string {
  if (tokenShape === 'plain-text') return 'cat'
  return tokenShape === 'json-string'
    ? `tr -d '"'`
    : shellFilter(`s/.*"${tokenField.replace(/[^\w-]/g, '.')}":"\\([^"]*\\)".*/\\1/`)
}

const shellFilter = (expression: string) => `sed ${shellQuoted(expression)}`
