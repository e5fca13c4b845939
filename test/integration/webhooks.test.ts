// `tidemark webhooks` against the stand-in, and what a write leaves for the worker.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { api } from '../../src/cli/api.ts'
import type { Command } from '../../src/cli/command.ts'
import { webhooks } from '../../src/cli/webhooks.ts'
import type { Environment } from '../../src/config/load.ts'
import type { JsonObject } from '../../src/json/json.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { UsageError } from '../../src/util/errors.ts'
import { openDriver } from '../../src/worker/queue/driver.ts'
import { openRunQueue } from '../../src/worker/queue/requests.ts'
import { failureOf, noSignal } from '../support/client.ts'
import { openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { streamOf } from '../support/streams.ts'
import { callCommand, callVerb } from '../support/verbs.ts'

let simulator: Simulator
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-webhooks-'))
  simulator = await startSimulator({ assignments: 5 })
  simulator.requests.start()
})
afterAll(async () => {
  await simulator.close()
  await rm(folder, { recursive: true })
})

async function run(command: Command, words: readonly string[], more: Environment = {}) {
  const called = await callCommand(command, words, environmentFor(simulator, null, more))
  return { ...called, json: called.stdout && JSON.parse(called.stdout) }
}
const file = async (name: string, content: string) => {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}

describe('tidemark webhooks', () => {
  it('shows what can be subscribed to', async () => {
    const { json } = await run(webhooks, ['definitions'])
    expect(json).toHaveLength(simulator.source.count('webhook_definition'))
  })

  it('creates a subscription, shows, changes and deletes it', async () => {
    const given = await file('new.json', '{"Name":"mine","CallbackUrl":"http://127.0.0.1:9/x"}')
    const { json: created } = await run(webhooks, ['create', given])
    const id: string = created.WebhookSubscriptionId
    const listed = async (): Promise<JsonObject[]> =>
      (await run(webhooks, ['list'])).json.filter((one: JsonObject) => one.WebhookSubscriptionId === id)
    expect(await listed()).toMatchObject([{ Name: 'mine' }])
    const changed = await file('changed.json', JSON.stringify({ ...created, Name: 'renamed' }))
    expect(await run(webhooks, ['update', changed])).toMatchObject({ code: 0, stdout: '' })
    expect((await run(webhooks, ['get', id])).json).toMatchObject({ Name: 'renamed' })
    expect(await run(webhooks, ['delete', id])).toMatchObject({ code: 0, stdout: '' })
    expect(await listed()).toEqual([])
    expect((await failureOf(run(webhooks, ['get', id]))).status).toBe(404)
  })

  it.each<[string, string[], string]>([
    ['no word', [], 'needs one of definitions, list, get'],
    ['another word', ['lst'], 'has no "lst". Did you mean `tidemark webhooks list`?'],
    ['a word of every object', ['constructor'], 'has no "constructor"'],
    ['a forgotten id', ['delete'], 'takes the id of one subscription'],
    ['too much', ['list', 'x'], 'takes nothing more'],
    ['no subscription', ['create', '/dev/null'], '/dev/null is not valid JSON'],
    ['an id that is another path', ['get', '..'], 'webhookSubscriptionId must be a text other than'],
  ])('refuses %s before anything is sent', async (_, words, message) => {
    const before = simulator.requests.entries.length
    const error: unknown = await run(webhooks, words).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UsageError)
    expect((error as Error).message).toContain(message)
    expect(simulator.requests.entries).toHaveLength(before)
  })
})

describe('a file that is attached', () => {
  it('brings its name and its size, unless others are given', async () => {
    const picture = await file('roof.jpg', 'a picture')
    const attach = (...words: string[]) => run(api, ['POST', '/api/Assignment/Id/3/attachment', ...words])
    const data = Buffer.from('a picture').toString('base64')
    expect((await attach('--form', `FileData=@${picture}`)).json).toMatchObject({
      FileName: 'roof.jpg',
      FileSize: 9,
      FileData: data,
    })
    const named = await attach('--form', 'FileName=other.jpg', '--form', `FileData=@${picture}`)
    expect(named.json).toMatchObject({ FileName: 'other.jpg', FileSize: 9, FileData: data })
  })
})

const redisUrl = inject('redisUrl')

const backends = [['Postgres', null] as const, ...(redisUrl ? [['Redis', redisUrl] as const] : [])]

describe.skipIf(!hasPostgres).each(backends)('after a write, in the queue in %s,', (_, redis) => {
  const database = createTestDatabase()
  it('the affected stream is waiting, once', async () => {
    const variables = { DATABASE_URL: database.quickUrl, ...(redis && { REDIS_URL: redis }) }
    const queue = await openDriver({ redisUrl: redis, database, log: quietLog })
    const runs = openRunQueue(queue.driver, () => {})
    try {
      const change = await file('change.json', '{"AssignmentId":3,"Subject":"changed"}')
      await run(api, ['GET', '/api/Assignment/Id/3'], variables)
      expect((await runs.counts()).waiting).toBe(0)
      for (let write = 0; write < 2; write++)
        await run(api, ['PUT', '/api/Assignment', '--body', change], variables)
      expect((await runs.counts()).waiting).toBe(1)
      await run(webhooks, ['create', await file('hook.json', '{"Name":"x"}')], variables)
      expect((await runs.counts()).waiting).toBe(2)
    } finally {
      await runs.close()
      await queue.close()
    }
  })
})

describe.skipIf(!hasPostgres)('after a write', () => {
  const database = createTestDatabase()

  it('to what an assignment carries, that is read again as well', async () => {
    const variables = { DATABASE_URL: database.url, RELATED: 'true' }
    await database.pool.query(
      `insert into tidemark.related_fetch (assignment_id, hash, groups, fetched_at) values (3, '', '{}', now()), (4, '', '{}', now())
       on conflict (source, assignment_id) do update set retry_at = null`,
    )
    const product = await file('product.json', '{"ProductName":"pipe"}')
    await run(api, ['POST', '/api/Assignment/Id/3/assignmentProduct', '--body', product], variables)
    const { rows } = await database.pool.query(
      'select assignment_id::int as id from tidemark.related_fetch where retry_at <= now()',
    )
    expect(rows).toEqual([{ id: 3 }])
  })

  it('that names an assignment by its external id, what it carries is read again', async () => {
    const variables = { RELATED: 'true' }
    simulator.source.change('assignment', 5, { AssignmentIdExt: 'WO/5' })
    await using context = await openTestContext(database, simulator, variables)
    const assignment = streamOf('assignment')
    await context.read(assignment, 'incremental', { signal: noSignal })
    await context.readRelated({ signal: noSignal })
    expect(await context.isRelatedDue()).toBe(false)
    const service = await file('service.json', '{"Remark":"by its external id"}')
    const path = '/api/Assignment/IdExt/WO%2F5/assignmentService'
    await run(api, ['POST', path, '--body', service], { ...variables, DATABASE_URL: database.url })
    expect(await context.isRelatedDue()).toBe(true)
    expect((await context.readRelated({ signal: noSignal })).tally.requests).toBe(1)
    const { rows } = await database.pool.query(
      `select assignment_id::int as id from bi.assignment_service where remark = 'by its external id'`,
    )
    expect(rows).toEqual([{ id: 5 }])
  })

  it('that cannot be told to anybody, the write is still done, and the log says so', async () => {
    const change = await file('change.json', '{"AssignmentId":3,"Subject":"alone"}')
    const { code, logged } = await run(api, ['PUT', '/api/Assignment', '--body', change], {
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    })
    expect(code).toBe(0)
    expect(logged).toContain('the upstream was changed; the mirror shows it after the next scheduled run')
    expect(simulator.source.record('assignment', 3)?.Subject).toBe('alone')
  })

  it('that was refused, or only shown, is not told as a change', async () => {
    const unknown = await file('unknown.json', '{"AssignmentId":999999,"Subject":"nobody"}')
    const elsewhere = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }
    for (const more of [[], ['--merge'], ['--merge', '--dry-run']]) {
      const called = await callVerb(
        ['api', 'PUT', '/api/Assignment', '--body', unknown, ...more],
        environmentFor(simulator, null, { ...elsewhere, LOG_LEVEL: 'warn' }),
      )
      expect(String(called.error)).toContain('status 404')
      expect(called.logged).not.toContain('was changed')
    }
  })
})
