// What needs a person, and what not: from symptoms and the worker's view to problems that name their commands.

import { describe, expect, it } from 'vitest'
import { isStale } from '../../src/config/parsers.ts'
import { findProblems, type WorkerView } from '../../src/problems/find-problems.ts'
import type { Part } from '../../src/problems/parts.ts'
import { problemKinds } from '../../src/problems/stream-problems.ts'
import { careOf } from '../../src/problems/stream-state.ts'
import { keptInWords, measured, targetRules } from '../../src/problems/targets.ts'
import { descriptionProblems } from '../../src/problems/upstream-changes.ts'
import type { Notice } from '../../src/store/book/problems.ts'
import type { StreamSymptoms } from '../../src/store/book/symptoms.ts'
import { utcMinute } from '../../src/util/text.ts'
import { evaluate, samplesOf } from '../support/prometheus.ts'
import { wellAt } from '../support/symptoms.ts'

const now = new Date('2026-03-02T12:00:00Z')
const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000)
const well = wellAt(now)
const allWell: WorkerView = { parts: [] }
const down = (kind: Part['kind'], name: string): Part => ({
  ...{ name, kind, isUp: false, state: 'down', since: ago(1) },
  ...{ reason: 'It was not seen.', whatToDo: 'See whether it runs: `tidemark probe`.' },
})

const find = (
  symptoms: readonly Partial<StreamSymptoms>[],
  view: Partial<WorkerView> = {},
  notices: readonly Notice[] = [],
) =>
  findProblems({
    notices,
    symptoms: symptoms.map((one) => ({ ...well, ...one })),
    view: { ...allWell, ...view },
    rules: {
      serviceOf: (stream) => (stream === 'tracker_object' ? 'tracking' : 'assignment'),
      isStale: (_stream, readThroughAt, at) => isStale({ everyMs: 30_000 }, 900_000, readThroughAt, at),
      frozenAfterMs: () => 86_400_000,
      targetOf: () => ({ kind: 'changes', targets }),
    },
    now,
  })
const targets = { assignment_note: { settled: 10 * 60_000 } }
const ofTable = { isHistory: false, lostFrom: null, lostThrough: null }
const ofHistory = { isHistory: true, lostFrom: '2026-01-01T00:00:00Z', lostThrough: '2026-03-01T00:00:00Z' }
const kinds = (...given: Parameters<typeof find>) => find(...given).map(({ kind }) => kind)
const failing = (failures: number, code: string | null = null) => [
  { kind: 'incremental', failures, since: ago(3), lastAt: ago(2), error: 'GET /x: it failed', code },
]

describe('findProblems', () => {
  it('says nothing when all is well, before a stream was read through for the first time, and while it is paused', () => {
    expect(find([{}, { readThroughAt: null }, { readThroughAt: ago(999), isPaused: true }])).toEqual([])
  })

  it('names the exact command for what waits for a person', () => {
    const found = find([
      { blockedDeletions: { missing: 25_001, living: 98_500, at: ago(5) } },
      { quarantined: 1, quarantinedSince: ago(9) },
      { missedRows: 100, missedSince: ago(8) },
    ])
    expect(found.map(({ kind, since }) => [kind, since])).toEqual([
      ['deletions_blocked', ago(5)],
      ['quarantine', ago(9)],
      ['missed_rows', ago(8)],
    ])
    expect(found[0]).toMatchObject({
      what: expect.stringContaining('25,001 of 98,500 rows of assignment disappeared'),
      whatToDo: expect.stringContaining('`tidemark deletions list assignment`'),
      runbook: 'docs/operations/deletions-blocked.md',
    })
    expect(found[1]).toMatchObject({
      what: expect.stringContaining('1 record cannot be stored as rows and is kept in quarantine'),
      whatToDo: expect.stringContaining('`tidemark quarantine retry assignment`'),
    })
    expect(found[2]?.whatToDo).toContain('`tidemark reconcile --acknowledge assignment`')
  })

  it('tells that nothing is shown any more, instead of what follows from it', () => {
    const found = find([{ hiddenSince: ago(20), readThroughAt: ago(25) }])
    expect(found).toMatchObject([
      {
        kind: 'access_lost',
        since: ago(20),
        what: expect.stringContaining(`It is read through ${ago(25).toISOString()}.`),
        whatToDo: expect.stringContaining('CLIENT_GUID'),
      },
    ])
  })

  it('does not lead to an approval before the permission to read was looked at, when a list is empty', () => {
    const [found, ...rest] = find([
      { blockedDeletions: { missing: 9, living: 9, at: ago(5) }, readThroughAt: ago(25) },
    ])
    expect(rest).toEqual([])
    expect(found?.whatToDo).toMatch(
      /^Check CLIENT_GUID and the permissions.*Only if all of them are really gone/,
    )
  })

  it('tells that perhaps more are missing than a search has counted (P18)', () => {
    expect(find([{ blockedDeletions: { missing: 9, isLeast: true, living: 20, at: ago(5) } }])).toMatchObject(
      [
        {
          what: expect.stringContaining('At least 9 of 20 rows of assignment disappeared'),
          whatToDo: expect.stringContaining('Count them first: `tidemark reconcile assignment`'),
        },
      ],
    )
  })

  it('P18: tells of a few rows why they are too many: with those that were marked within a day', () => {
    const blockedDeletions = { missing: 1, living: 70, marked: 18, at: ago(5) }
    expect(find([{ blockedDeletions }])[0]?.what).toBe(
      '1 of 70 rows of assignment disappeared from the upstream, after 18 others within a day, which were marked deleted. Tidemark has not deleted these here.',
    )
  })

  it('P18: asks nobody to approve while a reconcile decides about them', () => {
    const blockedDeletions = { missing: 9, living: 99, at: ago(5) }
    const [found] = find([{ blockedDeletions, reconcilingSince: ago(1) }])
    expect(found?.whatToDo).toMatch(/^A reconcile of assignment is running since .* Wait until it is over\.$/)
  })

  it('tells that deletions are blocked when it is not known how many', () => {
    expect(find([{ blockedDeletions: { missing: null, living: null, at: null } }])).toMatchObject([
      {
        kind: 'deletions_blocked',
        since: null,
        what: expect.stringContaining('An unknown number of rows of assignment disappeared'),
        whatToDo: expect.stringContaining('Count them first: `tidemark reconcile assignment`'),
      },
    ])
  })

  it('says of deletions that an operator froze who did it, what stays, and since when nothing is known', () => {
    const rejected = { at: ago(60), by: 'ada@desk', reason: 'a lost right' }
    const blockedDeletions = { missing: 5, living: 20, at: ago(90), rejected }
    const [found, ...rest] = find([{ blockedDeletions }])
    expect(rest).toEqual([])
    expect(found).toMatchObject({
      ...{ kind: 'deletions_frozen', since: ago(60), quietUntil: ago(60 - 24 * 60) },
      what: `Deletions of assignment are frozen since ${utcMinute(ago(60))}, by ada@desk: “a lost right”. 5 rows that the list lacks stay. Deletions are known through ${utcMinute(ago(30))}.`,
      whatToDo: expect.stringContaining('`tidemark deletions undo assignment`'),
    })
    expect(careOf(found ?? { kind: 'schema_drift' })).toBe('needs you')
  })

  it('calls a kind of run failing from the third failure in a row on', () => {
    expect(kinds([{ failing: failing(2) }])).toEqual([])
    expect(find([{ failing: failing(3) }])).toMatchObject([
      { kind: 'failing', since: ago(3), what: expect.stringContaining('GET /x: it failed') },
    ])
  })

  it('calls a stream stale with the moment through which it is read', () => {
    expect(find([{ readThroughAt: ago(16) }])).toMatchObject([
      { kind: 'stale', since: ago(16), what: expect.stringContaining('16 m ago') },
    ])
  })

  it('calls a stream stale that was not read through since its position was moved back', () => {
    const moved = (minutes: number) => find([{ readThroughAt: null, movedBackAt: ago(minutes) }])
    expect(moved(1)).toEqual([])
    expect(moved(16)).toMatchObject([
      { kind: 'stale', since: ago(16), what: expect.stringContaining('was moved back at') },
    ])
  })

  it('tells a refused sign-in once, and not as failures of each stream', () => {
    const refused = failing(7, 'UPSTREAM_UNAUTHORIZED')
    const streams = ['assignment', 'assignment_note'].map((stream) => ({
      stream,
      failing: refused,
      readThroughAt: ago(999),
    }))
    const found = find([...streams, { stream: 'tracker_object', failing: failing(3, 'UPSTREAM_STATUS') }], {
      parts: [down('service', 'assignment')],
    })
    expect(found.map(({ kind, stream }) => [kind, stream])).toEqual([
      ['token_refused', null],
      ['failing', 'tracker_object'],
    ])
    expect(found[0]?.whatToDo).toContain('API_KEY')
    expect(kinds([...streams, { lastSuccessAt: ago(1) }]).includes('token_refused')).toBe(false)
  })

  it('tells of an identity provider that is away, and does not send people to the credentials', () => {
    const away = { failing: failing(7, 'UPSTREAM_SIGN_IN_AWAY') }
    expect(kinds([away], { parts: [down('service', 'assignment')] })).toEqual(['service_down'])
  })

  it.each([
    ['UPSTREAM_ASKS_LATER', 'The assignment service asks'],
    ['UPSTREAM_SIGN_IN_ASKS_LATER', 'The identity provider of the assignment service asks'],
  ])('sends a person where it is told to wait for longer than an hour: %s', (code, words) => {
    const one = failing(1, code).map((kind) => ({
      ...kind,
      error: 'GET /x: status 429. It asks for no requests before 2058-08-02T01:46:40.000Z.',
    }))
    const found = find([{ failing: one, readThroughAt: ago(999) }], {
      parts: [down('service', 'assignment')],
    })
    expect(found).toMatchObject([
      {
        kind: 'told_to_wait',
        key: 'told_to_wait:assignment',
        since: ago(3),
        what: expect.stringContaining(words),
      },
    ])
    expect(found[0]?.what).toContain('2058-08-02')
    expect(found[0] && careOf(found[0])).toBe('needs you')
    expect(kinds([{ failing: one, lastSuccessAt: ago(0) }])).toEqual([])
  })

  it('tells what the worker sees, and blames a service that is down for its streams', () => {
    const view = { parts: [down('queue', 'queue'), down('service', 'assignment')] }
    expect(kinds([{ failing: failing(9), readThroughAt: ago(999) }], view)).toEqual([
      'part_down',
      'service_down',
    ])
  })

  it.each([
    [59, 'heals'],
    [61, 'needs you'],
  ])('lets a service be down for an hour before somebody has to ask (%i minutes: %s)', (minutes, care) => {
    const away = failing(9).map((kind) => ({ ...kind, since: ago(minutes) }))
    const [found] = find([{ failing: away, lastSuccessAt: ago(minutes + 1) }], {
      parts: [down('service', 'assignment')],
    })
    expect(found).toMatchObject({ kind: 'service_down', since: ago(minutes) })
    expect(found && careOf(found)).toBe(care)
  })

  it('P18: names what may last behind a cause, so that nobody is told that it is over', () => {
    const hidden = (...given: Parameters<typeof find>) =>
      find(...given).map(({ kind, hides = [] }) => [kind, ...hides])
    const late = { readThroughAt: ago(60) }
    expect(hidden([late], { parts: [down('service', 'assignment')] })).toEqual([
      ['service_down', 'failing:assignment', 'stale:assignment'],
    ])
    expect(
      hidden([{ ...late, failing: failing(4, 'UPSTREAM_UNAUTHORIZED'), lastSuccessAt: ago(60) }]),
    ).toEqual([['token_refused', 'failing:assignment', 'stale:assignment']])
    const stuck = { stuckRuns: 5, stuckSince: ago(60), ...late }
    const behind = ['stuck:assignment', 'stuck:reconcile:assignment']
    expect(hidden([{ ...stuck, hiddenSince: ago(9) }])).toEqual([
      ['access_lost', ...behind, 'stale:assignment', 'inconclusive:assignment'],
    ])
    expect(hidden([{ ...stuck, blockedDeletions: { missing: 9, living: 10, at: ago(9) } }])).toEqual([
      ['deletions_blocked', ...behind, 'stale:assignment'],
    ])
    expect(hidden([{ ...stuck, inconclusiveRuns: 3 }])).toContainEqual(['inconclusive', ...behind])
  })

  it('P18: goes on telling that a stream makes no progress when one poll lacks a known record', () => {
    expect(kinds([{ stuckRuns: 5, stuckSince: ago(60), inconclusiveRuns: 1 }])).toEqual(['stuck'])
    expect(kinds([{ stuckRuns: 5, stuckSince: ago(60), inconclusiveRuns: 3 }])).toEqual(['inconclusive'])
  })

  it('sends a person at once where no stream of a service was ever read: its base URL may be wrong', () => {
    const [found] = find([{ failing: failing(9), lastSuccessAt: null }], {
      parts: [down('service', 'assignment')],
    })
    expect(found && careOf(found)).toBe('needs you')
    expect(found?.whatToDo).toContain('check its base URL')
  })

  it('takes what failed while the service worked for no part of its outage', () => {
    const failingSince = (minutes: number) => failing(9).map((kind) => ({ ...kind, since: ago(minutes) }))
    const [early, late] = [failingSince(600), failingSince(5)]
    const sinceOf = (...symptoms: Partial<StreamSymptoms>[]) =>
      find(symptoms, { parts: [down('service', 'assignment')] })[0]?.since
    expect(
      sinceOf({ failing: early, lastSuccessAt: ago(8) }, { failing: late, lastSuccessAt: ago(7) }),
    ).toEqual(ago(5))
    expect(sinceOf({ failing: early, lastSuccessAt: ago(7) })).toEqual(ago(7))
    expect(sinceOf({ failing: [...late, ...early], lastSuccessAt: null })).toEqual(ago(600))
    expect(sinceOf({ lastSuccessAt: null })).toBeNull()
  })

  it('gathers fields that came together, and keeps those apart that came later', () => {
    const at = (minutes: number, field: string) => ({ field, change: 'new' as const, at: ago(minutes) })
    const together = ['a', 'b', 'c', 'd', 'e', 'f'].map((field, index) => at(200 - index, field))
    const found = find([{ drift: [at(30, 'late'), ...together] }])
    expect(found.map(({ since, what }) => [since, what])).toEqual([
      [
        ago(200),
        'assignment: 6 fields of its records changed: a (new), b (new), c (new), d (new), e (new) and 1 more.',
      ],
      [ago(30), 'assignment: 1 field of its records changed: late (new).'],
    ])
    expect(new Set(found.map(({ key }) => key)).size).toBe(2)
  })

  it('tells each damage to a history, and once: what an earlier run found is another problem', () => {
    const by = { operation: 'delete', rows: 1, role: 'ann', application: 'psql', ...ofHistory }
    const [early, late] = [
      { ...by, at: ago(901), foundAt: ago(900), runId: 5 },
      { ...by, at: ago(99), foundAt: ago(9), runId: 8 },
    ]
    const found = find([{ localChanges: [early, late] }])
    expect(found.map(({ since }) => since)).toEqual([ago(900), ago(9)])
    // When the earlier one is forgotten, the later one is no news again.
    expect(find([{ localChanges: [late] }]).map(({ key }) => key)).toEqual([found[1]?.key])
  })
})

describe('a target', () => {
  const note = { stream: 'assignment_note' }

  it('is missed when a time is older, or has not come so long after the first load', () => {
    expect(kinds([note])).toEqual([])
    expect(find([{ ...note, settledThroughAt: ago(12), readThroughAt: ago(9) }])).toMatchObject([
      {
        ...{ key: 'target_missed:assignment_note:settled', since: ago(2) },
        what: `assignment_note misses its target for “settled through”, 10 m. It is ${ago(12).toISOString()}, 12 m ago.`,
      },
    ])
    const never = { ...note, settledThroughAt: null, firstReadThroughAt: ago(9) }
    expect(kinds([never])).toEqual([])
    expect(find([{ ...never, firstReadThroughAt: ago(11) }])[0]?.what).toContain('No such time is known now.')
  })

  it('is not missed while the stream is paused or loads for the first time', () => {
    const old = { ...note, settledThroughAt: ago(99) }
    expect(kinds([{ ...old, isPaused: true }])).toEqual([])
    expect(kinds([{ ...old, readThroughAt: null }])).toEqual([])
  })

  it('of a list is measured by its last reading, also in the rules for Prometheus', () => {
    const given = { tracker_object: { settled: 90_000, deletions: 60_000 } }
    const kindsOf = [{ name: 'tracker_object', kind: 'list' as const }]
    const rules = targetRules(measured(given, kindsOf)).groups[0]?.rules.map(({ expr }) => expr)
    const own = '{stream="tracker_object"}'
    expect(rules).toEqual([
      `max by (stream) (tidemark_lag_seconds${own} unless on (stream) tidemark_paused${own} == 1) > 90`,
      `max by (stream) (tidemark_deletions_age_seconds${own} unless on (stream) tidemark_paused${own} == 1) > 60`,
    ])
    const samples = samplesOf(
      `tidemark_lag_seconds${own} 91\ntidemark_deletions_age_seconds${own} 59\ntidemark_paused${own} 0`,
    )
    expect(rules?.map((expr) => evaluate(expr, samples).length)).toEqual([1, 0])
    const paused = samplesOf(`tidemark_lag_seconds${own} 91\ntidemark_paused${own} 1`)
    expect(evaluate(rules?.[0] ?? '', paused)).toEqual([])
  })

  it('says of a share that is not of the whole time of how much it is, and calls nothing else everything', () => {
    const kept = (share: number | null, days: number, hours: number) =>
      keptInWords({ stream: 'assignment', time: 'read', days, share, countedMs: hours * 3_600_000 })
    expect([kept(1, 7, 168), kept(0.99999, 7, 168), kept(0.5, 30, 26), kept(null, 7, 0)]).toEqual([
      ...['100 %', '99.99 %', '50 % of 1 d 2 h', 'not known yet'],
    ])
  })
})

describe('each problem', () => {
  it('says what happened and what to do in whole sentences, and names its runbook page', () => {
    const everything: Partial<StreamSymptoms> = {
      blockedDeletions: { missing: 3, living: 9, at: ago(5) },
      quarantined: 2,
      missedRows: 1,
      flippedBeliefs: [
        {
          ...{
            name: 'sorts',
            value: 'ignored',
            previousValue: 'honoured',
            evidence: 'page 1 was not sorted',
          },
          changedAt: ago(1),
        },
      ],
      drift: [
        { field: 'a', change: 'new', at: ago(1) },
        { field: 'b', change: 'widened', at: ago(1), said: 'integer int32' },
      ],
      epochs: [
        { at: ago(4), runId: 7, position: '12', evidence: '9 of 31 pinned records fell', isRead: false },
      ],
      volatileFields: [{ field: 'DownloadUrl', evidence: 'two looks showed two values', at: ago(1) }],
      localChanges: [
        {
          operation: 'delete',
          rows: 7,
          role: 'ann',
          application: 'psql',
          at: ago(3),
          foundAt: ago(3),
          runId: 5,
          ...ofTable,
        },
        {
          operation: 'drop',
          rows: null,
          role: null,
          application: null,
          at: ago(2),
          foundAt: ago(0),
          runId: null,
          ...ofTable,
        },
        {
          operation: 'drop months',
          rows: null,
          role: null,
          application: null,
          at: ago(2),
          foundAt: ago(2),
          runId: 6,
          ...ofHistory,
        },
      ],
    }
    const found = find(
      [
        everything,
        { hiddenSince: ago(20) },
        {
          blockedDeletions: {
            ...{ missing: null, living: null, at: null },
            rejected: { at: null, by: 'somebody', reason: null },
          },
        },
        { inconclusiveRuns: 3, inconclusiveSince: ago(2) },
        { stuckRuns: 3, stuckSince: ago(2), stuckNote: 'the pages did not add up' },
        { stream: 'tracker_object', failing: failing(3), readThroughAt: ago(99) },
        { stream: 'assignment_note', failing: failing(9, 'UPSTREAM_SIGN_IN'), settledThroughAt: ago(12) },
      ],
      { parts: [down('queue', 'queue')] },
      [
        { key: 'webhooks:subscription', since: ago(1), what: 'The worker is not subscribed.' },
        { key: 'related_off:assignment', since: ago(1), what: 'Related records cannot be read.' },
        { key: 'private_fields:assignment', since: ago(1), what: 'The dictionary is another one.' },
        { key: 'dictionary', since: ago(1), what: 'The dictionary has mistakes.' },
        { key: 'source_stopped:acme', since: ago(1), what: 'The source acme is not read.' },
        { key: 'sources_file', since: ago(1), what: 'sources.yaml:1: is no YAML.' },
      ],
    )
    const service = find([{ failing: failing(1, 'UPSTREAM_ASKS_LATER') }], {
      parts: [down('service', 'tracking')],
    })
    const contracts = descriptionProblems({
      changes: [
        {
          ...{ service: 'assignment', stream: 'assignment', subject: 'TblAssignment.a', foundAt: ago(9) },
          ...{ change: 'new field', before: null, after: 'integer' },
        },
      ],
      unusable: [
        { service: 'tracking', problem: 'http://host/x.json cannot be used: it is no JSON', since: ago(9) },
      ],
    })
    const all = [...found, ...service, ...contracts]
    expect(new Set(all.map(({ kind }) => kind))).toEqual(new Set(problemKinds))
    for (const { kind, what, whatToDo, runbook } of all) {
      expect(what, kind).toMatch(/[.…]$/)
      expect(whatToDo, kind).toMatch(/^[A-Z`].*\.$/)
      expect(runbook).toBe(`docs/operations/${kind.replaceAll('_', '-')}.md`)
    }
  })
})

describe('isStale', () => {
  it('waits for what was due, and STALE_AFTER on top', () => {
    const hourly = { everyMs: 3_600_000 }
    expect(isStale(hourly, 900_000, ago(74), now)).toBe(false)
    expect(isStale(hourly, 900_000, ago(76), now)).toBe(true)
    expect(isStale({ everyMs: 30_000 }, 900_000, ago(16), now)).toBe(true)
  })

  it('follows a cron schedule over a weekend', () => {
    // The second of March 2026 is a Monday.
    const weekdays = { cron: '0 12 * * 1-5' }
    const friday = new Date(2026, 1, 27, 12, 0, 5)
    expect(isStale(weekdays, 900_000, friday, new Date(2026, 2, 1, 12, 0))).toBe(false)
    expect(isStale(weekdays, 900_000, friday, new Date(2026, 2, 2, 12, 14))).toBe(false)
    expect(isStale(weekdays, 900_000, friday, new Date(2026, 2, 2, 12, 16))).toBe(true)
  })
})
