// Upstreams drawn at random: each unknown of the real one is a switch, and these are the settings that may come together.

import fc from 'fast-check'
import { type DialectName, dialectNamed, dialectNames } from '../../src/simulator/dialects.ts'

export type World = {
  readonly order: 'row version' | 'id' | 'descending' | 'unstable'
  readonly inclusive: boolean
  readonly sorts:
    | 'honoured'
    | 'ascending only'
    /** 9 behind 10. */
    | 'as text'
    /** The page is cut first and sorted then. */
    | 'within the page'
    | 'ignored'
    | 'refused'
    | 'switches paging off'
  readonly cap: number | null
  /** Each page has a cap of its own, up to the cap: pages are cut by their bytes, or by how busy the upstream is. */
  readonly capVaries: boolean
  /** From this request on the cap is half of what it was. */
  readonly capHalvesAt: number | null
  /** A capped page is skipped over by the size asked for (Sieve), or by the cap. */
  readonly capArithmetic: 'requested' | 'capped'
  /** With a size of its own, `PageSize` changes nothing and `Page` counts; with the first page again it is the other way round. */
  readonly paging: 'works' | 'ignored' | 'first page again' | 'last page again' | 'own size'
  /** What a page behind the last one is answered with, and whether answers tell how many records there are. */
  readonly dialect: DialectName
  /** Rows that are left out of a page after it was cut: one in five, or most of them, so that whole pages are empty. */
  readonly hides: false | 'some' | 'most'
  /** Some records have no row version, so that they cannot be rows. */
  readonly spoils: boolean
  /** Once in a run it answers nothing, whatever there is. */
  readonly slips: boolean
  /** The list filters and sorts by key. */
  readonly byKey: 'honoured' | 'filters only' | 'ignored'
  /** So many records with the lowest ids are left after the filter and before the sort. */
  readonly cutBeforeSort: number | null
  /** Some records are in lists, and not in what changed. */
  readonly omits: boolean
  /** Beside some records there is another one with their key. */
  readonly twins: boolean
  /** A field that is another one at each read. */
  readonly isVolatile: boolean
  readonly versions: 'number' | 'string' | 'base64'
  /** Its name, when a RowVersion that is mostly empty stands beside it. */
  readonly hasLegacyVersion: boolean
  /** `hidden`: it is shown nowhere, and may come back under its key. */
  readonly deletes: 'hard' | 'soft' | 'hidden'
  /** Where records that the source marks as deleted are shown. */
  readonly showsMarked: 'everywhere' | 'not in lists' | 'in changes alone'
  readonly tieChance: number
  /** The counter of versions leaps: after a failover, or as others use it too. */
  readonly leapChance: number
  /** Each takes a block of versions and hands them out, as a sequence with a cache does: a record may get a lower one than it had. */
  readonly counters: 1 | 2
  readonly lateChance: number
}

/** With none of the oddities. */
export const ordinaryWorld: World = {
  order: 'row version',
  inclusive: false,
  sorts: 'honoured',
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
  omits: false,
  twins: false,
  isVolatile: false,
  versions: 'string',
  hasLegacyVersion: false,
  deletes: 'hard',
  showsMarked: 'everywhere',
  tieChance: 0,
  leapChance: 0,
  counters: 1,
  lateChance: 0,
}

/** Those that differ in what a reader sees; which page comes again is said by `paging`. */
const oddDialects = dialectNames.filter(
  (name) => typeof dialectNamed(name).pastEnd === 'object' || name === 'first-page',
)
export const someDialects: fc.Arbitrary<DialectName> = fc.oneof(
  { arbitrary: fc.constantFrom<DialectName[]>('sieve', 'gitlab'), weight: 1 },
  { arbitrary: fc.constantFrom(...oddDialects), weight: 1 },
)

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
    dialect: someDialects,
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
    showsMarked: fc.constant('everywhere'),
    tieChance: fc.constantFrom(0, 0, 0.2, 0.7),
    leapChance: fc.constant(0),
    counters: fc.constant(1),
    lateChance: fc.constantFrom(0, 0, 0.1),
  })
  .map((world): World => (world.paging === 'first page again' ? onePageOnly(world) : world))
  .map((world): World => (world.dialect === 'first-page' ? tellable(world) : world))

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

/** Where pages begin anew behind the last one, nothing else may be odd about them. */
const tellable = (world: World): World => ({
  ...world,
  paging: 'works',
  capVaries: false,
  order: world.order === 'unstable' ? 'id' : world.order,
})

/** Rights hide some rows: pages are long enough that none is hidden whole. */
export const hidingWorlds = openWorlds.map((world): World => ({ ...longPages(world), hides: 'some' }))

/** Rights hide most rows, and so whole pages: who sorts is read all the same. */
export const veiledWorlds = openWorlds.map(
  (world): World => ({ ...longPages(world), hides: 'most', sorts: 'honoured', paging: 'works' }),
)

/** With the oddities that only a second way of reading can show: lists by key, cuts, twins, volatile fields, records that come back. */
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
      deletes: fc.constantFrom<World['deletes'][]>('hard', 'soft', 'soft', 'hidden'),
      leapChance: fc.constantFrom(0, 0, 0.1),
      counters: fc.constantFrom<World['counters'][]>(1, 1, 1, 2),
      showsMarked: fc.constantFrom<World['showsMarked'][]>('everywhere', 'not in lists', 'in changes alone'),
    }),
  )
  .map(([world, odd]) => ({
    ...world,
    ...odd,
    // Where pages are of another size than asked for, or lists have no order of keys, nothing shows what such a cut leaves out.
    // A page of one record has no middle from which it could be read again.
    cutBeforeSort:
      world.paging === 'works' && world.cap !== 1 && !world.hides && odd.byKey === 'honoured'
        ? odd.cutBeforeSort
        : null,
    // A page that shows a record again must be the first one there.
    twins: odd.twins && world.dialect !== 'first-page',
    // What neworchanged omits the list alone shows, if all of the list can be read.
    omits: odd.omits && !(/again/.test(world.paging) && world.cap !== null),
  }))

const longPages = (world: World): World => ({
  ...world,
  dialect: world.dialect === 'first-page' ? 'sieve' : world.dialect,
  cap: world.cap && world.cap + 25,
  capHalvesAt: null,
  capVaries: false,
  paging: /again/.test(world.paging) ? 'works' : world.paging,
})

/** What no page shows nobody can read, and not everywhere is it told. */
export const cannotBeReadWhole = ({ hides, cap, capVaries, capArithmetic, paging }: World): boolean =>
  hides === 'most' ||
  paging === 'first page again' ||
  (cap !== null && capVaries && capArithmetic === 'requested')
