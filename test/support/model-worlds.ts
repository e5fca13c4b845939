// Upstreams drawn at random: each unknown of the real one is a switch (model-upstream.ts), and these are the settings that may come
// together.

import fc from 'fast-check'
import type { World } from './model-upstream.ts'

export const openWorlds: fc.Arbitrary<World> = fc
  .record({
    order: fc.constantFrom('row version', 'id', 'descending', 'unstable'),
    inclusive: fc.boolean(),
    sorts: fc.constantFrom(
      'honoured',
      'honoured',
      'ascending only',
      'as text',
      'within the page',
      'ignored',
      'refused',
      'switches paging off',
    ),
    cap: fc.option(fc.integer({ min: 1, max: 25 })),
    capHalvesAt: fc.option(fc.integer({ min: 1, max: 60 }), { freq: 1 }),
    capVaries: fc.constantFrom(false, false, false, true),
    capArithmetic: fc.constantFrom('requested', 'capped'),
    paging: fc.constantFrom(
      'works',
      'works',
      'works',
      'ignored',
      'first page again',
      'last page again',
      'own size',
    ),
    hides: fc.constant(false),
    spoils: fc.constantFrom(false, false, true),
    slips: fc.constantFrom(false, false, true),
    byKey: fc.constant('ignored'),
    cutBeforeSort: fc.constant(null),
    omits: fc.constant(false),
    twins: fc.constant(false),
    isVolatile: fc.constant(false),
    versions: fc.constantFrom<World['versions'][]>('number', 'string', 'base64'),
    hasLegacyVersion: fc.constant(false),
    deletes: fc.constantFrom('hard', 'soft'),
    tieChance: fc.constantFrom(0, 0, 0.2, 0.7),
    lateChance: fc.constantFrom(0, 0, 0.1),
  })
  .map((world): World => (world.paging === 'first page again' ? onePageOnly(world) : world))

/** Where an answer is cut and no other page comes, nobody can read on unless the lowest versions come first. */
const onePageOnly = (world: World): World => ({
  ...world,
  order: 'row version',
  sorts: world.sorts === 'as text' || world.sorts === 'within the page' ? 'ignored' : world.sorts,
  cap: world.cap && world.cap + 10,
  capVaries: false,
  // There each poll brings little, and one that slips nothing.
  slips: false,
})

/** Rights hide some rows: pages are long enough that none is hidden whole. */
export const hidingWorlds = openWorlds.map((world): World => ({ ...longPages(world), hides: 'some' }))

/** Rights hide most rows, and so whole pages: who sorts is read all the same. */
export const veiledWorlds = openWorlds.map(
  (world): World => ({ ...longPages(world), hides: 'most', sorts: 'honoured', paging: 'works' }),
)

/** With the oddities that only a second way of reading can show: lists by key, cuts, twins, volatile fields, a legacy version field. */
export const oddWorlds: fc.Arbitrary<World> = fc
  .tuple(
    fc.oneof({ arbitrary: openWorlds, weight: 4 }, { arbitrary: hidingWorlds, weight: 1 }),
    fc.record({
      byKey: fc.constantFrom('honoured', 'honoured', 'filters only', 'ignored'),
      cutBeforeSort: fc.constantFrom(null, null, null, null, 8, 22, 40),
      omits: fc.constantFrom(false, false, false, true),
      twins: fc.constantFrom(false, false, false, true),
      isVolatile: fc.constantFrom(false, false, false, true),
      hasLegacyVersion: fc.boolean(),
    }),
  )
  .map(([world, odd]) => ({
    ...world,
    ...odd,
    // Where pages are of another size than asked for, or lists have no order of keys, nothing shows what such a cut leaves out.
    cutBeforeSort:
      world.paging === 'works' && !world.hides && odd.byKey === 'honoured' ? odd.cutBeforeSort : null,
    // What neworchanged omits the list alone shows, if all of the list can be read.
    omits: odd.omits && !(/again/.test(world.paging) && world.cap !== null),
  }))

const longPages = (world: World): World => ({
  ...world,
  cap: world.cap && world.cap + 25,
  capHalvesAt: null,
  capVaries: false,
  paging: /again/.test(world.paging) ? 'works' : world.paging,
})
