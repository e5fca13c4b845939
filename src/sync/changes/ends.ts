// Judges whether what was read is all there is. A short or empty page does not prove it: the upstream may leave out what the user may
// not see after it cut the page, and it may cut its answers before it sorts them. So the newest records are asked for, and have to
// reach down to what was read (P12); and now and then a page is read again from its middle. Pure: the rules in states/ say what
// comes next.

import type { SeenPage } from '../lists/listing.ts'
import { type ObservedPage, observe, type Reading, type State, versionsOf } from './state.ts'

// ── the newest records ───────────────────────────────────────────────────────────────────────────────────────

/** After this many pages that show nothing new, the search for the newest records ends. */
export const mostHiddenPages = 5

/**
 * From where to ask for the newest records: just below a version that was read, so that the answer has to show that record too. A
 * record of the page before (`behind`) serves best, because it was there a moment ago.
 */
export function newestSince({ cursor, anchor, options }: Reading, behind: ObservedPage | null): bigint {
  const isRead = (version: bigint) => version <= cursor
  const read =
    behind?.versions.toReversed().find(isRead) ??
    (behind ? options.known?.find(isRead) : anchor && isRead(anchor.version) ? anchor.version : null)
  return read === undefined || read === null ? cursor : read - 1n
}

/** At least as large as the page that seemed to be the last. */
export const newestSize = ({ options, state }: Reading<'newest'>): number =>
  Math.max(options.pageSize, state.behind?.pageSize ?? 0)

export type SeenNewest = {
  readonly reading: Reading
  readonly behind: ObservedPage | null
  readonly pageNumber: number
  readonly page: ObservedPage
  /** It shows everything from the newest record down to what is read. */
  readonly isClosed: boolean
}

export function judgeNewest(reading: Reading<'newest'>, answer: SeenPage): SeenNewest {
  const { since, page: pageNumber, behind } = reading.state
  const page = observe(reading, { since, pageSize: newestSize(reading) }, answer)
  const [newest] = answer.rows.filter(({ version }) => version !== null)
  // Where rows share a version, the page may hold one row of the newest version and lack the others.
  const isNewestRead =
    behind !== null && newest !== undefined && holds(behind, newest) && !reading.sharesVersions
  return { reading, behind, pageNumber, page, isClosed: page.hasOld || isNewestRead }
}

type SeenRow = SeenPage['rows'][number]

const holds = (page: SeenPage, row: SeenRow): boolean => page.rows.some((other) => isSame(row, other))

const isSame = (one: SeenRow, other: SeenRow): boolean =>
  one.key === other.key && one.version === other.version

/** Which of some rows a page does not show. Pages are long: each row is looked up, not searched for. */
function lackedBy(page: SeenPage, rows: SeenPage['rows']): SeenPage['rows'] {
  const shown = Map.groupBy(page.rows, ({ key }) => key)
  return rows.filter((row) => !shown.get(row.key)?.some((other) => isSame(row, other)))
}

// ── a page from inside ───────────────────────────────────────────────────────────────────────────────────────

/** Pages with fewer different versions than this are not looked at from inside. */
const enoughVersions = 8

/** The first full page of a reading is looked at, the second, the fourth, and so on. */
export const isLookedInside = ({ fullPages }: Reading, page: ObservedPage): boolean =>
  page.isPerhapsCut && (fullPages & (fullPages - 1)) === 0 && new Set(page.versions).size >= enoughVersions

/** A version in the middle. If the page is the beginning of what there is, it holds every record between this and its last version. */
export const middleOf = ({ versions }: ObservedPage): bigint => versions[versions.length >> 1] ?? 0n

export type SeenInside = {
  readonly reading: Reading
  readonly page: ObservedPage
  readonly answer: SeenPage
  readonly state: State<'inside'>
  /** What the page should have shown and did not, as far as this answer tells. */
  readonly lacked: SeenPage['rows']
}

export function judgeInside(reading: Reading<'inside'>, answer: SeenPage): SeenInside {
  const { state } = reading
  const { within, question } = state
  const judged = { reading, page: within, answer, state }
  if (question === 'from the middle') {
    const isWithin = (version: bigint | null) =>
      version !== null && version > state.middle && version < within.last
    const wanted = answer.rows.filter(({ version }) => isWithin(version))
    return { ...judged, lacked: lackedBy(within, wanted) }
  }
  if (question === 'from the middle again')
    return { ...judged, lacked: state.lacked.filter((row) => holds(answer, row)) }
  // What is above the last version of this answer belongs on a later page: the page does not lack it.
  const last = versionsOf(answer).at(-1) ?? 0n
  const belongs = ({ version }: { version: bigint | null }) => version !== null && version < last
  return { ...judged, lacked: lackedBy(answer, state.lacked.filter(belongs)) }
}

// ── answers that are cut before they are sorted ──────────────────────────────────────────────────────────────

/** At most half as long as the longest answer that came: then no cap cut it. */
export const isSmall = ({ largestAnswer }: Reading, { received }: SeenPage): boolean =>
  received <= Math.max(1, largestAnswer >> 1)

/** An upper bound that leaves about half of the versions on the page; null where the page shows only one. */
export function narrower({ since, versions }: ObservedPage): bigint | null {
  const above = versions.filter((version) => version > since)
  const distinct = [...new Set(above)].sort((a, b) => (a < b ? -1 : 1))
  return distinct.length < 2 ? null : (distinct[distinct.length >> 1] ?? null)
}

/** After a small answer: up to where everything is read now, and below which version the next range ends; null: it has no end. */
export function nextRange(
  reading: Reading<'ahead'>,
  page: ObservedPage,
): { readonly upTo: bigint; readonly below: bigint | null } {
  const { since, below } = reading.state
  const top = reading.highestServed ?? reading.cursor
  if (below === null) return { upTo: page.last, below: null }
  // Not beyond the highest version that was served: the upstream may still give out those above it.
  const upTo = below <= top ? below - 1n : page.last
  const width = (below - since) * (isSmall(reading, { ...page, received: 2 * page.received }) ? 2n : 1n)
  const next = upTo + (width > 2n ? width : 2n)
  return { upTo, below: next < top ? next : null }
}
