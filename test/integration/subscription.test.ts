// How the worker subscribes to webhooks: by the names that the upstream has, with a secret, and with a problem when it cannot.

import { afterAll, describe, expect, it } from 'vitest'
import { loadConfig, signingSecretOf } from '../../src/config/load.ts'
import type { DescriptionPlace } from '../../src/config/parsers.ts'
import { readProblems } from '../../src/problems/find-problems.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { hookRoute } from '../../src/web/monitoring.ts'
import { startHttpServer } from '../../src/web/server.ts'
import { keepSubscribed, unsubscribe } from '../../src/worker/subscription.ts'
import { noSignal, openSimulatorClient } from '../support/client.ts'
import { openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { streamOf } from '../support/streams.ts'

const secret = 'a-webhook-secret-of-the-tests'
const signingSecret = 'a-signing-secret-of-the-tests'

describe.skipIf(!hasPostgres)('the own subscription', () => {
  const database = createTestDatabase({ forEach: true })

  /** Until what is expected is seen. */
  async function subscribe(
    simulator: Simulator,
    until: () => Promise<void>,
    options: { readonly publicUrl?: string; readonly contract?: DescriptionPlace | null } = {},
  ): Promise<void> {
    const upstream = openSimulatorClient(simulator)
    const stopping = new AbortController()
    const { publicUrl = 'http://127.0.0.1:9', contract = { kind: 'usual' } } = options
    const subscribing = keepSubscribed({
      ...{ source: '', upstream, pool: database.pool, publicUrl, secret, signingSecret, contract },
      ...{ signal: stopping.signal, log: quietLog },
    })
    try {
      await until()
    } finally {
      stopping.abort(new Error('the test is over'))
      await subscribing
      upstream.close()
    }
  }
  const posted = (simulator: Simulator) =>
    simulator.requests.entries
      .filter(({ method, path }) => method === 'POST' && path.endsWith('/subscription'))
      .map(({ status, body }) => [status, JSON.parse(body || '{}')] as const)
  const problems = async () => {
    const config = loadConfig(environmentFor(await idle, database))
    const view = { parts: [] }
    return await readProblems({ pool: database.pool, streams, config, view, now: new Date() })
  }
  const idle = startSimulator({ assignments: 1 })
  afterAll(async () => await (await idle).close())

  it('takes the names of its fields from what the upstream says of itself, and gives it a secret', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3, notes: 1 })
    simulator.requests.start()
    const wanted = [1, 2, 3, 4, 5, 6].map((webhookDefinitionId) => [
      201,
      { webhookDefinitionId, url: `http://127.0.0.1:9/hooks/${secret}`, secret: signingSecret },
    ])
    await subscribe(simulator, () => expect.poll(() => posted(simulator)).toEqual(wanted))
  })

  it('is ended by each worker at once without a fault when its source is gone', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3, notes: 1 })
    const count = () => simulator.source.count('webhook_subscription')
    const upstream = openSimulatorClient(simulator)
    const before = count()
    await subscribe(simulator, () => expect.poll(count).toBe(before + 6))
    const given = { source: '', upstream, publicUrl: 'http://127.0.0.1:9', secret, signal: noSignal }
    const ended = await Promise.all([unsubscribe(given), unsubscribe(given)])
    upstream.close()
    expect(ended[0] + ended[1]).toBe(6)
    expect(count()).toBe(before)
  })

  it('takes them from what the upstream says it misses, where it says nothing of itself', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3, notes: 1 })
    simulator.requests.start()
    // A subscription of somebody else, by an older interface.
    simulator.source.appendRaw(
      'webhook_subscription',
      '{"id":"x","webhookDefinitionId":1,"targetUri":"https://other.example"}',
      {
        id: 900,
      },
    )
    await subscribe(
      simulator,
      () =>
        expect.poll(() => posted(simulator).map(([status]) => status)).toEqual([400, ...Array(6).fill(201)]),
      { contract: null },
    )
  })

  it('that cannot be made is a problem with what the upstream answered, until it can', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3, notes: 1 })
    simulator.faults.add({ kind: 403, path: 'Webhooks/subscription', method: 'POST' })
    const told = async () => (await problems()).map(({ key, what }) => [key, what])
    await subscribe(simulator, () =>
      expect
        .poll(told)
        .toEqual([
          [
            'webhooks:subscription',
            expect.stringMatching(/could not subscribe to webhooks: POST .+ status 403/),
          ],
        ]),
    )
    simulator.faults.clear()
    await subscribe(simulator, () => expect.poll(told).toEqual([]))
  })

  it('is signed for: a delivery is believed when its signature fits, and refused when it does not', async () => {
    let deliveries = 0
    const receiver = await startHttpServer({
      ...{ host: '127.0.0.1', port: 0, log: quietLog },
      routes: [hookRoute({ secret, signingSecret, onDelivery: () => void deliveries++, log: quietLog })],
    })
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3, notes: 1 })
    try {
      await subscribe(
        simulator,
        () => expect.poll(() => simulator.source.count('webhook_subscription')).toBe(6),
        { publicUrl: receiver.url },
      )
      simulator.source.change('assignment', 1)
      await expect.poll(() => deliveries).toBe(1)
      const forged = (headers: Record<string, string>) =>
        fetch(`${receiver.url}/hooks/${secret}`, { method: 'POST', body: '{}', headers })
      expect((await forged({ 'x-webhook-signature': `sha256=${'0'.repeat(64)}` })).status).toBe(401)
      expect(deliveries).toBe(1)
      expect((await forged({})).status).toBe(202)
      expect(deliveries).toBe(2)
    } finally {
      await receiver.close()
    }
  })

  it('follows from the secret of the address, unless another one was chosen', () => {
    const derived = signingSecretOf({ webhookSecret: secret, webhookSigningSecret: null })
    expect(derived).toMatch(/^[\w-]{32}$/)
    expect(signingSecretOf({ webhookSecret: secret, webhookSigningSecret: 'chosen' })).toBe('chosen')
    expect(signingSecretOf({ webhookSecret: null, webhookSigningSecret: null })).toBe(null)
  })
})

describe.skipIf(!hasPostgres)('the first row of a stream that was empty', () => {
  const database = createTestDatabase()

  it('is no change of its fields, and a field that comes later is', async () => {
    await using simulator = await startSimulator({ assignments: 2, notes: 0 })
    await using context = await openTestContext(database, simulator)
    const drift = async () => {
      const config = loadConfig(environmentFor(simulator, database))
      const view = { parts: [] }
      const found = await readProblems({ pool: database.pool, streams, config, view, now: new Date() })
      return found.filter(({ kind }) => kind === 'schema_drift').map(({ stream, what }) => [stream, what])
    }
    const read = async () => {
      await context.read(streamOf('assignment_note'), 'incremental', { signal: noSignal })
      await context.read(streamOf('webhook_subscription'), 'incremental', { signal: noSignal })
    }
    await read()
    simulator.source.insert('assignment_note')
    simulator.source.insert('webhook_subscription')
    await read()
    expect(await drift()).toEqual([])
    simulator.source.insert('assignment_note', { NoteNow: 'new' })
    await read()
    expect(await drift()).toEqual([['assignment_note', expect.stringContaining('NoteNow (new)')]])
    const wide = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`F${index}`, index]))
    simulator.source.insert('assignment_note', wide)
    await read()
    expect(await drift()).toEqual([
      ['assignment_note', expect.stringMatching(/up to 600 fields without a column .* in `_rescued`/)],
    ])
  })
})

describe.skipIf(!hasPostgres)('a subscription of a worker', () => {
  const database = createTestDatabase()

  it('is mirrored without its secrets, and without those of other addresses of workers (P9)', async () => {
    await using simulator = await startSimulator({ assignments: 1 })
    const variables = { WEBHOOK_SECRET: secret }
    const signing = signingSecretOf(loadConfig(environmentFor(simulator, database, variables))) ?? ''
    const others = 'thesecretofanothersource'
    simulator.source.appendRaw(
      'webhook_subscription',
      ({ id }) =>
        `{"Id":${id},"Url":"http://127.0.0.1:9/hooks/${secret}","Secret":"${signing}","Next":"http://127.0.0.1:9/hooks/acme/${others}"}`,
    )
    await using context = await openTestContext(database, simulator, variables)
    await context.read(streamOf('webhook_subscription'), 'incremental', { signal: noSignal })
    const { rows } = await database.pool.query(
      'select url, secret, next from mirror.webhook_subscription where secret is not null',
    )
    expect(rows).toEqual([
      {
        url: 'http://127.0.0.1:9/hooks/[secret]',
        secret: '[secret]',
        next: 'http://127.0.0.1:9/hooks/acme/[secret]',
      },
    ])
  })
})
