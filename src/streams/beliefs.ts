// What is assumed about the upstream and about our own tables, each in one place: the claim, the test that can disprove it, how long what
// was seen is relied on, and what is taken back when it falls. Runs record what they saw (tidemark.belief), `tidemark probe` tests it now.

const hourMs = 3_600_000
const dayMs = 24 * hourMs

export type BeliefKind = {
  readonly claim: string
  /** Who tests it, and what would disprove it. */
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
  /** What is taken back with it: the position; or what is settled, and deletions known through; or (`deletions`) the latter alone. */
  readonly rests?: 'position' | 'settled' | 'deletions'
  /** It is about row versions: where another field is the row version, it has to be tested again. */
  readonly isOfVersions?: true
  /** Raise it when a new version of Tidemark reads or tests the same differently: what was seen before is tested again. Left out: 1. */
  readonly rule?: number
  /** A change of it is no problem of its own: another problem tells it, or it is no news. */
  readonly isToldElsewhere?: true
}

/** In the order in which people want to read them. */
export const beliefs = {
  version_field: {
    claim: 'neworchanged answers to this field',
    test: 'Tidemark asks at three points before the first load. After that it checks each answer: a record with a lower version than asked for disproves it. After three inconclusive polls in a row it asks again.',
    lifetimeMs: null,
    holdsAs: null,
    takenBack:
      'Tidemark looks for the field again. If it finds another one, the position goes back to 0 and everything is read again.',
  },
  inclusive: {
    claim: 'what neworchanged/{v} means: versions from v on (>=), or above v (>)',
    test: 'Tidemark asks for what changed since a version that exists.',
    lifetimeMs: 7 * dayMs,
    holdsAs: null,
    inWords: {
      yes: '>=: neworchanged/{v} returns version v itself and all above it',
      no: '>: neworchanged/{v} returns only what is above v, not v itself',
    },
    takenBack:
      'Nothing: every request asks from one version lower, so that both meanings give the same rows.',
    isOfVersions: true,
  },
  sorting: {
    claim: 'neworchanged sorts by row version when asked to, ascending and descending',
    test: 'Four requests a day: the last record, the first, a page, and the last again. After that Tidemark checks each page: one version out of order disproves it.',
    lifetimeMs: dayMs,
    holdsAs: ['proven'],
    without:
      'Tidemark reads changes in repeated passes until a count proves that it has seen all of them. Nothing is missed, but it takes more requests.',
    takenBack:
      'The position goes back to where it was before the first run that relied on the order, but not below what is settled. From there Tidemark reads everything again without relying on it. If the upstream only refuses to sort, nothing is taken back: what it sent until then was sorted.',
    rests: 'position',
    isOfVersions: true,
  },
  sorted_before_cut: {
    claim:
      'the upstream sorts before it cuts a page, so that a sorted page leaves out nothing below its last version',
    test: 'Tidemark asks for a full page again from its middle, and a reconcile asks for the rows that it missed: a record that a page should have contained disproves it.',
    lifetimeMs: 30 * dayMs,
    holdsAs: ['yes'],
    takenBack:
      'The position goes back to where it was before the first run that relied on the order. From there Tidemark reads in ranges of row versions that are too small to be cut.',
    isOfVersions: true,
  },
  largest_answer: {
    claim: 'the upstream did not cap an answer with fewer records than this',
    test: 'Each run. A short page with more records behind it disproves it.',
    lifetimeMs: dayMs,
    holdsAs: null,
    takenBack:
      'Nothing: Tidemark takes a short page for the last one only when it has already read the newest record.',
    isToldElsewhere: true,
    isOfVersions: true,
  },
  paging: {
    claim: 'the upstream obeys Page and PageSize',
    test: 'Tidemark asks for two pages of the list: more records than asked for, or the same ones again, disprove it.',
    lifetimeMs: dayMs,
    holdsAs: ['heeded'],
    without: 'Each answer contains everything. Nothing is missed, but it takes more memory and traffic.',
    takenBack:
      'Nothing: Tidemark takes an answer for everything only when a page far behind any end contains the same.',
    isOfVersions: true,
  },
  page_end: {
    claim: 'what the upstream answers when it is asked for a page behind the last one',
    test: 'Each run that asks for such a page. Where the answer is a status, or null, the page before has to be there, and the same has to come when Tidemark asks again.',
    lifetimeMs: 7 * dayMs,
    holdsAs: null,
    takenBack: 'Nothing: Tidemark looks at each such answer anew.',
    isToldElsewhere: true,
  },
  filters: {
    claim: 'Filters by key leaves out every record up to a key',
    test: 'Tidemark asks at several keys, and above the highest: one record at or below that key disproves it.',
    lifetimeMs: dayMs,
    holdsAs: ['honoured'],
    without: 'Records that vanish are found by the next reconcile instead of within minutes.',
    takenBack: 'Tidemark reads the list page by page instead, in repeated passes that it counts.',
  },
  key_order: {
    claim: 'the list can be read in slices, filtered and sorted by key',
    test: 'Tidemark asks at several keys, and for the highest. After that it checks each page: one key out of order disproves it. If the list ignored it, each reconcile asks again.',
    lifetimeMs: dayMs,
    // Before, the highest keys were not asked for in a page that has to be in order.
    rule: 2,
    holdsAs: ['honoured'],
    without:
      'Records that vanish are found by the next reconcile instead of within minutes. A reconcile reads the list in repeated passes.',
    takenBack:
      'Nothing counts as settled until the next reconcile, and “deletions known through” goes back to the time before Tidemark relied on it.',
    rests: 'settled',
  },
  list_shows_changes: {
    claim: 'the list contains the same records as neworchanged',
    test: 'Each reconcile compares both ways. A record that only one of them contains disproves it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['yes'],
    without:
      'One of the two leaves records out. The next reconcile brings what only the list contains. Ask the operator of the upstream why they differ.',
    takenBack:
      'Tidemark stores rows that only the list contains and counts them as missed rows. The stream is not settled while the list lacks records.',
    isOfVersions: true,
  },
  list_shows_deleted: {
    claim: 'the list contains records that are marked as deleted, or leaves them out',
    test: 'Tidemark asks for one that is marked; each reconcile checks it, too. It cannot be tested before there is such a record.',
    lifetimeMs: dayMs,
    holdsAs: null,
    takenBack: 'Nothing: Tidemark marks a row as deleted only after it has asked for that record itself.',
    rule: 2,
  },
  ranks: {
    claim: 'while nothing vanishes, the N-th record of the list is our N-th row',
    test: 'Each search for deletions. If a record that should have vanished by this count still exists, that disproves it. So does a page of the list that is cut although more records follow.',
    lifetimeMs: dayMs,
    holdsAs: ['trusted'],
    without: 'Tidemark finds records that vanish by listing all keys slice by slice, which takes longer.',
    takenBack:
      '“Deletions known through” goes back to the last full search or reconcile, and Tidemark searches slice by slice.',
    rests: 'deletions',
  },
  single_look: {
    claim: 'a record looks the same when asked for by its id as in the list',
    test: 'Tidemark reads some records both ways: other content with the same version disproves it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['same'],
    without:
      'Asking for one record does not give the same as reading the list: some fields change by themselves, or permissions differ.',
    takenBack:
      'Nothing: Tidemark writes a record that it asked for by its id only if its version is newer. The reconcile names the fields that differ each time.',
  },
  versions_rise: {
    claim: 'the row version of a record only rises',
    test: 'Each look-back, about once a minute and at rest every few minutes, asks for some records of different ages: a lower version than here, still lower minutes later, disproves it.',
    lifetimeMs: dayMs,
    holdsAs: ['yes'],
    without: 'Records go back to older states. Tidemark corrects single ones when it sees them.',
    takenBack: 'The row: the older record replaces it.',
    isToldElsewhere: true,
    isOfVersions: true,
  },
  lateness: {
    claim: 'no record becomes visible later than the look-back reaches',
    test: 'Each complete look-back and each reconcile: a version that came later disproves it.',
    lifetimeMs: dayMs,
    holdsAs: ['holds'],
    without: 'Until the look-back has grown, rows can come that late again; the reconcile finds them.',
    takenBack: 'The look-back grows to twice the longest delay seen.',
    isToldElsewhere: true,
    isOfVersions: true,
  },
  keys_unique: {
    claim: 'an answer contains a record once, and no two records have the same key',
    test: 'Each reconcile, and each page that the probe reads: a key that comes twice disproves it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['yes'],
    without:
      'Two records share a key, and only one of them can be stored as a row. Ask the operator of the upstream which field tells them apart.',
    takenBack: 'Nothing: one of the two is the row, the other is in quarantine.',
  },
  same_upstream: {
    claim: 'this is the same upstream as yesterday, not one restored from a backup',
    test: 'Each look-back, about once a minute and at rest every few minutes, asks for some records of different ages: several with lower versions than here, still lower minutes later, disprove it.',
    lifetimeMs: dayMs,
    holdsAs: ['yes'],
    without: 'The upstream was restored from a backup, or another one answers.',
    takenBack: 'Tidemark starts over: the position goes back to 0, and everything is read again.',
    isToldElsewhere: true,
  },
  tables_untouched: {
    claim: 'the tables contain what Tidemark wrote',
    test: 'Triggers note what anybody else does to the tables; Tidemark reads these notes before each run.',
    lifetimeMs: dayMs,
    holdsAs: ['yes'],
    without: 'Somebody else writes to schema mirror. Find out who, and revoke that permission.',
    takenBack: 'Tidemark reads the stream again from the beginning and replaces rows that differ.',
    isToldElsewhere: true,
  },
  contract: {
    claim: 'records match the description that the upstream publishes (OpenAPI)',
    test: 'Tidemark reads the description at each start and once a day (that of a named source, of which nothing is to be made at the start, within ten minutes of it), and compares it with the columns. After that each run checks it: a field that is not described, or a value that does not fit, disproves it.',
    lifetimeMs: 2 * dayMs,
    holdsAs: ['as described'],
    without:
      'The records decide which columns there are and their types. `tidemark contract --diff` lists the fields that differ.',
    takenBack:
      'The type of that column, if it contains no value of the described type. Otherwise values that do not fit go to `_rescued`. Nothing else relies on the description.',
    isToldElsewhere: true,
  },
  first_top: {
    claim: 'when the load began, no version above this one existed yet',
    test: 'Noted when a load begins.',
    lifetimeMs: null,
    holdsAs: null,
    takenBack: 'Nothing: it only tells which records came late.',
    isToldElsewhere: true,
    isOfVersions: true,
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

/** By what a belief of this name is read and tested now. */
export const ruleOf = (name: string): number => beliefKind(name)?.rule ?? 1

/** What a belief rests on, besides what was seen. */
export type Ground = { readonly versionField: string | null; readonly rule: number }

/** Whether it was seen by other rules, or of another field than the row version of now: then it has to be tested again at once. */
export const isOutdated = (name: string, { versionField, rule }: Ground, fieldNow: string | null): boolean =>
  rule !== ruleOf(name) || (beliefKind(name)?.isOfVersions === true && versionField !== fieldNow)

/** From when on it is doubted; null: never, as long as nothing contradicts it. */
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

/** A belief that was only seen again is written down this often, so that the polls in between write nothing (P10). */
export const confirmedEveryMs = hourMs

/** Whether the same value was seen and written down lately. */
export const isConfirmed = (known: BeliefState | undefined, value: string, now: Date): boolean =>
  known?.value === value && !known.expiresAt && now.getTime() - known.testedAt.getTime() < confirmedEveryMs
