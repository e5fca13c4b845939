// The identity provider's unknowns: who gets a token, what it looks like, how long and for which service it is good.

import { afterEach, describe, expect, it } from 'vitest'
import type { Behaviour } from '../../src/simulator/behaviour.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'

let simulator: Simulator
afterEach(() => simulator.close())

const start = async (behaviour: Partial<Behaviour> = {}) => {
  simulator = await startSimulator({ behaviour, assignments: 1, trackers: 1 })
}

const ask = (body: unknown) =>
  fetch(`${simulator.authUrl}/Token/GenerateAccessTokenFromCache`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

const signIn = (clientId = 3) => {
  const { subjectId, apiKey } = simulator.credentials
  return ask({ clientId, subjectId, apiKey })
}
const tokenOf = async (response: Response) => ((await response.json()) as { accessToken: string }).accessToken

async function status(service: 'assignment' | 'tracking', token: string | null): Promise<number> {
  const url =
    service === 'assignment'
      ? `${simulator.assignmentUrl}/api/Assignment`
      : `${simulator.trackingUrl}/api/TrackerObject`
  const response = await fetch(url, {
    headers: {
      clientId: simulator.credentials.clientGuid,
      ...(token && { authorization: `Bearer ${token}` }),
    },
  })
  await response.text()
  return response.status
}

describe('signing in', () => {
  it('gives a token for one service, which the other refuses', async () => {
    await start()
    const assignment = await tokenOf(await signIn(3))
    const tracking = await tokenOf(await signIn(13))
    expect(await status('assignment', assignment)).toBe(200)
    expect(await status('tracking', tracking)).toBe(200)
    expect(await status('assignment', tracking)).toBe(403)
    expect(await status('tracking', assignment)).toBe(403)
    expect(await status('assignment', null)).toBe(401)
    expect(await status('assignment', 'made-up')).toBe(401)
  })

  it('is refused to others, and to bodies that are wrong', async () => {
    await start()
    const { subjectId, apiKey } = simulator.credentials
    expect((await ask({ clientId: 3, subjectId, apiKey: 'wrong' })).status).toBe(401)
    expect((await ask({ clientId: 3, subjectId: 'wrong', apiKey })).status).toBe(401)
    expect((await ask({ clientId: 4, subjectId, apiKey })).status).toBe(401)
    expect((await ask('no json')).status).toBe(400)
    expect((await fetch(`${simulator.authUrl}/Token`, { method: 'POST' })).status).toBe(404)
  })

  it('takes the credentials it was started with', async () => {
    simulator = await startSimulator({ credentials: { subjectId: 'me', apiKey: 'sesame' } })
    expect((await ask({ clientId: 3, subjectId: 'me', apiKey: 'sesame' })).status).toBe(200)
  })
})

describe('the token', () => {
  it('comes in the shape that is switched on', async () => {
    await start({ tokenFormat: 'opaque', tokenCache: 'until-expiry' })
    const token = await tokenOf(await signIn())
    simulator.behaviour.tokenShape = 'json-string'
    expect(await (await signIn()).json()).toBe(token)
    simulator.behaviour.tokenShape = 'plain-text'
    const plain = await signIn()
    expect(plain.headers.get('content-type')).toMatch(/^text\/plain/)
    expect(await plain.text()).toBe(token)
    simulator.behaviour.tokenShape = 'nested'
    simulator.behaviour.tokenField = 'access_token'
    simulator.behaviour.tokenExpiryHidden = false
    expect(await (await signIn()).json()).toMatchObject({
      result: { access_token: token, expiresIn: expect.any(Number) },
    })
    expect(token).not.toContain('.')
  })

  it('tells its end when it is a JWT', async () => {
    await start({ tokenLifetimeMs: 60_000 })
    const [, claims = ''] = (await tokenOf(await signIn())).split('.')
    const { iat, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as {
      iat: number
      exp: number
    }
    expect(exp - iat).toBeGreaterThanOrEqual(60)
    expect(exp - iat).toBeLessThanOrEqual(61)
  })

  it('ends', async () => {
    await start({ tokenLifetimeMs: 60 })
    const token = await tokenOf(await signIn())
    await expect.poll(() => status('assignment', token)).toBe(401)
    expect(await status('assignment', await tokenOf(await signIn()))).toBe(200)
  })

  it('is the same, another, or a rejected one the next time, as switched', async () => {
    await start()
    const first = await tokenOf(await signIn())
    expect(await tokenOf(await signIn())).toBe(first)
    simulator.behaviour.tokenCache = 'none'
    const second = await tokenOf(await signIn())
    expect(second).not.toBe(first)
    simulator.behaviour.tokenCache = 'stuck'
    simulator.revokeTokens()
    expect(await tokenOf(await signIn())).toBe(second)
    expect(await status('assignment', second)).toBe(401)
    simulator.behaviour.tokenCache = 'until-expiry'
    expect(await status('assignment', await tokenOf(await signIn()))).toBe(200)
  })
})
