// Signing in against the stand-in: once for all, for each service, and again when a token is rejected.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Client, failureOf, jumpingClock, noSignal, openSimulatorClient } from '../support/client.ts'

const list = (client: Client, signal = noSignal) => client.call('listAssignments', {}, signal)
const times = <Value>(count: number, make: () => Promise<Value>) =>
  Promise.all(Array.from({ length: count }, make))

describe('with the stand-in', () => {
  let simulator: Simulator
  beforeEach(async () => {
    simulator = await startSimulator({ assignments: 3, trackers: 2 })
    simulator.requests.start()
  })
  afterEach(() => simulator.close())
  const signIns = () => simulator.requests.entries.filter(({ service }) => service === 'auth')

  it('asks once however many requests wait, as the interface says', async () => {
    const client = openSimulatorClient(simulator)
    await times(20, () => list(client))
    expect(signIns()).toHaveLength(1)
    const [signIn] = signIns()
    expect(signIn).toMatchObject({ method: 'POST', path: '/Token/GenerateAccessTokenFromCache', status: 200 })
    expect(signIn?.headers['content-type']).toBe('application/json')
    expect(signIn?.headers).not.toHaveProperty('clientid')
    const { subjectId, apiKey } = simulator.credentials
    expect(JSON.parse(signIn?.body ?? '')).toEqual({ clientId: 3, subjectId, apiKey })
  })

  it('has a token of its own for each service', async () => {
    const assignment = openSimulatorClient(simulator)
    const tracking = openSimulatorClient(simulator, 'tracking')
    await list(assignment)
    expect((await tracking.call('listTrackerObjects', {}, noSignal)).body).toHaveLength(2)
    expect(signIns().map(({ body }) => JSON.parse(body).clientId)).toEqual([3, 13])
    const bearers = simulator.requests.entries.map(({ headers }) => headers.authorization).filter(Boolean)
    expect(new Set(bearers).size).toBe(2)
  })

  it.each(['object', 'nested', 'json-string', 'plain-text'] as const)(
    'understands a token as %s',
    async (tokenShape) => {
      for (const tokenFormat of ['jwt', 'opaque'] as const)
        for (const tokenField of ['access_token', 'AccessToken', 'token', 'jwt']) {
          Object.assign(simulator.behaviour, { tokenShape, tokenFormat, tokenField })
          expect((await list(openSimulatorClient(simulator))).body).toHaveLength(3)
        }
    },
  )

  it('renews a rejected token once, for all requests that had it, and repeats them', async () => {
    const client = openSimulatorClient(simulator)
    await list(client)
    simulator.revokeTokens()
    await times(10, () => list(client))
    expect(signIns()).toHaveLength(2)
    expect(client.told.signIns.map(({ outcome }) => outcome)).toEqual(['new token', 'new token'])
    expect(client.told.retries).toEqual([])
  })

  it('takes a late rejection of the old token for what it is', async () => {
    const client = openSimulatorClient(simulator)
    await list(client)
    simulator.revokeTokens()
    const stopHolding = simulator.onRequest(async ({ path }) => {
      if (path.endsWith('/Id/1')) await expect.poll(() => client.told.signIns).toHaveLength(2)
    })
    const late = client.call('getAssignment', { path: { assignmentId: 1 } }, noSignal)
    await list(client)
    await late
    stopHolding()
    expect(signIns()).toHaveLength(2)
  })

  it('repeats a write whose token was rejected: it was not done', async () => {
    const client = openSimulatorClient(simulator)
    await list(client)
    simulator.revokeTokens()
    const { status } = await client.call('createAssignment', { body: { Subject: 'new' } }, noSignal)
    expect(status).toBe(201)
    expect((await list(client)).body).toHaveLength(4)
  })

  it('stops at two sign-ins when the provider hands out the rejected token for ever, and says so', async () => {
    simulator.behaviour.tokenCache = 'stuck'
    const clock = jumpingClock()
    const client = openSimulatorClient(simulator, 'assignment', { clock })
    await list(client)
    simulator.revokeTokens()
    const error = await failureOf(list(client))
    expect(error).toMatchObject({ code: 'UPSTREAM_UNAUTHORIZED', retryable: true, status: 401 })
    expect(error.message).toContain('production or stage')
    expect(signIns()).toHaveLength(3)
    expect(Math.max(...clock.waitedMs)).toBeGreaterThanOrEqual(900)
    expect(client.logged()).toContain('the identity provider hands out the same one again')
  })

  it('P10: leaves that provider alone for longer and longer, whatever is asked', async () => {
    simulator.behaviour.tokenCache = 'stuck'
    const clock = jumpingClock()
    const retryPolicy = { attempts: 1, firstMs: 1, longestMs: 1, jitter: 0.5, deadlineMs: 0 }
    const client = openSimulatorClient(simulator, 'assignment', { clock, retryPolicy })
    await list(client)
    simulator.revokeTokens()
    await failureOf(list(client))
    const holdsMs: number[] = []
    for (let round = 0; round < 12; round++) {
      const [error] = await times(5, () => failureOf(list(client)))
      expect(error).toMatchObject({ code: 'UPSTREAM_TOKEN_REPEATED', retryable: true })
      const holdMs = (error?.notBefore?.getTime() ?? 0) - clock.now()
      holdsMs.push(Math.round(holdMs / 100) / 10)
      clock.advance(holdMs + 1)
      await failureOf(list(client))
    }
    expect(holdsMs).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
    expect(signIns()).toHaveLength(2 + 12)
  })

  it('goes on when it was only once that the token was rejected', async () => {
    const clock = jumpingClock()
    const client = openSimulatorClient(simulator, 'assignment', { clock })
    await list(client)
    simulator.faults.add({ kind: 401, times: 1 })
    expect((await list(client)).body).toHaveLength(3)
    expect(client.told.signIns.map(({ outcome }) => outcome)).toEqual([
      'new token',
      'same token',
      'same token',
    ])
    await list(client)
    expect(signIns()).toHaveLength(3)
  })

  it('P10: stops at once with wrong credentials, says what to check, and does not hammer', async () => {
    const clock = jumpingClock()
    const client = openSimulatorClient(simulator, 'tracking', { apiKey: () => 'canary-wrong-key', clock })
    const ask = () => client.call('listTrackerObjects', {}, noSignal)
    const [error] = await times(10, () => failureOf(ask()))
    expect(error).toMatchObject({ code: 'UPSTREAM_SIGN_IN', retryable: false, status: 401 })
    expect(error?.message).toContain('Check TRACKING_SUBJECT_ID, TRACKING_API_KEY and TRACKING_AUTH_URL')
    expect(`${error?.message}${error?.stack}${client.logged()}`).not.toContain('canary-wrong-key')
    await failureOf(ask())
    expect(signIns()).toHaveLength(1)
    clock.advance(61_000)
    await times(3, () => failureOf(ask()))
    expect(signIns()).toHaveLength(2)
  })

  it('is not left alone for longer when the clock is put back', async () => {
    const clock = jumpingClock()
    const client = openSimulatorClient(simulator, 'assignment', { apiKey: () => 'canary-wrong-key', clock })
    await failureOf(list(client))
    clock.advance(-1_800_000)
    await failureOf(list(client))
    expect(signIns()).toHaveLength(2)
    await failureOf(list(client))
    expect(signIns()).toHaveLength(2)
  })

  it('tries another key at once', async () => {
    let apiKey = 'not the key any more'
    const client = openSimulatorClient(simulator, 'assignment', { apiKey: () => apiKey })
    await failureOf(list(client))
    apiKey = simulator.credentials.apiKey
    expect((await list(client)).body).toHaveLength(3)
    expect(signIns()).toHaveLength(2)
  })

  it('signs in again when a token is over, though nobody said when it would be', async () => {
    Object.assign(simulator.behaviour, { tokenFormat: 'opaque', tokenLifetimeMs: 150 })
    const client = openSimulatorClient(simulator)
    const signInsByNow = async () => {
      await list(client)
      return signIns().length
    }
    await expect.poll(signInsByNow).toBeGreaterThanOrEqual(3)
    expect(client.told.signIns.map(({ outcome }) => outcome)).not.toContain('failed')
  })
})
