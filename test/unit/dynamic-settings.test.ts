// Settings that are changed while workers run: which may be, what lies over what, and what is said of those that cannot be.

import { mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { lookbackOf, pageSizeOf, problemIn, scheduleOf } from '../../src/config/dynamic-settings.ts'
import { loadConfig } from '../../src/config/load.ts'
import { readSettings } from '../../src/config/settings.ts'
import { environmentOfSource } from '../../src/config/sources-file.ts'
import { variables } from '../../src/config/variables.ts'
import { howToRead } from '../../src/configured.ts'
import { targetsOf } from '../../src/problems/receivers.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { overridesOf, remarkOn } from '../../src/streams/settings.ts'
import { openRateLimit } from '../../src/upstream/http/budget.ts'
import { complete, dynamicIn, problemsOf } from '../support/settings.ts'

const [assignment, note] = knownStreams
const over = (overrides: Readonly<Record<string, string>>) =>
  Object.entries(overrides).map(([name, value]) => ({ name, value }))

describe('settings that are changed while workers run', () => {
  it('lie over the environment, and go away again', () => {
    const dynamic = dynamicIn({ PAGE_SIZE: '700', SCHEDULE_ASSIGNMENT: '5m', LOOKBACK: '20m' })
    const read = () => [
      pageSizeOf(dynamic.now(), assignment),
      pageSizeOf(dynamic.now(), note),
      scheduleOf(dynamic.now(), assignment),
      lookbackOf(dynamic.now(), note),
    ]
    const before = [700, 700, { everyMs: 300_000 }, 1_200_000]
    expect(read()).toEqual(before)
    const overrides = {
      ...{ PAGE_SIZE: '50', PAGE_SIZE_ASSIGNMENT: '7', SCHEDULE_ASSIGNMENT: '*/5 * * * *' },
      LOOKBACK_ASSIGNMENT_NOTE: '1h',
    }
    const held = dynamic.now()
    expect(dynamic.takeUp(over(overrides))).toEqual({ used: overrides, problems: [] })
    expect(read()).toEqual([7, 50, { cron: '*/5 * * * *' }, 3_600_000])
    // What a run has begun with stays as it is.
    expect(pageSizeOf(held, assignment)).toBe(700)
    expect(dynamic.takeUp(over(overrides))).toBeNull()
    expect(dynamic.takeUp([])).toEqual({ used: {}, problems: [] })
    expect(read()).toEqual(before)
  })

  it('are what a run reads when it begins, those of its stream first', () => {
    const config = loadConfig({ ...complete, PAGE_SIZE_ASSIGNMENT: '70' })
    config.dynamic.takeUp(
      over({ PAGE_SIZE: '9', LOAD_CONNECTIONS: '2', LOOKUPS_PER_MINUTE: '5', LOOKBACK: '30m' }),
    )
    const how = { load: { readers: 2 }, lookupsPerMinute: 5, lookbackFloorMs: 1_800_000 }
    expect(howToRead(assignment, config)).toMatchObject({ pageSize: 70, ...how })
    expect(howToRead(note, config)).toMatchObject({ pageSize: 9, ...how })
  })

  it('wins over a value that stands in a file', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-settings-'))
    const file = join(directory.path, 'size')
    writeFileSync(file, '7\n')
    const dynamic = dynamicIn({ PAGE_SIZE_FILE: file })
    dynamic.takeUp(over({ PAGE_SIZE: '8' }))
    expect(dynamic.now().pageSize).toBe(8)
    dynamic.takeUp([])
    expect(dynamic.now().pageSize).toBe(7)
  })

  it.each([
    ['PAGE_SIZE', '0'],
    ['PAGE_SIZE_ASSIGNMENT', '100001'],
    ['SCHEDULE_ASSIGNMENT', 'whenever'],
    ['SCHEDULE_RECONCILE', '99 * * * *'],
    ['REQUESTS_PER_SECOND', '-1'],
    ['LOOKBACK', '900d'],
    ['LOOKBACK_ASSIGNMENT_NOTE', '0s'],
    ['HISTORY', 'assignment=1h'],
  ])('are refused with the words of the variable: %s=%s', (name, value) => {
    const problem = dynamicIn().problemOf({ name, value })
    expect(problem).toContain(name)
    expect(problemsOf({ ...complete, [name]: value }).trim()).toBe(problem)
  })

  it('are refused when they need a restart, or are none', () => {
    const { problemOf } = dynamicIn()
    const start =
      'cannot be changed while workers run: set it in the environment or in .env, and start all workers again'
    const problemWith = (name: string, value = 'x') => problemOf({ name, value })
    expect(problemWith('HTTP_PORT')).toBe(`HTTP_PORT ${start}`)
    expect(problemWith('KEY_TRACKER_OBJECT')).toBe(`KEY_TRACKER_OBJECT ${start}`)
    expect(problemWith('STREAMS')).toBe(`STREAMS ${start}. \`tidemark pause\` stops reading a stream at once`)
    expect(problemWith('PAGE_SIZ')).toBe('PAGE_SIZ is no setting of Tidemark: did you mean PAGE_SIZE?')
    expect(problemWith('SCHEDULE_ASIGNMENT')).toContain('did you mean SCHEDULE_ASSIGNMENT?')
    expect(problemWith('constructor')).toBe('constructor is no setting of Tidemark')
    expect(problemWith('SCHEDULE_CUSTOMER')).toBe(
      'SCHEDULE_CUSTOMER is no setting of Tidemark: no stream customer is configured',
    )
    expect(problemWith('SCHEDULE_ACME.ASSIGNMENT')).toMatch(/^SCHEDULE_ACME.ASSIGNMENT is no setting/)
    expect(problemWith('PAGE_SIZE', ' ')).toBe('PAGE_SIZE needs a value')
    expect(problemWith('HISTORY', 'assignment,'.repeat(500))).toBe('HISTORY has more than 2000 characters')
    // No secret may land in Postgres (P9).
    for (const [name, { secret }] of Object.entries(variables))
      if (secret) expect(problemWith(name)).toContain('cannot be changed while workers run')
  })

  it('of a source that has a name are those of its own, and not those of the deployment', () => {
    const environment = environmentOfSource({}, 'acme', { PAGE_SIZE: '5' })
    const problemWith = (name: string, value: string) => problemIn(environment, { name, value })
    expect(problemWith('PAGE_SIZE', '7')).toBeNull()
    expect(problemWith('SCHEDULE_ASSIGNMENT', '7s')).toBeNull()
    expect(problemWith('PAGE_SIZE', '0')).toBe('PAGE_SIZE must be a whole number from 1 to 100000')
    expect(problemWith('HTTP_PORT', '9')).toBe(
      'HTTP_PORT is the same for all sources: change it without acme',
    )
    expect(problemWith('API_KEY', 'x')).toBe(
      'API_KEY cannot be changed while workers run: set it for acme in the file that SOURCES_FILE names',
    )
    const stored = over({ PAGE_SIZE: '9', 'acme.PAGE_SIZE': '8', 'acme_too.PAGE_SIZE': '7' })
    expect(['', 'acme', 'acme_too'].map((source) => overridesOf(stored, source))).toEqual([
      over({ PAGE_SIZE: '9' }),
      over({ PAGE_SIZE: '8' }),
      over({ PAGE_SIZE: '7' }),
    ])
  })

  it('that this version cannot use are told, and the others hold', () => {
    const dynamic = dynamicIn({ PAGE_SIZE: '700' })
    const taken = dynamic.takeUp(over({ PAGE_SIZE: '0', OF_A_LATER_VERSION: '1', STALE_AFTER: '1h' }))
    expect(taken).toEqual({
      used: { STALE_AFTER: '1h' },
      problems: [
        'PAGE_SIZE must be a whole number from 1 to 100000',
        'OF_A_LATER_VERSION is no setting of Tidemark',
      ],
    })
    expect(dynamic.now()).toMatchObject({ pageSize: 700, staleAfterMs: 3_600_000 })
  })

  it('keep histories, unless the dictionary says otherwise', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-settings-'))
    const DICTIONARY = join(directory.path, 'dictionary.yml')
    writeFileSync(DICTIONARY, 'assignment: { history: 30d }\n')
    const { dynamic, dictionary } = loadConfig({ ...complete, DICTIONARY })
    const keptMs = (name: string) => dictionary.now().get(name)?.historyMs ?? null
    expect(dynamic.problemOf({ name: 'HISTORY', value: 'assignment=60d' })).toMatch(/HISTORY/)
    const override = { name: 'HISTORY', value: 'assignment_note=365d' }
    expect(dynamic.problemOf(override)).toBeNull()
    dynamic.takeUp([override])
    expect(keptMs('assignment_note')).toBeNull()
    expect(dictionary.look()).toEqual({ problem: null })
    expect([keptMs('assignment'), keptMs('assignment_note')]).toEqual([30 * 86_400_000, 365 * 86_400_000])
    expect(dictionary.look()).toBeNull()
  })

  it('set targets of single streams, above those of the file', () => {
    const settings = { receivers: new Map(), rules: [], remarks: [] }
    const targets = { assignment: { read: 60_000, settled: 600_000 } }
    const alertFile = { read: () => ({ settings: { ...settings, targets }, problem: null }) }
    const dynamic = dynamicIn({ TARGET_DELETIONS_ASSIGNMENT: '1d' })
    dynamic.takeUp(over({ TARGET_READ_ASSIGNMENT: '5m', TARGET_READ_ASSIGNMENT_NOTE: '10m' }))
    expect(targetsOf({ alertFile, dynamic })).toEqual({
      assignment: { read: 300_000, settled: 600_000, deletions: 86_400_000 },
      assignment_note: { read: 600_000 },
    })
    dynamic.takeUp([])
    expect(targetsOf({ alertFile, dynamic }).assignment?.read).toBe(60_000)
  })

  it('are shown with what they lie over', () => {
    const at = new Date()
    const dotEnv = { PAGE_SIZE: '700', STALE_AFTER: '1h' }
    const stored = (name: string, value: string) => ({ name, value, by: 'ada@desk', at })
    const { settings, unknown } = readSettings({ ...dotEnv, LOOKBACK: '1m' }, dotEnv)(undefined, [
      ...[stored('PAGE_SIZE', '50'), stored('STALE_AFTER', 'soon'), stored('OF_A_LATER_VERSION', '1')],
    ])
    const shown = (name: string) => settings.find((one) => one.name === name)
    const asDefault = { source: 'default', file: null }
    expect(shown('PAGE_SIZE')).toMatchObject({
      ...{ value: '50', source: 'override', isDynamic: true, override: { by: 'ada@desk', at } },
      beneath: [
        { value: '700', source: '.env', file: null },
        { value: '1000', ...asDefault },
      ],
    })
    const unusable = shown('STALE_AFTER')
    expect(unusable).toMatchObject({ value: '1h', source: '.env', beneath: [{ value: '15m', ...asDefault }] })
    expect(unusable && remarkOn(unusable)).toMatch(
      /^soon \(override\) is not used: STALE_AFTER must be a duration/,
    )
    expect(shown('HTTP_PORT')).toMatchObject({ isDynamic: false, override: null, beneath: [] })
    expect(unknown).toContainEqual({ name: 'OF_A_LATER_VERSION', source: 'override', meant: null })
  })
})

it('a budget that changes holds from the next request on, also one that begins or ends', async () => {
  let nowMs = 0
  const clock = {
    now: () => nowMs,
    async waitUntil(untilMs: number) {
      nowMs = untilMs
    },
  }
  let perSecond: number | null = null
  const limit = openRateLimit({ clock })
  const waited = async () => await limit.take(perSecond, new AbortController().signal)
  expect([await waited(), await waited()]).toEqual([0, 0])
  perSecond = 2
  expect([await waited(), await waited()]).toEqual([0, 500])
  perSecond = 10
  expect([await waited(), await waited()]).toEqual([100, 100])
  perSecond = null
  expect(await waited()).toBe(0)
})
