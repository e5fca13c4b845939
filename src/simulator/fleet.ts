// The upstream of many clients in one process: several hosts, each a port with services of one make; on each, clients of different size and
// speed, with sign-ins of their own or a shared one, and with data, switches, faults and a log of requests for each. Which client a request is
// of, its header says.

import { empty, json } from './answer.ts'
import { plainly } from './answering.ts'
import type { Behaviour, Look } from './behaviour.ts'
import { type DialectName, dialectNames } from './dialects.ts'
import { type Fault, mildMix } from './faults.ts'
import { type Exchange, listen, type Outcome } from './http.ts'
import { uuidFrom } from './random.ts'
import { mostWithin } from './request-log.ts'
import { openUpstream, type Simulator, simulatorAt, type Upstream } from './simulator.ts'
import type { Tokens } from './tokens.ts'

export type FleetOptions = {
  readonly clients: number
  /** Left out: one for ten clients, and at least two. */
  readonly hosts?: number | undefined
  readonly host?: string | undefined
  /** Of the first host, the others follow; 0, the default, picks free ones. */
  readonly port?: number
  readonly seed?: number
  /** Of the largest clients. Others have half of it, or less. */
  readonly assignments?: number
  /** In all of them together. */
  readonly churnPerSecond?: number
  /** What holds for every client, whatever its host and its number say. */
  readonly behaviour?: Partial<Behaviour>
  /** Strike every client; each tenth has some anyway. */
  readonly faults?: readonly Fault[]
  /** False: no client has faults, but those that are given. */
  readonly hasOwnFaults?: boolean
}

export type FleetClient = Simulator & {
  /** Of its source. */
  readonly name: string
  /** Where its host listens. */
  readonly origin: string
}
export type Fleet = AsyncDisposable & {
  readonly clients: readonly FleetClient[]
  readonly origins: readonly string[]
  /** When requests of these clients came, rising. */
  timesOf(clients: readonly FleetClient[]): readonly number[]
  close(): Promise<void>
}

const shares = [1, 0.2, 0.05, 0.1, 0.05, 0.5]
const latenciesMs = [null, 10, null, 40, 150]
const faultsOfEach = 10
/** Of the clients of a host, each one whose number is a multiple of this signs in for itself. */
const ownSignIn = 4

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const { clients: count, host = '127.0.0.1', port = 0 } = options
  const hostCount = Math.min(count, options.hosts ?? Math.max(2, Math.ceil(count / 10)))
  await using opened = new AsyncDisposableStack()
  const hosts: { readonly origin: string; readonly members: readonly Member[] }[] = []
  // One after the other: if a port is taken, what was opened so far is closed.
  for (let index = 0; index < hostCount; index++) {
    const members = membersOf(options, hostCount, index)
    for (const { upstream } of members) opened.defer(upstream.close)
    const at = { host, port: port === 0 ? 0 : port + index }
    const server = await listen(at, answeringFor(members))
    opened.defer(server.close)
    hosts.push({ origin: server.origin, members })
  }
  const ending = opened.move()
  const close = () => ending.disposeAsync()
  const clients = hosts
    .flatMap(({ origin, members }) =>
      members.map(({ name, upstream }) => ({
        ...simulatorAt(origin, upstream, upstream.close),
        name,
        origin,
      })),
    )
    .toSorted((one, other) => one.name.localeCompare(other.name))
  return {
    clients,
    origins: hosts.map(({ origin }) => origin),
    timesOf: (some) => some.flatMap(({ requests }) => requests.times).toSorted((a, b) => a - b),
    close,
    [Symbol.asyncDispose]: close,
  }
}

type Member = { readonly name: string; readonly upstream: Upstream }

/** The clients of one host, dealt out in turn over the hosts. */
function membersOf(options: FleetOptions, hostCount: number, host: number): readonly Member[] {
  const { clients, seed = 1 } = options
  const own = (index: number) => Math.floor(index / hostCount) % ownSignIn === ownSignIn - 1
  const behaviour = { ...makeOf(host), ...options.behaviour }
  const signIn = (number: number) => ({
    subjectId: `integration-${seed}-${number}`,
    apiKey: `stand-in-key-${seed}-${uuidFrom(seed, number, 902)}`,
  })
  let shared: Tokens | undefined
  return Array.from({ length: clients }, (_, index) => index)
    .filter((index) => index % hostCount === host)
    .map((index) => {
      const clientGuid = uuidFrom(seed, index, 901)
      const credentials = { clientGuid, ...signIn(own(index) ? hostCount + index : host) }
      const upstream = openUpstream({
        ...sizeOf(options, index),
        seed: seed + index,
        look: lookOf(host),
        credentials,
        faults: faultsOf(options, index),
        behaviour: { latencyMs: latenciesMs[index % latenciesMs.length] ?? null, ...behaviour },
        ...(!own(index) && shared && { tokens: shared }),
      })
      if (!own(index)) shared ??= upstream.tokens
      return { name: `c${String(index + 1).padStart(3, '0')}`, upstream }
    })
}

const lookOf = (host: number): Look => (host % 4 === 3 ? 'plain' : 'recorded')

/** All clients of a host meet one make of service. */
function makeOf(host: number): Partial<Behaviour> {
  const dialect: DialectName = dialectNames[host % dialectNames.length] ?? 'sieve'
  return {
    dialect,
    ...(host % 3 === 1 && { deletes: 'hard' as const }),
    ...(host % 5 === 2 && { pageCap: 200 }),
  }
}

function sizeOf({ assignments = 1_000, churnPerSecond = 0, clients }: FleetOptions, index: number) {
  const size = Math.ceil(assignments * (shares[index % shares.length] ?? 1))
  return {
    assignments: size,
    notes: size,
    objects: Math.ceil(size / 10),
    churnPerSecond: churnPerSecond / clients,
    hasGeneratedRecords: false,
  }
}

const faultsOf = ({ faults = [], hasOwnFaults = true }: FleetOptions, index: number): readonly Fault[] => [
  ...faults,
  ...(hasOwnFaults && index % faultsOfEach === faultsOfEach - 1 ? mildMix : []),
]

function answeringFor(members: readonly Member[]): (exchange: Exchange) => Promise<Outcome> {
  const [first] = members
  if (!first) throw new Error('A host needs a client.')
  const byGuid = new Map(members.map(({ upstream }) => [upstream.credentials.clientGuid, upstream]))
  return (exchange) => {
    const { request } = exchange
    if (request.service === 'control') return controlled(members, exchange)
    const upstream =
      request.service === 'auth'
        ? members.find(({ upstream: { credentials } }) => request.body.includes(`"${credentials.subjectId}"`))
            ?.upstream
        : byGuid.get(String(request.headers.clientid ?? '').toLowerCase())
    return (upstream ?? first.upstream).answer(exchange)
  }
}

const summary = ({ name, upstream: { source, requests, faults, behaviour } }: Member) => ({
  name,
  assignments: source.count('assignment'),
  requests: requests.times.length,
  mostInOneSecond: mostWithin(1_000, requests.times),
  faultsStruck: faults.struck,
  latencyMs: behaviour.latencyMs,
})

/** GET /simulator lists the clients; below /simulator/NAME is what a simulator of one client has at /simulator. */
async function controlled(members: readonly Member[], exchange: Exchange): Promise<Outcome> {
  const { request } = exchange
  const [, name = '', rest = ''] = /^\/(\w*)(.*)$/.exec(request.path) ?? []
  const member = members.find((one) => one.name === name)
  if (member) return await member.upstream.answer({ ...exchange, request: { ...request, path: rest || '/' } })
  return plainly(name === '' ? json(200, { clients: members.map(summary) }) : empty(404))
}
