// Receivers and rules set up while two workers run: in the console, over the API and in the terminal; who may, what is recorded, what
// stands in Postgres, and that each worker takes it up.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alerts } from '../../src/cli/alerts.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { receiveAlerts } from '../support/alert-receiver.ts'
import { openBrowsing } from '../support/browsing.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callCommand } from '../support/verbs.ts'
import { adminToken, startTestWorker, type TestWorker } from '../support/worker.ts'

describe.skipIf(!hasPostgres)('receivers that are set up while workers run', () => {
  const database = createTestDatabase()
  let simulator: Simulator
  let workers: readonly TestWorker[]
  const variables = { STREAMS: 'assignment', ALERT_SECRETS_KEY: 'a key of the tests for secrets' }
  const rows = async (sql: string) => (await database.pool.query(sql)).rows
  const terminal = (words: readonly string[], more = {}) =>
    callCommand(alerts, words, environmentFor(simulator, database, { ...variables, ...more }))
  const first = (): TestWorker => workers[0] ?? expect.fail('no worker runs')
  const toldBy = async (worker: TestWorker) => {
    const headers = { authorization: `Bearer ${adminToken}` }
    const answer = await fetch(`${worker.url}/api/v1/alerts`, { headers })
    const { receivers } = (await answer.json()) as { receivers: readonly { name: string; format: string }[] }
    return receivers.map(({ name, format }) => `${name} ${format}`)
  }

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 5 })
    workers = [
      await startTestWorker(simulator, database, variables),
      await startTestWorker(simulator, database, variables),
    ]
    await Promise.all(workers.map(({ live }) => live))
  })
  afterAll(async () => {
    await Promise.all((workers ?? []).map((worker) => worker.stop()))
    await simulator?.close()
  })

  it('are told within seconds by each worker, tested by a button, changed, removed and brought back', async () => {
    await using hook = await receiveAlerts()
    const browsing = openBrowsing(first().url)
    await browsing.signIn(adminToken)
    const page = async () => await (await browsing.get('/alerts')).text()
    const submit = async (path: string, fields: Record<string, string>) => {
      expect((await browsing.submit(path, fields)).headers.get('location')).toBe('/alerts')
      return await page()
    }
    const chat = { target: 'chat', webhook: hook.url, format: 'json' }
    expect(await submit('/alerts/receivers/set', chat)).toContain('The receiver chat was added.')
    expect(await page()).toContain('chat is told nothing: no rule names it.')
    const rule = { target: 'rule-1', to: 'chat', kinds: 'part_down', reason: 'we go live' }
    expect(await submit('/alerts/rules/set', rule)).toContain('part_down after 1 m')
    expect(await submit('/alerts/chat/test', {})).toContain('A test message was sent to chat')
    for (const worker of workers)
      await expect.poll(() => toldBy(worker), { timeout: 5_500, interval: 100 }).toEqual(['chat json'])

    // What is in Postgres, and what is shown and recorded of it (P9).
    const everywhere = JSON.stringify([
      await rows('select * from tidemark.alert_setting'),
      await rows('select * from tidemark.action_log'),
      workers.map((worker) => worker.logged()),
      await page(),
      await (await browsing.get('/actions')).text(),
    ])
    expect(everywhere).not.toContain(hook.url)
    expect(
      await rows('select action, target, reason, who from tidemark.action order by id desc limit 3'),
    ).toEqual([
      { action: 'testAlert', target: 'chat', reason: null, who: 'ADMIN_TOKEN' },
      { action: 'setRule', target: 'rule:rule-1', reason: 'we go live', who: 'ADMIN_TOKEN' },
      { action: 'setReceiver', target: 'receiver:chat', reason: null, who: 'ADMIN_TOKEN' },
    ])

    // Without the address it stays the one that is kept.
    expect(await submit('/alerts/receivers/set', { target: 'chat', format: 'slack' })).toContain(
      'was changed',
    )
    expect(await toldBy(first())).toEqual(['chat slack'])
    expect(await submit('/alerts/undo', { target: 'receiver:chat' })).toContain('as it was before')
    expect(await toldBy(first())).toEqual(['chat json'])
    expect(await submit('/alerts/remove', { target: 'receiver:chat' })).toContain('still name it: rule-1')
    expect(await page()).toContain('The rule rule-1 names chat, which is no receiver now.')
    expect(await toldBy(first())).toEqual([])
    expect(await submit('/alerts/undo', { target: 'receiver:chat' })).toContain('as it was before')
    expect(await submit('/alerts/chat/test', {})).toContain('A test message was sent to chat')
  })

  it('are set up in the terminal from a place where the secret stands, and never from the command itself', async () => {
    await using hook = await receiveAlerts()
    await expect(terminal(['receiver', 'desk', '--webhook', hook.url])).rejects.toThrow(
      '--webhook takes env:NAME or file:PATH: a secret does not stand in a command.',
    )
    const made = await terminal(['receiver', 'desk', '--webhook', 'env:DESK', '--format', 'json'], {
      DESK: hook.url,
    })
    expect(made.stdout).toContain('The receiver desk was added.')
    expect((await terminal(['rule', 'every', '--to', 'desk'])).stdout).toContain('The rule every was added.')
    expect((await terminal(['list'])).stdout).toMatch(/desk +json +everything after 1 m +every/)
    expect((await terminal(['test', 'desk'])).stdout).toContain('A test message was sent to desk')
    expect((await terminal(['remove', 'rule:every'])).stdout).toContain('The rule every was removed.')
    expect((await terminal(['undo', 'rule:every'])).stdout).toContain('The rule every is as it was')
  })

  it('are refused where the file or the environment has one of that name, and to who is no admin', async () => {
    const refused = terminal(['receiver', 'default', '--webhook', 'env:DESK'], {
      ...{ DESK: 'https://hooks.example/x', ALERT_WEBHOOK_URL: 'https://hooks.example/y' },
    })
    await expect(refused).rejects.toThrow(
      'Nothing was changed: default is set up by ALERT_WEBHOOK_URL, and can be changed only there.',
    )
    const secret = 'https://hooks.example/typed-for-a-name'
    const body = JSON.stringify({ target: secret, webhook: secret })
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
    const answer = await fetch(`${first().url}/api/v1/alerts/receivers/set`, {
      method: 'POST',
      body,
      headers,
    })
    expect(answer.status).toBe(409)
    const [noted] = await rows('select target, told from tidemark.action order by id desc limit 1')
    expect(JSON.stringify(noted)).not.toContain('typed-for-a-name')
    const nobody = await fetch(`${first().url}/alerts/receivers/set`, { method: 'POST', body: '' })
    expect(nobody.status).toBe(401)
  })
})
