// Upstreams drawn at random that lie: for some rounds lists are empty, old, cut or out of order; backups are restored, records vanish or
// change in silence. A reader polls, looks back, searches for vanished records and reconciles meanwhile. It may be wrong for a time,
// but never in silence: what it calls settled is there, what it calls known to be deleted is marked, nothing that lives is marked, and
// when the upstream tells the truth again, either everything is equal or it says what is not (P6, P7, P11-P14).

import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { type LyingWorld, lyingWorlds, readLyingWorld } from '../support/lying-world.ts'
import { ordinaryWorld } from '../support/model-worlds.ts'
import { worldSeed } from '../support/worlds.ts'

/** Worlds in which something was wrong in silence once. */
const foundEarlier: readonly LyingWorld[] = [
  // Paging was ignored for a while: an answer that was longer than asked for passed for filters that are ignored, and the list for whole.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'row version', sorts: 'ascending only', cap: 6, capVaries: true, capArithmetic: 'capped' },
      ...{ dialect: 'dotnet-404', byKey: 'honoured', cutBeforeSort: 22, versions: 'number' },
      ...{ deletes: 'soft', leapChance: 0.1 },
    },
    lies: [
      { kind: 'paging is ignored', from: 3, rounds: 1 },
      { kind: 'lists are empty', from: 0, rounds: 2 },
    ],
    seed: 1975732014,
    pageSize: 5,
    initialChanges: 42,
    changeChance: 0.5,
  },
  // Rights left out more of the first page than of the next: no gap was noticed, and rows of one version changed places between two pages.
  {
    world: {
      ...ordinaryWorld,
      ...{
        order: 'row version',
        sorts: 'honoured',
        paging: 'own size',
        hides: 'some',
        byKey: 'filters only',
      },
      ...{ twins: true, versions: 'number', deletes: 'soft', showsMarked: 'not in lists' },
      ...{ tieChance: 0.7, leapChance: 0.1, lateChance: 0.1 },
    },
    lies: [],
    seed: 2147483646,
    pageSize: 4,
    initialChanges: 11,
    changeChance: 0.5,
  },
  // Each answer held one record, which was above the key that was asked for: that passed for the order of keys, and slices for proofs.
  {
    world: {
      ...ordinaryWorld,
      ...{
        order: 'unstable',
        sorts: 'ascending only',
        cap: 1,
        capVaries: true,
        dialect: 'postgrest',
        spoils: true,
        byKey: 'filters only',
        isVolatile: true,
        versions: 'number',
        counters: 2,
        lateChance: 0.1,
      },
    },
    lies: [{ kind: 'some requests are a 404', from: 2, rounds: 2 }],
    seed: 1958306800,
    pageSize: 4,
    initialChanges: 88,
    changeChance: 0.1,
  },
  // The list was cut before it was sorted. That filters are honoured was found out in the same run, so nobody looked behind its end.
  {
    world: {
      ...ordinaryWorld,
      ...{
        sorts: 'within the page',
        cap: 9,
        capVaries: true,
        byKey: 'honoured',
        cutBeforeSort: 8,
        versions: 'number',
      },
    },
    lies: [],
    seed: 0,
    pageSize: 4,
    initialChanges: 44,
    changeChance: 0,
  },
  // All rows were marked as deleted, so none was missing when lists showed nothing, and a reconcile was called complete.
  {
    world: { ...ordinaryWorld, inclusive: true, versions: 'number', deletes: 'soft', tieChance: 0.7 },
    lies: [{ kind: 'lists are empty and reads unclear', from: 3, rounds: 1 }],
    seed: 2147483623,
    pageSize: 4,
    initialChanges: 1,
    changeChance: 0,
  },
  // Behind the last page the last page came again, so that each rank had a record, and vanished ones were called known.
  {
    world: { ...ordinaryWorld, paging: 'last page again', byKey: 'honoured', versions: 'number' },
    lies: [],
    seed: 0,
    pageSize: 4,
    initialChanges: 3,
    changeChance: 0.1,
  },
  // The same, where rights that hid the last record for a while had made that look as if there were none behind it.
  {
    world: { ...ordinaryWorld, paging: 'last page again', byKey: 'honoured', versions: 'number' },
    lies: [{ kind: 'rights hide after paging', from: 0, rounds: 1 }],
    seed: 120292418,
    pageSize: 4,
    initialChanges: 9,
    changeChance: 0.5,
  },
  // Few records came at a time, some without a version, and a counter that none of them lacked was taken for it.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'row version', sorts: 'within the page', cap: 8, dialect: 'dotnet-404', spoils: true },
      ...{ byKey: 'honoured', versions: 'number', deletes: 'soft', showsMarked: 'not in lists', counters: 2 },
    },
    lies: [],
    seed: 798635006,
    pageSize: 4,
    initialChanges: 90,
    changeChance: 0.1,
  },
  // What rights hid for a while is visible from the moment on at which they are back: settled says nothing of it before.
  {
    world: {
      ...ordinaryWorld,
      ...{
        paging: 'first page again',
        isVolatile: true,
        versions: 'number',
        deletes: 'hard',
        tieChance: 0.2,
      },
    },
    lies: [{ kind: 'rights hide after paging', from: 1, rounds: 3 }],
    seed: 9,
    pageSize: 7,
    initialChanges: 5,
    changeChance: 0,
  },
  // What had vanished came back from a backup in an older version, and its row stayed marked as deleted.
  {
    world: { ...ordinaryWorld, sorts: 'ignored', byKey: 'honoured', isVolatile: true, versions: 'number' },
    lies: [{ kind: 'a backup is restored and versions go on', from: 3, rounds: 1 }],
    seed: 1837321106,
    pageSize: 4,
    initialChanges: 6,
    changeChance: 0.1,
  },
  // A counter of changes ran a little below the row version, which one record lacked, and was taken for it.
  {
    world: {
      ...ordinaryWorld,
      spoils: true,
      isVolatile: true,
      byKey: 'honoured',
      versions: 'number',
      tieChance: 0.7,
      lateChance: 0.1,
    },
    lies: [],
    seed: 2147483632,
    pageSize: 7,
    initialChanges: 39,
    changeChance: 0,
  },
  // A record became visible late, below the newest one; a replica that had only that one called it gone.
  {
    world: {
      ...ordinaryWorld,
      sorts: 'within the page',
      cap: 15,
      capArithmetic: 'requested',
      byKey: 'honoured',
      versions: 'number',
      deletes: 'hard',
      tieChance: 0.2,
      lateChance: 0.1,
    },
    lies: [{ kind: 'a replica lags', from: 5, rounds: 1 }],
    seed: 1744150385,
    pageSize: 9,
    initialChanges: 84,
    changeChance: 0.1,
  },
  // Pages of any length, and changes all the time: a counter of changes was taken for the row version, and that stood for ever.
  {
    world: {
      ...ordinaryWorld,
      sorts: 'as text',
      cap: 23,
      capVaries: true,
      spoils: true,
      versions: 'number',
      deletes: 'soft',
      tieChance: 0.2,
    },
    lies: [{ kind: 'sorting switches paging off', from: 4, rounds: 1 }],
    seed: 30,
    pageSize: 18,
    initialChanges: 42,
    changeChance: 0.5,
  },
  // A sweep that began on a lagging replica ended elsewhere: it knows of what vanished before it began, but for that lag.
  {
    world: {
      ...ordinaryWorld,
      sorts: 'refused',
      cap: 15,
      capVaries: true,
      byKey: 'honoured',
      versions: 'number',
    },
    lies: [{ kind: 'a replica lags', from: 0, rounds: 1 }],
    seed: 868928419,
    pageSize: 10,
    initialChanges: 24,
    changeChance: 0.5,
  },
  // Paging failed while it was tested whether the list can be read by key. Page by page, a list that is cut before looks whole.
  {
    world: {
      ...ordinaryWorld,
      cap: 1,
      byKey: 'honoured',
      cutBeforeSort: 40,
      versions: 'number',
      deletes: 'soft',
    },
    lies: [{ kind: 'paging is ignored', from: 0, rounds: 1 }],
    seed: 517495079,
    pageSize: 12,
    initialChanges: 35,
    changeChance: 0.5,
  },
  // In a small table a counter of changes was never more than one apart from the row version, and was taken for it.
  {
    world: {
      ...ordinaryWorld,
      spoils: true,
      byKey: 'honoured',
      versions: 'number',
      deletes: 'soft',
      tieChance: 0.7,
    },
    lies: [],
    seed: 270855578,
    pageSize: 4,
    initialChanges: 20,
    changeChance: 0,
  },
  // Of a few records all changed between two questions, and a counter of changes was taken for the row version that it ran below.
  {
    world: {
      ...ordinaryWorld,
      ...{ sorts: 'refused', cap: 3, byKey: 'honoured', versions: 'number', deletes: 'soft', tieChance: 0.2 },
    },
    lies: [],
    seed: 10715517,
    pageSize: 4,
    initialChanges: 34,
    changeChance: 0.5,
  },
  // Pages were cut to one record: the second page of three held the second record, and passed for the last of four.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'unstable', sorts: 'within the page', cap: 1, capVaries: true, capArithmetic: 'capped' },
      ...{ dialect: 'dotnet-404', byKey: 'honoured', versions: 'number', deletes: 'hidden' },
      ...{ showsMarked: 'not in lists', tieChance: 0.2 },
    },
    lies: [],
    seed: 1223648555,
    pageSize: 36,
    initialChanges: 22,
    changeChance: 0,
  },
  // Nearly all of a few records changed between two questions. That refuted the row version, and a counter of changes was taken for it.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'unstable', paging: 'ignored', hides: 'some', byKey: 'honoured', omits: true },
      ...{ versions: 'number', deletes: 'hidden', leapChance: 0.1 },
    },
    lies: [],
    seed: 1975874425,
    pageSize: 4,
    initialChanges: 15,
    changeChance: 0.5,
  },
  // In a small table that changed all the time, a number that grows with each answer was taken for the row version.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'descending', sorts: 'refused', byKey: 'honoured', isVolatile: true, versions: 'number' },
      ...{ tieChance: 0.7, lateChance: 0.1 },
    },
    lies: [
      { kind: 'a replica lags', from: 3, rounds: 1 },
      { kind: 'another copy answers', from: 4, rounds: 3 },
      { kind: 'lists come from a cache', from: 5, rounds: 1 },
    ],
    seed: 3,
    pageSize: 17,
    initialChanges: 13,
    changeChance: 0.5,
  },
  // While no second page was shown, the list was tested for whether its last page comes again behind the end.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'descending', cap: 9, paging: 'last page again', dialect: 'dotnet-404', byKey: 'honoured' },
      ...{ versions: 'number', counters: 2 },
    },
    lies: [{ kind: 'pages behind the first are a 404', from: 3, rounds: 2 }],
    seed: 2147483642,
    pageSize: 9,
    initialChanges: 45,
    changeChance: 0.5,
  },
  // Answers were cut to one record, and rights hid it: three more were skipped with the page that was empty.
  {
    world: {
      ...ordinaryWorld,
      ...{
        sorts: 'refused',
        cap: 1,
        byKey: 'honoured',
        cutBeforeSort: 8,
        versions: 'number',
        tieChance: 0.7,
      },
    },
    lies: [{ kind: 'rights hide after paging', from: 0, rounds: 1 }],
    seed: 1441521820,
    pageSize: 4,
    initialChanges: 81,
    changeChance: 0.1,
  },
  // Lists were empty for a while, and were believed to show no records that are marked as deleted: one of these then hid a vanished one.
  {
    world: {
      ...ordinaryWorld,
      ...{ inclusive: true, sorts: 'refused', dialect: 'zoho', byKey: 'honoured', versions: 'number' },
      ...{ deletes: 'soft', tieChance: 0.7 },
    },
    lies: [
      { kind: 'lists are empty', from: 3, rounds: 2 },
      { kind: 'one vanishes when a new one is committed late', from: 0, rounds: 1 },
      { kind: 'a transaction stays open', from: 5, rounds: 1 },
    ],
    seed: 237358577,
    pageSize: 4,
    initialChanges: 4,
    changeChance: 0,
  },
  // Records that no change shows are all there are: a 404.
  {
    world: {
      order: 'row version',
      inclusive: false,
      sorts: 'honoured',
      cap: null,
      capHalvesAt: null,
      capVaries: false,
      capArithmetic: 'requested',
      paging: 'works',
      dialect: 'nothing-found',
      hides: 'some',
      spoils: false,
      slips: false,
      byKey: 'ignored',
      cutBeforeSort: null,
      omits: true,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'hard',
      showsMarked: 'everywhere',
      tieChance: 0,
      leapChance: 0,
      counters: 2,
      lateChance: 0,
    },
    lies: [],
    seed: 9391859,
    pageSize: 4,
    initialChanges: 11,
    changeChance: 0.1,
  },
  // One record on a page, and a 404 for all others.
  {
    world: {
      order: 'descending',
      inclusive: false,
      sorts: 'ignored',
      cap: 1,
      capHalvesAt: null,
      capVaries: false,
      capArithmetic: 'requested',
      paging: 'works',
      dialect: 'sieve',
      hides: false,
      spoils: false,
      slips: false,
      byKey: 'honoured',
      cutBeforeSort: null,
      omits: false,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'in changes alone',
      tieChance: 0,
      leapChance: 0,
      counters: 1,
      lateChance: 0,
    },
    lies: [{ kind: 'pages behind the first are a 404', from: 0, rounds: 1 }],
    seed: 2025487554,
    pageSize: 4,
    initialChanges: 10,
    changeChance: 0,
  },
  // As each page has a cap of its own, another field answered as well.
  {
    world: {
      order: 'descending',
      inclusive: false,
      sorts: 'honoured',
      cap: 6,
      capHalvesAt: null,
      capVaries: true,
      capArithmetic: 'requested',
      paging: 'works',
      dialect: 'dotnet-404',
      hides: false,
      spoils: false,
      slips: false,
      byKey: 'honoured',
      cutBeforeSort: null,
      omits: false,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'everywhere',
      tieChance: 0,
      leapChance: 0.1,
      counters: 1,
      lateChance: 0,
    },
    lies: [],
    seed: 14536334,
    pageSize: 4,
    initialChanges: 90,
    changeChance: 0.5,
  },
  // A record was written with a lower version while the field was looked for.
  {
    world: {
      order: 'id',
      inclusive: false,
      sorts: 'ignored',
      cap: null,
      capHalvesAt: null,
      capVaries: false,
      capArithmetic: 'requested',
      paging: 'works',
      dialect: 'sieve',
      hides: false,
      spoils: false,
      slips: false,
      byKey: 'ignored',
      cutBeforeSort: null,
      omits: true,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'everywhere',
      tieChance: 0,
      leapChance: 0,
      counters: 2,
      lateChance: 0,
    },
    lies: [{ kind: 'a record changes in silence', from: 0, rounds: 1 }],
    seed: 2147483639,
    pageSize: 5,
    initialChanges: 26,
    changeChance: 0.1,
  },
  // The list is cut, and the first records behind its end were written after the last poll.
  {
    world: {
      order: 'row version',
      inclusive: true,
      sorts: 'within the page',
      cap: null,
      capHalvesAt: null,
      capVaries: true,
      capArithmetic: 'requested',
      paging: 'works',
      dialect: 'dotnet-404',
      hides: false,
      spoils: false,
      slips: false,
      byKey: 'honoured',
      cutBeforeSort: 8,
      omits: false,
      twins: false,
      isVolatile: true,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'not in lists',
      tieChance: 0,
      leapChance: 0,
      counters: 2,
      lateChance: 0,
    },
    lies: [{ kind: 'the cap is small', from: 1, rounds: 1 }],
    seed: 499539440,
    pageSize: 4,
    initialChanges: 58,
    changeChance: 0.1,
  },
  // The list is cut, and more records than were looked at behind its end were written after the last poll.
  {
    world: {
      order: 'row version',
      inclusive: false,
      sorts: 'within the page',
      cap: 3,
      capHalvesAt: null,
      capVaries: true,
      capArithmetic: 'requested',
      paging: 'works',
      dialect: 'sieve',
      hides: false,
      spoils: false,
      slips: false,
      byKey: 'honoured',
      cutBeforeSort: 8,
      omits: false,
      twins: false,
      isVolatile: false,
      versions: 'number',
      hasLegacyVersion: false,
      deletes: 'soft',
      showsMarked: 'not in lists',
      tieChance: 0,
      leapChance: 0.1,
      counters: 1,
      lateChance: 0,
    },
    lies: [],
    seed: 175274183,
    pageSize: 4,
    initialChanges: 89,
    changeChance: 0.1,
  },
  // A record that neworchanged leaves out stood in the list for one that vanished, and was changed again and again: the told limit of ranks.
  {
    world: {
      ...ordinaryWorld,
      ...{
        order: 'row version',
        sorts: 'switches paging off',
        dialect: 'sieve',
        omits: true,
        byKey: 'honoured',
        versions: 'number',
        deletes: 'hard',
        tieChance: 0.2,
        leapChance: 0.1,
        lateChance: 0.1,
      },
    },
    lies: [],
    seed: 2147483623,
    pageSize: 4,
    initialChanges: 12,
    changeChance: 0.1,
  },
  // Pages came down to one record: each poll was shown only the known one at its position, while rows from above it were stored.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'unstable', sorts: 'ascending only', cap: 1, paging: 'last page again', dialect: 'sieve' },
      ...{ byKey: 'filters only', versions: 'number', deletes: 'hard', counters: 2 },
    },
    lies: [
      { kind: 'the cap is small', from: 3, rounds: 1 },
      { kind: 'lists come from a cache', from: 1, rounds: 1 },
    ],
    seed: 1843361883,
    pageSize: 4,
    initialChanges: 86,
    changeChance: 0.1,
  },
  // Rights emptied a page of one record in the midst of the list, which then ended there, and nothing was shown behind it.
  {
    world: {
      ...ordinaryWorld,
      ...{
        inclusive: true,
        sorts: 'refused',
        cap: 1,
        dialect: 'dotnet-404',
        byKey: 'honoured',
        versions: 'number',
      },
      ...{ deletes: 'soft', showsMarked: 'not in lists', tieChance: 0.7 },
    },
    lies: [{ kind: 'rights hide after paging', from: 0, rounds: 2 }],
    seed: 2019473936,
    pageSize: 4,
    initialChanges: 24,
    changeChance: 0,
  },
  // The list showed its first page whichever was asked for, and rights had shortened that page: it looked like the whole list.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'row version', paging: 'first page again', dialect: 'sieve', byKey: 'honoured' },
      ...{ versions: 'number', deletes: 'hidden' },
    },
    lies: [{ kind: 'rights hide after paging', from: 0, rounds: 1 }],
    seed: 624277168,
    pageSize: 8,
    initialChanges: 28,
    changeChance: 0,
  },
  // The list shows its last page again behind its end. Rights hid the record on it just when that was tested, so ranks were believed.
  {
    world: {
      ...ordinaryWorld,
      ...{ order: 'row version', sorts: 'as text', paging: 'last page again', dialect: 'sieve' },
      ...{ byKey: 'honoured', versions: 'number', deletes: 'hard' },
    },
    lies: [
      { kind: 'rights hide after paging', from: 3, rounds: 2 },
      { kind: 'a transaction that was read is rolled back', from: 2, rounds: 1 },
    ],
    seed: 3,
    pageSize: 10,
    initialChanges: 8,
    changeChance: 0.1,
  },
]

const numRuns = Number(process.env.WORLDS ?? 150)

const tally = { worlds: 0, equal: 0, told: new Map<string, number>() }

describe('beliefs', () => {
  it(
    `are wrong, but never in silence, in ${numRuns} random worlds (P6, P7, P11-P14, P18)`,
    async () => {
      await fc.assert(
        fc.asyncProperty(lyingWorlds, async (plan) => {
          const { wrong, told } = await readLyingWorld(plan)
          tally.worlds += 1
          if (wrong.length === 0) tally.equal += 1
          else for (const what of told) tally.told.set(what, (tally.told.get(what) ?? 0) + 1)
          if (wrong.length > 0) expect(told, `in silence: ${wrong.join('; ')}`).not.toEqual([])
        }),
        {
          numRuns,
          examples: foundEarlier.map((plan) => [plan]),
          ...worldSeed(),
        },
      )
    },
    120_000 + 300 * numRuns,
  )

  afterAll(() => {
    const told = [...tally.told].sort((a, b) => b[1] - a[1]).map(([what, count]) => `\n  ${count} ${what}`)
    process.stdout.write(
      `${tally.worlds} worlds: equal ${tally.equal}, wrong and told ${tally.worlds - tally.equal}${told.join('')}\n`,
    )
  })
})
