// The simulated upstream of many clients: each has its own data, switches, faults and counts, whoever else is on its host, and what is written
// for a worker leads to each.

import { describe, expect, it } from 'vitest'
import { parseSourcesFile } from '../../src/config/sources-file.ts'
import { type FleetClient, startFleet } from '../../src/simulator/fleet.ts'
import { fleetSettings } from '../../src/simulator/fleet-settings.ts'
import { mostWithin } from '../../src/simulator/request-log.ts'

/** As the settings have it that a worker gets. */
type Place = {
  readonly address: string
  readonly auth: string
  readonly guid: string
  readonly subject: string
}
const placeOf = ({ assignmentUrl: address, authUrl: auth, credentials }: FleetClient): Place => ({
  ...{ address, auth, guid: credentials.clientGuid, subject: credentials.subjectId },
})

async function tokenFor({ auth, subject }: Place, apiKey: string): Promise<Response> {
  return await fetch(`${auth}/Token/GenerateAccessTokenFromCache`, {
    method: 'POST',
    body: JSON.stringify({ clientId: 3, subjectId: subject, apiKey }),
    headers: { 'content-type': 'application/json' },
  })
}

async function ask({ address, guid }: Place, token: string): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, clientId: guid }
  return await fetch(`${address}/api/Assignment/neworchanged/0?PageSize=1000`, { headers })
}

async function signedIn(client: FleetClient): Promise<string> {
  const answer = await tokenFor(placeOf(client), client.credentials.apiKey)
  return ((await answer.json()) as { accessToken: string }).accessToken
}

const texts = async (answer: Response) => {
  const answered = JSON.stringify(await answer.json())
  return [...answered.matchAll(/"assignmentName":("(?:[^"\\]|\\.)*"|null)/gi)].map(([, text]) => text)
}
const post = (url: string, body: string) => fetch(url, { method: 'POST', body })

describe('a simulated fleet', () => {
  it('gives each client its own records, and lets nobody in with the token of another sign-in', async () => {
    await using fleet = await startFleet({ clients: 12, hosts: 2, assignments: 40, hasOwnFaults: false })
    expect(fleet.clients.map(({ name }) => name).slice(0, 3)).toEqual(['c001', 'c002', 'c003'])
    const seen = new Set<string>()
    for (const client of fleet.clients) {
      const found = await texts(await ask(placeOf(client), await signedIn(client)))
      expect([client.name, found.length]).toEqual([client.name, client.source.count('assignment')])
      seen.add(JSON.stringify(found))
    }
    expect(seen.size).toBe(12)
    const [first, , third, , , , seventh] = fleet.clients as [FleetClient, ...FleetClient[]]
    // The first and the third share a host and a sign-in, the seventh has one of its own there.
    const token = await signedIn(first)
    expect((await ask(placeOf(third as FleetClient), token)).status).toBe(200)
    expect((await ask(placeOf(seventh as FleetClient), token)).status).toBe(401)
    expect((await tokenFor(placeOf(seventh as FleetClient), first.credentials.apiKey)).status).toBe(401)
  })

  it('counts, switches and fails for one client alone', async () => {
    await using fleet = await startFleet({ clients: 4, hosts: 1, assignments: 20, hasOwnFaults: false })
    const [one, other] = fleet.clients as [FleetClient, FleetClient]
    const control = `${one.origin}/simulator/${one.name}`
    expect((await post(`${control}/faults`, '503:times=1')).status).toBe(204)
    expect((await post(`${control}/faults`, '503:often')).status).toBe(400)
    expect((await post(`${control}/behaviour`, '{"lists":"null"}')).status).toBe(204)
    const [ofOne, ofOther] = [await signedIn(one), await signedIn(other)]
    expect((await ask(placeOf(other), ofOther)).status).toBe(200)
    expect((await ask(placeOf(one), ofOne)).status).toBe(503)
    expect(await (await ask(placeOf(one), ofOne)).json()).toBeNull()
    expect(await texts(await ask(placeOf(other), ofOther))).toHaveLength(other.source.count('assignment'))
    const { clients } = (await (await fetch(`${one.origin}/simulator`)).json()) as {
      clients: readonly unknown[]
    }
    expect(clients).toMatchObject([
      { name: one.name, requests: 2, faultsStruck: 1 },
      { name: other.name, requests: 2, mostInOneSecond: 2, faultsStruck: 0 },
      ...[{ requests: 0 }, { requests: 0 }],
    ])
    expect((await fetch(`${one.origin}/simulator/nobody`)).status).toBe(404)
    expect(fleet.timesOf(fleet.clients)).toHaveLength(4)
  })

  it('writes settings that a worker takes, with which each client is reached', async () => {
    await using fleet = await startFleet({ clients: 9, assignments: 5, hasOwnFaults: false })
    const { environment, file } = fleetSettings(fleet.clients)
    const read = parseSourcesFile('sources.yaml', Buffer.from(JSON.stringify(file)), environment)
    expect([...read.sources.keys()]).toEqual(fleet.clients.slice(1).map(({ name }) => name))
    for (const [name, { settings }] of read.sources) {
      const place: Place = {
        ...{ address: settings.ASSIGNMENT_BASE_URL ?? '', auth: settings.AUTH_URL ?? '' },
        ...{ guid: settings.CLIENT_GUID ?? '', subject: settings.SUBJECT_ID ?? '' },
      }
      const answer = await tokenFor(place, environment[(settings.API_KEY ?? '').slice('env:'.length)] ?? '')
      const { accessToken } = (await answer.json()) as { accessToken: string }
      const client = fleet.clients.find((one) => one.name === name)
      expect([name, (await texts(await ask(place, accessToken))).length]).toEqual([
        name,
        client?.source.count('assignment'),
      ])
    }
  })

  it('knows the most requests of any second', () => {
    expect(mostWithin(1_000, [])).toBe(0)
    expect(mostWithin(1_000, [0, 999, 1_000, 1_500, 1_999, 3_000])).toBe(3)
  })
})
