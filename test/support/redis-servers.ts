// Redis as deployments have it, of real processes that can be killed and frozen: a primary with replicas and sentinels, or a cluster.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { freePort } from '../../src/embedded-postgres/cluster.ts'

export type RedisServer = {
  readonly port: number
  /** A command, as an operator would give it. */
  tell(command: string, ...words: string[]): Promise<unknown>
  /** It keeps its connections, and answers nothing until it is thawed. */
  freeze(): void
  thaw(): void
  kill(): Promise<void>
  /** After it was killed, with the settings that it has written down since. */
  start(): Promise<void>
}

type Operator = {
  readonly username?: string
  readonly password?: string
  readonly tls?: { readonly ca: string }
}
type Given = {
  readonly directory: string
  readonly port: number
  readonly isSentinel?: boolean
  readonly settings: readonly string[]
  /** How operators connect. */
  readonly operator?: Operator
}

export async function startRedisServer(given: Given): Promise<RedisServer> {
  const { directory, port, isSentinel = false, settings, operator = {} } = given
  const place = join(directory, `redis-${port}`)
  mkdirSync(place, { recursive: true })
  const file = join(place, 'redis.conf')
  const own = [`dir ${place}`, 'bind 127.0.0.1', operator.tls ? `tls-port ${port}` : `port ${port}`]
  if (operator.tls) own.push('port 0')
  if (!isSentinel) own.push('save ""', 'repl-diskless-sync-delay 0', 'repl-ping-replica-period 1')
  writeFileSync(file, [...own, ...settings, ''].join('\n'))
  let server = await begin()

  async function begin(): Promise<ChildProcess> {
    const child = spawn('redis-server', isSentinel ? [file, '--sentinel'] : [file], { stdio: 'ignore' })
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`redis-server with ${file} ended with code ${code}`)
    })
    ended.catch(() => {})
    await Promise.race([untilReady(), ended])
    return child
  }
  /** Until it has read what it has written down. */
  async function untilReady(): Promise<void> {
    for (;;)
      try {
        return void (await tell('PING'))
      } catch (error) {
        if (!/^LOADING/.test(String((error as Error).message))) throw error
        await wait(50)
      }
  }
  async function tell(command: string, ...words: string[]): Promise<unknown> {
    const redis = new Redis({
      ...{ port, host: '127.0.0.1', enableReadyCheck: false, maxRetriesPerRequest: null },
      ...{ retryStrategy: () => 50, ...operator },
    })
    redis.on('error', () => {})
    try {
      return await redis.call(command, ...words)
    } finally {
      redis.disconnect()
    }
  }
  async function kill(): Promise<void> {
    if (server.exitCode !== null || server.signalCode !== null) return
    const ended = once(server, 'exit')
    server.kill('SIGKILL')
    await ended
  }
  return {
    ...{ port, tell, kill },
    freeze: () => void server.kill('SIGSTOP'),
    thaw: () => void server.kill('SIGCONT'),
    async start() {
      server = await begin()
    },
  }
}

async function untilTrue(what: string, isTrue: () => Promise<boolean>, longestMs = 60_000): Promise<void> {
  const endsMs = performance.now() + longestMs
  while (!(await isTrue().catch(() => false))) {
    if (performance.now() > endsMs) throw new Error(`${what}: not within ${longestMs} ms`)
    await wait(50)
  }
}

/** The rules that the manual gives to users of Redis. */
export function rulesOf(user: string): string {
  const manual = readFileSync(new URL('../../docs/guides/redis.md', import.meta.url), 'utf8')
  const [, rules] = new RegExp(`^ACL SETUSER ${user} (.+)$`, 'm').exec(manual) ?? []
  if (rules === undefined) throw new Error(`the manual has no rules for ${user}`)
  return rules.replace(/>\S+/, `>word-of-${user}`)
}

/** What a user was refused since this was asked for last. */
export async function deniedBy({ tell }: RedisServer): Promise<readonly string[]> {
  const denied = ((await tell('ACL', 'LOG')) as unknown[]).map(String)
  await tell('ACL', 'LOG', 'RESET')
  return denied
}

export const primaryName = 'tidemark-primary'

export type Sentinels = AsyncDisposable & {
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]
  /** Of what the sentinels call the primary. */
  primary(): Promise<RedisServer>
  /** Once they all call another one the primary than before; the milliseconds since then, at the latest. */
  untilMoved(from: RedisServer): Promise<void>
  /** All servers follow the primary, and all sentinels know that. */
  untilWhole(): Promise<void>
}

/** `secured`: the lines that each of them has, and how whoever tells them something connects. */
export async function startSentinels(given: {
  readonly directory: string
  readonly servers: number
  readonly sentinels: number
  readonly downAfterMs: number
  readonly secured?: {
    readonly server: readonly string[]
    readonly sentinel: readonly string[]
    /** Behind `sentinel`, as it is told of the primary. */
    readonly monitor: readonly string[]
    readonly operator: Operator
    readonly sentinelOperator: Operator
  }
}): Promise<Sentinels> {
  const { directory, downAfterMs, secured } = given
  await using started = new AsyncDisposableStack()
  const ports = await Promise.all(Array.from({ length: given.servers }, freePort))
  const [first] = ports
  const servers = await Promise.all(
    ports.map(async (port) => {
      const follows = port === first ? [] : [`replicaof 127.0.0.1 ${first}`]
      const settings = [...follows, ...(secured?.server ?? [])]
      const operator = secured?.operator ?? {}
      const server = await startRedisServer({ directory, port, settings, operator })
      started.defer(server.kill)
      return server
    }),
  )
  await untilTrue('the replicas follow', async () => {
    const told = await Promise.all(servers.map((server) => server.tell('INFO', 'replication')))
    return told.every((info) => /role:master|master_link_status:up/.test(String(info)))
  })
  const sentinels: RedisServer[] = []
  for (let nth = 0; nth < given.sentinels; nth++) {
    const sentinel = await startRedisServer({
      ...{ directory, port: await freePort(), isSentinel: true },
      settings: [
        ...(secured?.sentinel ?? []),
        `sentinel monitor ${primaryName} 127.0.0.1 ${first} ${Math.ceil((given.sentinels + 1) / 2)}`,
        `sentinel down-after-milliseconds ${primaryName} ${downAfterMs}`,
        `sentinel failover-timeout ${primaryName} 4000`,
        ...(secured?.monitor ?? []).map((line) => `sentinel ${line}`),
      ],
      operator: secured?.sentinelOperator ?? {},
    })
    started.defer(sentinel.kill)
    sentinels.push(sentinel)
  }
  // They have to know each other, and the replicas, before one of them can be made the primary.
  const untilWhole = () =>
    untilTrue('the sentinels know each other, and replicas that follow', async () => {
      const asked = (word: string) =>
        Promise.all(sentinels.map((one) => one.tell('SENTINEL', word, primaryName)))
      const [quorums, replicas, others] = [
        await asked('ckquorum'),
        await asked('replicas'),
        await asked('sentinels'),
      ]
      const isReplica = (one: unknown) => /flags,slave,.*master-link-status,ok/.test(String(one))
      return (
        quorums.every((text) => String(text).startsWith('OK')) &&
        others.every((found) => (found as unknown[]).length === given.sentinels - 1) &&
        replicas.every((found) => (found as unknown[]).filter(isReplica).length === given.servers - 1)
      )
    })
  await untilWhole()
  const named = async (): Promise<readonly number[]> => {
    const told = await Promise.all(
      sentinels.map((one) => one.tell('SENTINEL', 'get-master-addr-by-name', primaryName)),
    )
    return told.map((address) => Number((address as [string, string])[1]))
  }
  const ended = started.move()
  return {
    ...{ servers, sentinels, untilWhole },
    async primary() {
      const [port] = await named()
      const found = servers.find((server) => server.port === port)
      if (!found) throw new Error(`no server has the port ${port}`)
      return found
    },
    async untilMoved(from) {
      await untilTrue('the sentinels agree on another primary', async () => {
        const ports = new Set(await named())
        return ports.size === 1 && !ports.has(from.port)
      })
    },
    [Symbol.asyncDispose]: () => ended.disposeAsync(),
  }
}

type Node = RedisServer & { readonly id: string }
export type RedisCluster = AsyncDisposable & {
  readonly nodes: readonly Node[]
  /** The node that has the keys of this slot. */
  nodeOf(key: string): Promise<Node>
  /** To the next node, as `redis-cli --cluster reshard` does it; `half` when half of its keys are there. */
  moveSlot(key: string, half: () => Promise<void>): Promise<void>
  untilWhole(): Promise<void>
}

const slots = 16_384

/** Of primaries with the same share of the slots each. They know each other from a file, as after a restart: so nobody has to introduce them. */
export async function startRedisCluster(given: {
  readonly directory: string
  readonly nodes: number
  readonly secured?: { readonly settings: readonly string[]; readonly operator: Operator }
}): Promise<RedisCluster> {
  const { directory, secured } = given
  await using started = new AsyncDisposableStack()
  const members = await Promise.all(
    Array.from({ length: given.nodes }, async (_, nth) => {
      const from = Math.ceil((slots / given.nodes) * nth)
      const to = Math.ceil((slots / given.nodes) * (nth + 1)) - 1
      const id = randomBytes(20).toString('hex')
      return { id, port: await freePort(), bus: await freePort(), range: `${from}-${to}` }
    }),
  )
  const lineOf = (one: (typeof members)[number], isItself: boolean) =>
    `${one.id} 127.0.0.1:${one.port}@${one.bus} ${isItself ? 'myself,master' : 'master'} - 0 0 1 connected ${one.range}`
  const nodes = await Promise.all(
    members.map(async (member) => {
      const file = join(directory, `nodes-${member.port}.conf`)
      mkdirSync(directory, { recursive: true })
      const known = members.map((one) => lineOf(one, one === member))
      writeFileSync(file, `${known.join('\n')}\nvars currentEpoch 1 lastVoteEpoch 0\n`)
      const settings = ['cluster-enabled yes', `cluster-port ${member.bus}`, `cluster-config-file ${file}`]
      const server = await startRedisServer({
        directory,
        port: member.port,
        settings: [...settings, 'cluster-node-timeout 3000', ...(secured?.settings ?? [])],
        operator: secured?.operator ?? {},
      })
      started.defer(server.kill)
      return { ...server, id: member.id }
    }),
  )
  const untilWhole = () =>
    untilTrue('the cluster is whole', async () => {
      const told = await Promise.all(nodes.map((node) => node.tell('CLUSTER', 'INFO')))
      return told.every((info) => /cluster_state:ok.*cluster_slots_ok:16384/s.test(String(info)))
    })
  await untilWhole()
  const ended = started.move()
  const nodeOf = async (key: string) => {
    const slot = String(await nodes[0]?.tell('CLUSTER', 'KEYSLOT', key))
    const counts = await Promise.all(nodes.map((node) => node.tell('CLUSTER', 'COUNTKEYSINSLOT', slot)))
    const node = nodes[counts.findIndex((count) => Number(count) > 0)]
    if (!node) throw new Error(`no node has keys in the slot of ${key}`)
    return node
  }
  async function moveSlot(key: string, half: () => Promise<void>): Promise<void> {
    const slot = String(await nodes[0]?.tell('CLUSTER', 'KEYSLOT', key))
    const from = await nodeOf(key)
    const to = nodes[(nodes.indexOf(from) + 1) % nodes.length] ?? from
    const keysOf = async () => (await from.tell('CLUSTER', 'GETKEYSINSLOT', slot, '1000')) as string[]
    const { username, password } = secured?.operator ?? {}
    const auth = username && password ? ['AUTH2', username, password] : []
    const move = (keys: readonly string[]) =>
      from.tell('MIGRATE', '127.0.0.1', String(to.port), '', '0', '5000', ...auth, 'KEYS', ...keys)
    await to.tell('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
    await from.tell('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
    const keys = await keysOf()
    await move(keys.slice(0, Math.ceil(keys.length / 2)))
    const going = half()
    for (let left = await keysOf(); left.length > 0; left = await keysOf()) await move(left)
    for (const node of [to, from, ...nodes]) await node.tell('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
    await going
  }
  return { nodes, nodeOf, moveSlot, untilWhole, [Symbol.asyncDispose]: () => ended.disposeAsync() }
}
