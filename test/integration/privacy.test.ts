// Fields that are left out or masked land nowhere (P20): in no table, no log and no answer of a command, whatever is read, and however odd
// its records are. What was stored before a rule is cleared with it.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { api } from '../../src/cli/api.ts'
import { backfill } from '../../src/cli/backfill.ts'
import type { Command } from '../../src/cli/command.ts'
import { explain } from '../../src/cli/explain.ts'
import { privacy } from '../../src/cli/privacy.ts'
import { quarantine } from '../../src/cli/quarantine.ts'
import { reconcile } from '../../src/cli/reconcile.ts'
import { sync } from '../../src/cli/sync.ts'
import { verify } from '../../src/cli/verify.ts'
import { rows as rowsDocument } from '../../src/documents/rows.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { readChanges } from '../../src/store/book/changes.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { everythingIn } from '../support/private-fields.ts'
import { streamOf } from '../support/streams.ts'
import { callCommand } from '../support/verbs.ts'

const file = join(mkdtempSync(join(tmpdir(), 'privacy-')), 'dictionary.yml')
const say = (text: string) => writeFileSync(file, text)

const rules = `
assignment:
  fields:
    contact_phone: { omit: true }
    Remark: { omit: true }
    ContactEmail: { mask: hash }
    ContactName: { mask: 'null' }
    Description: { mask: first 2 }
    ActualStart: { mask: year }
customer:
  fields:
    Phone: { omit: true }
    Email: { mask: hash }
tracker_object:
  fields:
    RegistrationNumber: { omit: true }
`
const secret = 'CANARY'
const canaries = {
  ContactPhone: `${secret} phone`,
  ContactEmail: `${secret}@example.com`,
  ContactName: `${secret} Name`,
  Description: `ab ${secret}`,
  ActualStart: '1984-02-29T11:22:33',
}

const nextVersion = (upstream: Simulator): string => String(upstream.source.highestVersion('assignment') + 1n)

function withCanaries(upstream: Simulator): void {
  for (const id of [3, 7]) upstream.source.change('assignment', id, canaries)
  for (const id of upstream.source.ids('customer'))
    upstream.source.change('customer', id, { Phone: `${secret} 1`, Email: secret })
  for (const id of upstream.source.ids('tracker_object'))
    upstream.source.change('tracker_object', id, { RegistrationNumber: secret })
}

describe.skipIf(!hasPostgres)('private fields', () => {
  const database = createTestDatabase({ forEach: true })
  beforeEach(() => say(rules))
  const environmentOf = (upstream: Simulator, more = {}) =>
    environmentFor(upstream, database, {
      ...{
        DICTIONARY: file,
        MASK_KEY: 'a key of sixteen characters',
        HISTORY: 'assignment',
        RELATED: 'true',
      },
      ...{ LOG_LEVEL: 'trace', PAGE_SIZE: '20', CONTRACT: 'auto', ...more },
    })
  const query = async (sql: string) => (await database.pool.query(sql)).rows

  /** Returns everything that the commands printed and logged. */
  function caller(environment: ReturnType<typeof environmentOf>) {
    const said: string[] = []
    return {
      said: () => said.join('\n'),
      async call(command: Command, ...words: readonly string[]) {
        const answer = await callCommand(command, words, environment).catch((error: Error) => ({
          ...{ code: null, stdout: '', logged: `${error.stack} ${JSON.stringify(error)}` },
        }))
        said.push(answer.stdout, answer.logged)
        return answer
      },
    }
  }

  it('are cleared in records of other streams that hold copies, and in their past', async () => {
    await using upstream = await startSimulator({ assignments: 6, notes: 5 })
    say('customer: { label: Customer }')
    const nested = JSON.stringify({ Name: 'A customer', Phone: secret })
    upstream.source.appendRaw(
      'assignment',
      `{"AssignmentId":900,"RowVersion":${nextVersion(upstream)},"Customer":${nested},"Place":{"customers":[${nested}]}}`,
    )
    upstream.source.appendRaw('assignment', `{"Customer":${nested}}`)
    const { call } = caller(environmentOf(upstream))
    expect((await call(sync)).code).toBe(0)
    expect((await query('select from tidemark.quarantine')).length).toBe(1)
    upstream.source.change('assignment', 3, { Subject: 'changed' })
    expect((await call(sync, 'assignment')).code).toBe(0)
    const holds = async () => (await everythingIn(database.pool)).includes(secret)
    expect(await holds()).toBe(true)
    say('customer:\n  fields:\n    phone: { omit: true }')
    const waiting = JSON.parse((await call(privacy, 'customer', '--json')).stdout)
    expect(waiting.streams[0].stored).toMatchObject({ rows: expect.any(Number) })
    expect(waiting.streams[0].stored.rows).toBeGreaterThan(1)
    expect((await call(privacy, 'customer', '--apply', '--reason', 'tried')).code).toBe(0)
    expect(await holds()).toBe(false)
    expect((await call(sync)).code).toBe(0)
    expect(await holds()).toBe(false)
    // A program that does not know the rule would store such copies as they are.
    upstream.source.change('assignment', 4, { Customer: { Name: 'A customer', Phone: secret } })
    const { call: callWithout } = caller(environmentOf(upstream, { DICTIONARY: '', RELATED: 'false' }))
    expect((await callWithout(sync, 'assignment')).logged).toContain(
      'may hold copies of customer, and DICTIONARY or MASK_KEY lacks a rule for them that is in force here (phone: omit)',
    )
    expect(await holds()).toBe(false)
    expect((await call(sync)).code).toBe(0)
    expect(await holds()).toBe(false)
    expect(await query('select from tidemark.notice')).toEqual([])
    const [row] = await query('select customer, place from mirror.assignment where assignment_id = 900')
    expect(row).toEqual({ customer: { Name: 'A customer' }, place: { customers: [{ Name: 'A customer' }] } })
  })

  it('land nowhere in any kind of run, with any kind of record (P20)', { timeout: 300_000 }, async () => {
    await using upstream = await startSimulator({ assignments: 25, notes: 5, trackers: 4 })
    withCanaries(upstream)
    const raw = (text: string) =>
      upstream.source.appendRaw('assignment', text.replace('VERSION', nextVersion(upstream)))
    raw(`"${secret} in a text"`)
    raw(`["${secret}"]`)
    raw(`{"ContactPhone":"${secret}"}`)
    raw(
      `{"AssignmentId":900,"RowVersion":VERSION,"contactPhone":"${secret} a","CONTACT_PHONE":"${secret} b","ContactName":"${secret}","contactname":"${secret}"}`,
    )
    raw(
      `{"AssignmentId":901,"RowVersion":VERSION,"Remark":"${secret} 1","Remark":"${secret} 2","Nested":{"ContactPhone":"${secret}","deep":[{"remark":"${secret}"}]},"Customer":{"Phone":"${secret}"}}`,
    )
    raw(`{"AssignmentId":902,"ContactName":"${secret}","\\u0052emark":"${secret}"}`)
    const environment = environmentOf(upstream)
    const { call, said } = caller(environment)
    expect((await call(sync)).code).toBe(0)
    expect((await call(sync, 'assignment', '--kind', 'lookback')).code).toBe(0)
    upstream.source.change('assignment', 3, { ...canaries, Subject: 'changed' })
    expect((await call(sync, 'assignment')).code).toBe(0)
    expect((await call(sync, 'assignment', '--kind', 'related')).code).toBe(0)
    await call(backfill, 'assignment', '--from-version', '0')
    await call(verify, 'assignment')
    expect((await call(reconcile, 'assignment')).code).toBe(0)
    await call(quarantine, 'list')
    await call(quarantine, 'retry', 'assignment')
    await call(explain, 'assignment', '3', '--values')
    await call(explain, 'assignment', '3', '--json')
    await call(explain, 'customer', '1', '--json')
    await call(api, 'GET', '/api/Assignment/Id/3')
    await call(api, 'GET', '/api/Assignment')
    await call(api, 'GET', '/api/Assignment/extended/Id/3')
    for (const kind of ['truncated', 403] as const) {
      upstream.faults.add({ kind, path: 'api', times: 1 })
      await call(sync, 'assignment')
      upstream.faults.clear()
    }
    const stored = await everythingIn(database.pool)
    expect(stored.length).toBeGreaterThan(30_000)
    for (const text of [stored, said()]) {
      expect(text).not.toContain(secret)
      expect(text).not.toContain('11:22:33')
    }
    const [row] = await query(`select * from mirror.assignment where assignment_id = 7`)
    expect(row).toMatchObject({ description: 'ab', actual_start: '1984' })
    expect(row.contact_name ?? null).toBeNull()
    expect(row.contact_email).toMatch(/^[0-9a-f]{64}$/)
    expect(row).not.toHaveProperty('contact_phone')
    const [customer] = await query('select email from mirror.customer limit 1')
    expect(customer.email).toMatch(/^[0-9a-f]{64}$/)
    const kept = await query('select reason, record::text as text from tidemark.quarantine order by reason')
    expect(kept.length).toBeGreaterThanOrEqual(4)
    expect(kept.map(({ text }) => text).join()).toContain('left out: it is no object')
    // Nothing differs for being masked.
    expect(await query('select from tidemark.difference')).toEqual([])
    expect(
      await query("select column_name from tidemark.field where folded in ('contactphone', 'remark')"),
    ).toEqual([])
  })

  it('are cleared of what is stored already, when a rule is put in force that is new (P20)', {
    timeout: 300_000,
  }, async () => {
    await using upstream = await startSimulator({ assignments: 20, trackers: 3 })
    withCanaries(upstream)
    upstream.source.appendRaw('assignment', `{"ContactPhone":"${secret}"}`)
    upstream.source.appendRaw(
      'assignment',
      `{"AssignmentId":901,"RowVersion":${nextVersion(upstream)},"Extra":{"contactPhone":"${secret}"}}`,
    )
    say('assignment:\n  fields:\n    Subject: { label: Matter }\n')
    const before = environmentOf(upstream)
    const { call } = caller(before)
    expect((await call(sync)).code).toBe(0)
    upstream.source.change('assignment', 3, {
      ...{ ...canaries, ContactPhone: `${secret} later`, ContactEmail: null },
      ...{ ActualStart: '1985-02-29T11:22:33', Subject: 'changed' },
    })
    expect((await call(sync)).code).toBe(0)
    // The page of changes, and the rows as the API answers them.
    const changed = async () => {
      const asked = { stream: null, column: '', after: null, limit: 100 }
      return JSON.stringify((await readChanges(database.pool, [streamOf('assignment')], asked)).changes)
    }
    const answered = async (q: string) => {
      const facts = { pool: database.pool, streams: [streamOf('assignment')] }
      const asked = rowsDocument.asked.parse({ stream: 'assignment', q }) as never
      return JSON.stringify(await rowsDocument.read(facts, asked))
    }
    expect(await answered(secret)).toContain(secret)
    expect((await changed()).split(secret).length).toBeGreaterThan(3)
    expect((await call(sync, 'assignment', '--kind', 'related')).code).toBe(0)
    expect((await everythingIn(database.pool)).split(secret).length).toBeGreaterThan(10)

    say(rules)
    const stopped = await call(sync, 'assignment')
    expect([stopped.code, stopped.logged]).toEqual([
      null,
      expect.stringContaining('tidemark privacy assignment'),
    ])
    const dry = await call(privacy, 'assignment', '--json')
    const [{ changes, stored }] = JSON.parse(dry.stdout).streams
    expect(changes.map((one: { field: string }) => one.field)).toContain('contactphone')
    expect(stored).toMatchObject({ rows: 21, quarantine: 1 })
    for (const stream of ['assignment', 'customer', 'tracker_object'])
      expect((await call(privacy, stream, '--apply', '--reason', 'tried')).code).toBe(0)
    expect(await everythingIn(database.pool)).not.toContain(secret)
    expect(await changed()).toContain('"after":"changed"')
    expect(await changed()).not.toContain(secret)
    expect(await answered('')).not.toContain(secret)
    expect(JSON.parse(await answered(secret)).rows).toEqual([])
    expect(
      await query("select position::int as position from tidemark.stream where name = 'assignment'"),
    ).toEqual([{ position: 0 }])
    expect((await call(sync)).code).toBe(0)
    expect((await call(sync, 'assignment', '--kind', 'related')).code).toBe(0)
    expect((await call(reconcile, 'assignment')).code).toBe(0)
    expect(await everythingIn(database.pool)).not.toContain(secret)
    upstream.source.change('assignment', 3, {
      ContactPhone: `${secret} again`,
      ContactEmail: `${secret}@again`,
    })
    expect((await call(sync, 'assignment')).code).toBe(0)
    expect(await changed()).toContain('"contact_email"')
    expect(await changed()).not.toContain(secret)
    const [row] = await query('select * from mirror.assignment where assignment_id = 7')
    expect(row).toMatchObject({ description: 'ab', actual_start: '1984', contact_phone: null })
    expect(row.contact_email).toMatch(/^[0-9a-f]{64}$/)
    expect(
      (await query("select email from mirror.customer where email ~ '^[0-9a-f]{64}$'")).length,
    ).toBeGreaterThan(0)
    expect(await query('select from tidemark.missed_rows')).toEqual([])
    expect(await query('select from tidemark.local_change where rows is distinct from 0')).toEqual([])
    expect(
      await query("select result, stream from tidemark.action where action = 'privacy' order by id"),
    ).toEqual([...['assignment', 'customer', 'tracker_object'].map((stream) => ({ stream, result: 'done' }))])
    const again = await call(privacy, 'assignment', '--apply', '--reason', 'again')
    expect(again.logged).toContain('Nothing waits')
  })

  it('are counted where only the history has them, as they are cleared there (P20)', async () => {
    await using upstream = await startSimulator({ assignments: 6 })
    say('assignment: { label: Work }')
    const { call } = caller(environmentOf(upstream, { STREAMS: 'assignment', RELATED: 'false' }))
    upstream.source.change('assignment', 3, { Extra: secret })
    upstream.source.change('assignment', 4, { Extra: secret })
    await call(sync)
    await query('alter table mirror.assignment_history rename column extra to "Extra"')
    await query('drop table mirror.assignment cascade')
    say('assignment:\n  fields:\n    Extra: { omit: true }\n')
    const waiting = JSON.parse((await call(privacy, 'assignment', '--json')).stdout)
    expect(waiting.streams[0].stored).toMatchObject({ rows: 0, history: 2 })
    const applied = await call(privacy, 'assignment', '--apply', '--reason', 'tried')
    expect(applied.stdout).toContain('Cleared: values in 0 rows and 2 lines of their past')
    expect(await everythingIn(database.pool)).not.toContain(secret)
  })

  it('are not read with another MASK_KEY, or by a program without the dictionary, before that is confirmed (P20)', {
    timeout: 300_000,
  }, async () => {
    await using upstream = await startSimulator({ assignments: 8 })
    withCanaries(upstream)
    const { call } = caller(environmentOf(upstream, { STREAMS: 'assignment', RELATED: 'false' }))
    const of = (more: Record<string, string>) =>
      caller({ ...environmentOf(upstream, { STREAMS: 'assignment', RELATED: 'false' }), ...more })
    expect((await call(sync)).code).toBe(0)
    const hashes = () => query('select contact_email from mirror.assignment order by assignment_id')
    const first = await hashes()
    upstream.source.change('assignment', 3, { Subject: 'later' })
    const another = of({ MASK_KEY: 'another key of many characters' })
    expect((await another.call(sync)).logged).toContain('MASK_KEY is another one')
    expect((await another.call(explain, 'assignment', '3')).stdout).toContain('MASK_KEY is another one')
    expect((await of({ DICTIONARY: '' }).call(sync)).logged).toContain('DICTIONARY says')
    expect((await of({ MASK_KEY: '' }).call(sync)).logged).toContain('MASK_KEY is not set')
    expect(await query("select from mirror.assignment where subject = 'later'")).toEqual([])
    const body = `${file}.json`
    writeFileSync(body, '{"AssignmentId":3}')
    expect((await call(api, 'PUT', '/api/Assignment', '--merge', '--body', body)).logged).toContain(
      'masked ones',
    )
    expect((await query('select key from tidemark.notice')).map(({ key }) => key)).toEqual([
      'private_fields:assignment',
    ])
    expect((await another.call(privacy, 'assignment', '--apply', '--reason', 'a new key')).code).toBe(0)
    expect((await another.call(sync)).code).toBe(0)
    expect(await query('select from tidemark.notice')).toEqual([])
    const second = await hashes()
    expect(second.length).toBe(first.length)
    for (const [index, { contact_email }] of second.entries()) {
      expect(contact_email).toMatch(/^[0-9a-f]{64}$/)
      expect(contact_email).not.toBe(first[index]?.contact_email)
    }
    expect(await query("select from mirror.assignment where subject = 'later'")).toHaveLength(1)
  })

  it('come back with everything else when their rule is taken away', { timeout: 300_000 }, async () => {
    await using upstream = await startSimulator({ assignments: 8 })
    withCanaries(upstream)
    const { call } = caller(environmentOf(upstream, { STREAMS: 'assignment', RELATED: 'false' }))
    await call(sync)
    say('assignment: { label: Work }\n')
    expect((await call(sync)).code).toBeNull()
    expect((await call(privacy, 'assignment', '--apply', '--reason', 'needed after all')).code).toBe(0)
    expect((await call(sync)).code).toBe(0)
    const [row] = await query('select * from mirror.assignment where assignment_id = 3')
    expect(row).toMatchObject({ contact_phone: canaries.ContactPhone, contact_email: canaries.ContactEmail })
    expect(String(row._rescued?.ActualStart ?? row.actual_start)).toContain('1984')
    // A key that was found in the data, which no dictionary can know.
    await query("update tidemark.stream set key_field = 'ContactPhone' where name = 'assignment'")
    say(rules)
    await call(privacy, 'assignment', '--apply', '--reason', 'again')
    expect((await call(sync)).logged).toContain('masks ContactPhone, which is its key')
  })
})
