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

/** Pages are long enough that none is hidden whole: where one is, nobody can tell it from the end. */
export const hidingWorlds = openWorlds.map(
  (world): World => ({
    ...world,
    hides: true,
    cap: world.cap && world.cap + 25,
    capHalvesAt: null,
    capVaries: false,
    paging: /again/.test(world.paging) ? 'works' : world.paging,
  }),
)
