// The decisions of the worker that need neither a queue nor a clock: how long to leave alone, how to be subscribed.

import { afterEach, describe, expect, it, vi } from 'vitest'
import { loadConfig, webhookSecretOf } from '../../src/config/load.ts'
import { environmentOfSource } from '../../src/config/sources-file.ts'
import type { SyncContext } from '../../src/context.ts'
import type { JsonObject } from '../../src/json/json.ts'
import { afterFailure, backoff, type Outage } from '../../src/util/backoff.ts'
import { isSecret } from '../../src/web/sessions.ts'
import { failureScopeOf } from '../../src/worker/failures.ts'
import { lookbackReader } from '../../src/worker/kinds.ts'
import { openHooks } from '../../src/worker/served.ts'
import { checkCreated, planSubscriptions, subscriptionKeyOf } from '../../src/worker/subscription.ts'
import { neverAborted } from '../support/context.ts'
import { outcomeOf } from '../support/jobs.ts'
import { complete } from '../support/settings.ts'
import { streamOf } from '../support/streams.ts'

describe('what fails', () => {
  it('because the disk of Postgres is full is the trouble of all runs, also when its failure could be noted', () => {
    const full = Object.assign(new Error('could not extend file: No space left on device'), { code: '53100' })
    expect(failureScopeOf(full, true)).toMatchObject({ scope: 'database', level: 'warn' })
    expect(failureScopeOf(new Error('relation is missing'), true)).toMatchObject({ scope: 'stream' })
  })

  const fail = (outage: Outage | null, nowMs: number, more = {}): Outage =>
    afterFailure(outage, {
      ...{ nowMs, startedMs: nowMs, notBeforeMs: null, policy: backoff.circuit, random: 1 },
      ...more,
    })

  it('is left alone for longer each time, up to five minutes', () => {
    const delays: number[] = []
    let outage: Outage | null = null
    for (let nowMs = 1_000, failures = 0; failures < 40; failures++, nowMs = outage.untilMs) {
      outage = fail(outage, nowMs)
      delays.push(outage.untilMs - nowMs)
    }
    expect(delays.slice(0, 8)).toEqual([5, 10, 20, 40, 80, 160, 300, 300].map((seconds) => seconds * 1000))
    expect(Math.max(...delays)).toBe(300_000)
    expect(outage?.sinceMs).toBe(1_000)
  })

  it('together is one failure', () => {
    const first = fail(null, 1_000)
    expect(fail(first, 1_500, { startedMs: 900 })).toEqual(first)
  })

  it('is not asked before it wants to be (P10)', () => {
    expect(fail(null, 1_000, { notBeforeMs: 900_000 }).untilMs).toBe(900_000)
  })
})

describe('look-backs that come often', () => {
  afterEach(() => void vi.useRealTimers())

  it('are brief but for one in 45 s, and until one has ended well', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const reached: (string | undefined)[] = []
    let status: 'done' | 'failed' = 'failed'
    const read: SyncContext['read'] = async ({ name }, kind, { reach }) => {
      reached.push(reach)
      return outcomeOf({ stream: name, kind, cause: 'tick' }, { status })
    }
    const look = lookbackReader({ read })
    for (let run = 0; run < 8; run++) {
      await look(streamOf('assignment'), { signal: neverAborted })
      status = 'done'
      vi.advanceTimersByTime(15_000)
    }
    expect(reached).toEqual(['short', 'short', 'brief', 'brief', 'short', 'brief', 'brief', 'short'])
    vi.advanceTimersByTime(90_000)
    await look(streamOf('assignment'), { signal: neverAborted })
    expect(reached.at(-1)).toBe('whole')
  })
})

describe('where webhooks of a source arrive', () => {
  const webhookSecret = 'a-webhook-secret-of-the-tests'
  const derived = webhookSecretOf(webhookSecret, 'acme')

  it('is told to come again while the source cannot be read, and is nowhere once it is gone', () => {
    const later = { secret: derived, signingSecret: null, isLater: true }
    expect(openHooks({ webhookSecret })('acme')).toEqual(later)
    const hookOf = openHooks(
      { webhookSecret },
      { configOf: () => null, isNamed: (source) => source === 'acme' },
    )
    expect(hookOf('acme')).toEqual(later)
    expect(hookOf('beta')).toBeNull()
    expect(openHooks({ webhookSecret: null })('acme')).toBeNull()
  })

  it('is the same as long as its settings are, so that what came before is known', () => {
    const open = (WEBHOOK_SECRET: string) =>
      loadConfig(
        environmentOfSource({ WEBHOOK_SECRET, ACME_KEY: complete.API_KEY }, 'acme', {
          ...complete,
          API_KEY: 'env:ACME_KEY',
        }),
      )
    const configs = [open(webhookSecret), open('another-secret-of-the-tests')]
    const hookOf = openHooks({ webhookSecret }, { configOf: () => configs[0] ?? null, isNamed: () => true })
    const first = hookOf('acme')
    expect(first?.secret).toBe(derived)
    expect(hookOf('acme')).toBe(first)
    configs.shift()
    expect(hookOf('acme')).not.toEqual(first)
  })
})

describe('the own subscription', () => {
  const urls = { hookUrl: 'https://me.example/hooks/new', hooksUrl: 'https://me.example/hooks/' }
  const definitions = [
    { Id: 1, Name: 'AssignmentChanged' },
    { Id: 2, Name: 'InvoiceSent' },
  ]
  const plan = (subscriptions: JsonObject[], defined: object[] = definitions) =>
    planSubscriptions({ definitions: defined as never, subscriptions }, urls)

  it('is made for what is about assignments, with the names that others use', () => {
    const others = { Id: 'x', EventDefinition: 2, TargetUri: 'https://other.example' }
    expect(plan([others])).toEqual({
      remove: [],
      create: [1],
      names: { definition: 'EventDefinition', address: 'TargetUri', secret: null },
      kept: 0,
    })
  })

  it('is kept once; duplicates, earlier addresses and those switched off go', () => {
    const mine = { WebhookDefinitionId: 1, Url: urls.hookUrl }
    const found = plan([
      { ...mine, Id: 'a' },
      { ...mine, Id: 'b' },
      { ...mine, Id: 'c', Url: `${urls.hooksUrl}old` },
      { ...mine, Id: 'd', IsActive: false },
      { Id: 'e', WebhookDefinitionId: 1, Url: 'https://other.example/hooks/x' },
    ])
    expect(found).toMatchObject({ remove: ['b', 'c', 'd'], create: [], kept: 1 })
  })

  it('of one source is left alone by the others, which may see the same subscriptions', () => {
    const [mine, acmes] = [`${urls.hooksUrl}old`, `${urls.hooksUrl}acme/old`]
    const both = [mine, acmes].map((Url, index) => ({ Id: `${index}`, WebhookDefinitionId: 1, Url }))
    expect(plan(both)).toMatchObject({ remove: ['0'] })
    const ofAcme = { hookUrl: `${urls.hooksUrl}acme/new`, hooksUrl: `${urls.hooksUrl}acme/` }
    expect(planSubscriptions({ definitions, subscriptions: both }, ofAcme)).toMatchObject({ remove: ['1'] })
  })

  it('is found by ids that no JavaScript number holds (P4)', () => {
    const one = JSON.rawJSON('9007199254740993')
    const other = JSON.rawJSON('9007199254740995')
    const mine = { WebhookDefinitionId: one, Url: urls.hookUrl }
    const found = plan(
      [
        { ...mine, Id: one },
        { ...mine, Id: other },
      ],
      [{ Id: one, Event: 'AssignmentChanged' }],
    )
    expect(found).toMatchObject({ remove: ['9007199254740995'], create: [], kept: 1 })
    expect(subscriptionKeyOf({ Id: other })).toBe('9007199254740995')
  })

  it('is not made when the definitions are not usable, and what was seen is told', () => {
    expect(plan([], [])).toEqual({ unusable: 'the upstream lists no webhook definitions' })
    expect(plan([], [{ Kind: 'x', Size: 1 }])).toEqual({
      unusable: expect.stringContaining('its fields: Kind, Size'),
    })
    expect(checkCreated({ Id: 1, CallbackUrl: null }, urls.hookUrl)).toEqual({
      unusable: expect.stringContaining('its fields: Id, CallbackUrl'),
    })
  })
})

it('secrets are compared whole', () => {
  const isOurs = isSecret('a-secret')
  expect(['a-secret', 'a-secre', 'a-secret ', '', 'A-SECRET'].map(isOurs)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ])
})
