// How `tidemark init` tries out answers: against a real upstream, a gateway before it, a Postgres and a receiver of alerts.

import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import type { Call } from '../../src/cli/command.ts'
import { questionsFor, type Tried } from '../../src/cli/init-questions.ts'
import type { Environment } from '../../src/config/load.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { receiveAlerts } from '../support/alert-receiver.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'

const call = { log: quietLog, signal: AbortSignal.timeout(120_000) } as Pick<Call, 'log' | 'signal'> as Call
async function tried(name: string, settings: Environment): Promise<Tried> {
  const tries = questionsFor(settings).find((one) => one.name === name)?.tries
  if (!tries) throw new Error(`${name} is not tried`)
  return await tries(settings, call)
}
const saidBy = ({ checks }: Tried) =>
  checks.map(({ isFine, says }) => `${isFine ? 'fine' : 'wrong'}: ${says}`)

/** Wants a sign-in wherever it is asked, and knows one path. */
async function startGateway(upstream: string) {
  const server = createServer((asked, answer) => {
    if (!asked.headers.authorization) return void answer.writeHead(401).end()
    if (!asked.url?.startsWith('/base/')) return void answer.writeHead(404).end()
    const { method, headers } = asked
    const passed = httpRequest(
      `${upstream}${asked.url.slice('/base'.length)}`,
      { method, headers },
      (got) => {
        answer.writeHead(got.statusCode ?? 502, got.headers)
        got.pipe(answer)
      },
    )
    asked.pipe(passed)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe('an answer', () => {
  it('about a path that only the sign-in shows to be wrong leads to a better one', async () => {
    await using simulator = await startSimulator({ assignments: 3 })
    await using gateway = await startGateway(simulator.assignmentUrl)
    const ASSIGNMENT_BASE_URL = `${gateway.origin}/base/v2`
    const settings = environmentFor(simulator, null, { ASSIGNMENT_BASE_URL })
    expect((await tried('ASSIGNMENT_BASE_URL', settings)).checks.every(({ isFine }) => isFine)).toBe(true)
    const { suggested } = await tried('API_KEY', settings)
    expect(suggested).toEqual({ name: 'ASSIGNMENT_BASE_URL', value: `${gateway.origin}/base` })
  })

  it('with which nothing is there is doubted, and one with which something is there is not', async () => {
    await using simulator = await startSimulator({ assignments: 3 })
    const settings = environmentFor(simulator, null)
    expect(await tried('API_KEY', settings)).not.toHaveProperty('doubt')
    const CLIENT_GUID = '11111111-1111-4111-8111-111111111111'
    expect((await tried('API_KEY', { ...settings, CLIENT_GUID })).doubt).toBe(
      'Nothing is in assignment, assignment_note; a wrong client GUID looks the same.',
    )
  })

  it('that would send keys without TLS is refused before anybody is asked (P9)', async () => {
    for (const name of ['ASSIGNMENT_BASE_URL', 'AUTH_URL', 'TRACKING_BASE_URL'])
      expect(saidBy(await tried(name, { [name]: 'http://api.example' }))).toEqual([
        expect.stringMatching(`wrong: ${name} would send .* to api.example without TLS`),
      ])
  })

  it('about alerts is tried with a message', async () => {
    await using simulator = await startSimulator({ assignments: 1 })
    await using receiver = await receiveAlerts()
    const settings = environmentFor(simulator, null, { ALERT_FORMAT: 'json' })
    const ALERT_WEBHOOK_URL = receiver.url
    expect(saidBy(await tried('ALERT_WEBHOOK_URL', { ...settings, ALERT_WEBHOOK_URL }))).toEqual([
      expect.stringMatching(/^fine: A test message was sent/),
    ])
    const closed = 'http://127.0.0.1:1/hook'
    expect(saidBy(await tried('ALERT_WEBHOOK_URL', { ...settings, ALERT_WEBHOOK_URL: closed }))).toEqual([
      expect.stringMatching(/^wrong: An alert could not be delivered/),
    ])
  })

  it('about a role is asked for where there is a Postgres to have it', () => {
    const names = (settings: Environment) => questionsFor(settings).map(({ name }) => name)
    expect(names({})).not.toContain('BI_ROLE')
    expect(names({ DATABASE_URL: 'postgres://db/x' })).toContain('BI_ROLE')
    expect(names({ BI_ROLE: 'reporting' })).toContain('BI_ROLE')
  })
})

describe.skipIf(!hasPostgres)('the role of BI tools', () => {
  const database = createTestDatabase()

  it('has to be there', async () => {
    const { rows } = await database.pool.query<{ role: string }>('select current_user as role')
    const of = (BI_ROLE: string | undefined) => tried('BI_ROLE', { DATABASE_URL: database.url, BI_ROLE })
    expect(saidBy(await of(rows[0]?.role))).toEqual([expect.stringMatching(/^fine: .* is there$/)])
    expect(saidBy(await of('no_such_role'))).toEqual([
      'wrong: BI_ROLE is no_such_role, but this Postgres has no such role. Create it: create role "no_such_role" login',
    ])
  })
})
