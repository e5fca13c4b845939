// What is assumed about the upstream and about our own tables, each in one place: the claim, the test that can falsify it, how long what
// was seen is relied on, and what is taken back when it falls. Runs record what they saw (tidemark.belief), `tidemark probe` tests it now.

const hourMs = 3_600_000
const dayMs = 24 * hourMs

export type BeliefKind = {
  readonly claim: string
  /** Who tests it, and what would falsify it. */
  readonly test: string
  /** After this long it is doubted until it is tested again; null: what contradicts it is seen at once. */
  readonly lifetimeMs: number | null
  /** With these values the claim holds; null: it only says how the upstream is, and nothing is wrong with any answer. */
  readonly holdsAs: readonly string[] | null
  /** What a value means, where it does not say so itself. */
  readonly inWords?: Readonly<Record<string, string>>
  /** What it means for reading while it does not hold. */
  readonly without?: string
  /** What is taken back when it no longer holds. */
  readonly takenBack: string
  /** What was told on the strength of it, and is taken back: the position; what is settled, and deletions known through; the latter alone. */
  readonly rests?: 'position' | 'settled' | 'deletions'
  /** What changes of it mean is told as another problem, or is no news. */
  readonly isToldElsewhere?: true
}

/** In the order in which people want to read them. */
export const beliefs = {
  version_field: {
    claim: 'neworchanged answers to this field',
    test: 'Asked at three points before the first load. From then on each answer: a record below what was asked for falsifies it.',
    lifetimeMs: null,
    holdsAs: null,
    takenBack:
      'The field is looked for again. When another one is found, the position goes back to 0 and everything is read again.',
  },
  inclusive: {
    claim: 'what neworchanged/{v} means: versions from v on (>=), or above v (>)',
    test: 'Asked for what changed since a version that is there.',
    lifetimeMs: 7 * dayMs,
    holdsAs: null,
    inWords: {
      yes: '>=: neworchanged/{v} shows version v itself and all above it',
      no: '>: neworchanged/{v} shows only what is above v, and not v itself',
    },
    takenBack: 'Nothing: each question asks one version lower, so that both are read right.',
  },
  sorting: {
    claim: 'neworchanged is sorted by row version when that is asked for, up and down',
    test: 'Four questions a day: the last record, the first, a page, the last again. From then on each page: one version out of order falsifies it.',
    lifetimeMs: dayMs,
    holdsAs: ['proven'],
    without:
      'Changes are read in passes, until a count proves that all were seen: as complete, with more requests.',
    takenBack:
      'The position goes back to where it was before the first run that relied on the order, but not below what is settled. From there everything is read again without relying on it. A refusal takes nothing back: what came was sorted.',
    rests: 'position',
  },
  sorted_before_cut: {
    claim: 'a sorted page leaves out nothing below its last version: it is sorted before it is cut',
    test: 'A full page is asked for again from its middle, and a reconcile asks for rows that it missed: a record that a page should have shown falsifies it.',
    lifetimeMs: 30 * dayMs,
    holdsAs: ['yes'],
    takenBack:
      'The position goes back to where it was before the first run that relied on the order. From there everything is read in ranges of the row version that hold so little that none is cut.',
  },
  largest_answer: {
    claim: 'an answer with fewer records than this was not cut by a cap',
    test: 'Each run. A short page with something behind it falsifies it.',
    lifetimeMs: dayMs,
    holdsAs: null,
    takenBack:
      'Nothing: a short page is believed to be the last only when the newest record is one that is read.',
    isToldElsewhere: true,
  },
  paging: {
    claim: 'Page and PageSize are heeded',
    test: 'Two pages of the list are asked for: more records than asked for, or the same ones again, falsify it.',
    lifetimeMs: dayMs,
    holdsAs: ['heeded'],
    without: 'Each answer holds everything there is: as complete, with more memory and traffic.',
    takenBack:
      'Nothing: an answer is taken for everything only when a page far behind any end brings the same.',
  },
  filters: {
    claim: 'Filters by key leaves out every record up to a key',
    test: 'Asked at several points of the keys, and behind the highest: one record at or below the point falsifies it.',
    lifetimeMs: dayMs,
    holdsAs: ['honoured'],
    without: 'Vanished records are found by the next reconcile, and not within minutes.',
    takenBack: 'The list is read page by page instead, in passes that are counted.',
  },
  key_order: {
    claim: 'the list can be read in slices, filtered and sorted by key',
    test: 'Asked at several points of the keys, and for the highest. From then on each page: one key out of order falsifies it.',
    lifetimeMs: dayMs,
    holdsAs: ['honoured'],
    without:
      'Vanished records are found by the next reconcile, and not within minutes. A reconcile reads the list in passes.',
    takenBack:
      'Nothing counts as settled until the next reconcile, and deletions are known through the time before it was relied on.',
    rests: 'settled',
  },
  list_shows_changes: {
    claim: 'the list shows the same records as neworchanged',
    test: 'Each reconcile compares both ways. A record that one shows and the other should have shown falsifies it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['yes'],
    without:
      'One of the two leaves records out: what only the list shows comes with the next reconcile. Ask the operator of the upstream why they differ.',
    takenBack:
      'Rows that only the list shows are stored and counted as missed rows; the stream is not called settled while the list lacks records.',
  },
  list_shows_deleted: {
    claim: 'the list shows records that are marked as deleted, or leaves them out',
    test: 'Asked for one that is marked, and each reconcile. While none is known that a look shows, there is nothing to tell.',
    lifetimeMs: dayMs,
    holdsAs: null,
    takenBack: 'Nothing: a row is marked as deleted only after a look at its record.',
  },
  ranks: {
    claim: 'the N-th record of the list is our N-th row, while nothing vanished',
    test: 'Each search for deletions. A record that the ranks call vanished, and that is there, falsifies it.',
    lifetimeMs: dayMs,
    holdsAs: ['trusted'],
    without: 'Vanished records are found by the sweep, which takes longer.',
    takenBack: 'Deletions are known through the last sweep or reconcile only, and the sweep finds them.',
    rests: 'deletions',
  },
  single_look: {
    claim: 'a record asked for by its id is the same as in the list',
    test: 'Some records are looked at both ways: another content with the same version falsifies it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['same'],
    without:
      'A look at one record is not the same as reading it: fields that differ are volatile, or rights differ.',
    takenBack:
      'Nothing: what a look shows is written only by its version. Fields that differ at each look are named by the reconcile.',
  },
  versions_rise: {
    claim: 'the row version of a record only rises',
    test: 'Each look-back looks at pinned records of different ages: a lower version there than here, also minutes later, falsifies it.',
    lifetimeMs: dayMs,
    holdsAs: ['yes'],
    without: 'Records go back to older states. Single ones are mended as they are seen.',
    takenBack: 'The row: the older record replaces it.',
    isToldElsewhere: true,
  },
  lateness: {
    claim: 'no record becomes visible later than the look-back reaches',
    test: 'Each look-back that reaches all the way, and each reconcile: a version that came later falsifies it.',
    lifetimeMs: dayMs,
    holdsAs: ['holds'],
    without: 'Rows may come that late again before the look-back has grown; the reconcile finds them.',
    takenBack: 'The look-back grows to twice the worst that was seen.',
    isToldElsewhere: true,
  },
  keys_unique: {
    claim: 'a record appears once in an answer, and no two have one key',
    test: 'Each reconcile, and each page that the probe reads: a key that comes twice falsifies it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['yes'],
    without:
      'Two records share a key, and only one of them is a row. Ask the operator of the upstream which field tells them apart.',
    takenBack: 'Nothing: the row takes one of the two.',
  },
  same_upstream: {
    claim: 'this is the same upstream as yesterday: it was not restored from a backup',
    test: 'Each look-back looks at pinned records of different ages: several that have lower versions than here, also minutes later, falsify it.',
    lifetimeMs: dayMs,
    holdsAs: ['yes'],
    without: 'The upstream was restored from a backup, or another one answers.',
    takenBack: 'A new epoch begins: the position goes back to 0, and everything is read again.',
    isToldElsewhere: true,
  },
  tables_untouched: {
    claim: 'the tables hold what Tidemark wrote',
    test: 'Triggers note what anybody else does to them; each poll looks at the notes.',
    lifetimeMs: dayMs,
    holdsAs: ['yes'],
    without: 'Somebody else writes to schema mirror. Find out who, and take that right away.',
    takenBack: 'The stream is read again from the beginning, and rows that differ are replaced.',
    isToldElsewhere: true,
  },
  contract: {
    claim: 'records are as the upstream describes them (OpenAPI)',
    test: 'The description is read at each start and once a day, and compared with the columns that records made. From then on each run: a field that is not described, or a value that does not fit, falsifies it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['as described'],
    without:
      'The records decide, and columns are theirs. `tidemark contract --diff` names the fields that differ.',
    takenBack:
      'The type of that column, where no value of the described one is in it. Otherwise values that do not fit go to `_rescued`. Nothing else rests on the description.',
    isToldElsewhere: true,
  },
  first_top: {
    claim: 'when the load began, no version above this one was given yet',
    test: 'Noted when a load begins.',
    lifetimeMs: null,
    holdsAs: null,
    takenBack: 'Nothing: it only says what is late.',
    isToldElsewhere: true,
  },
} as const satisfies Record<string, BeliefKind>

export type BeliefName = keyof typeof beliefs

/** Null for a name that an earlier or later version gave. */
export const beliefKind = (name: string): BeliefKind | null =>
  Object.hasOwn(beliefs, name) ? beliefs[name as BeliefName] : null

export type BeliefState = {
  readonly name: string
  readonly value: string
  readonly testedAt: Date
  readonly expiresAt?: Date | null
}

/** From then on it is doubted; null: as long as nothing contradicts it. */
export function expiryOf({ name, testedAt, expiresAt = null }: BeliefState): Date | null {
  const lifetimeMs = beliefKind(name)?.lifetimeMs ?? null
  return expiresAt ?? (lifetimeMs === null ? null : new Date(testedAt.getTime() + lifetimeMs))
}

/** `unknown`: it is doubted, and nobody has tested it since. */
export function verdictOf(belief: BeliefState, now: Date): 'holds' | 'does not hold' | 'unknown' {
  const expiry = expiryOf(belief)
  if (expiry !== null && expiry <= now) return 'unknown'
  const { holdsAs = null } = beliefKind(belief.name) ?? {}
  return holdsAs === null || holdsAs.includes(belief.value) ? 'holds' : 'does not hold'
}

/** While nothing changes, what was seen again is written down this often: polls write nothing (P10). */
export const confirmedEveryMs = hourMs

/** The same was seen and written down lately. */
export const isConfirmed = (known: BeliefState | undefined, value: string, now: Date): boolean =>
  known?.value === value && !known.expiresAt && now.getTime() - known.testedAt.getTime() < confirmedEveryMs
