// Whether what was read is all there is. A short or empty page proves nothing: rights may empty pages after they were cut, and an
// upstream may cut its answers before it sorts them. So the end is confirmed from the other end (P12), and now and then a page is
// asked for again from its middle. Pure, and only judges: the rules in states/ say what comes next.

import type { SeenPage } from '../lists/listing.ts'
import { type ObservedPage, observe, type Reading, type State, versionsOf } from './state.ts'

// ── the newest records ───────────────────────────────────────────────────────────────────────────────────────

/** Behind so many pages that show nothing, the newest records are not looked for. */
export const mostHiddenPages = 5

/** Below a version that is read, so that the answer reaches down to it. What the page behind which it is asked shows is there. */
export function newestSince({ cursor, anchor, options }: Reading, behind: ObservedPage | null): bigint {
  const isRead = (version: bigint) => version <= cursor
  const read =
    behind?.versions.toReversed().find(isRead) ??
    (behind ? options.known?.find(isRead) : anchor && isRead(anchor.version) ? anchor.version : null)
  return read === undefined || read === null ? cursor : read - 1n
}

/** As many as the page held behind which it is asked. */
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
  // Of a version that several rows share, others may be behind the page.
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

/** Of fewer versions nothing is lost that the next questions would not show. */
const enoughVersions = 8

/** The first full page of a reading is looked at, the second, the fourth, and so on. */
export const isLookedInside = ({ fullPages }: Reading, page: ObservedPage): boolean =>
  page.isPerhapsCut && (fullPages & (fullPages - 1)) === 0 && new Set(page.versions).size >= enoughVersions

/** Everything above it and below the last version is on the page, if the page is the beginning of what there is. */
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
  // Only what stands before the last of the page had its place on it.
  const last = versionsOf(answer).at(-1) ?? 0n
  const belongs = ({ version }: { version: bigint | null }) => version !== null && version < last
  return { ...judged, lacked: lackedBy(answer, state.lacked.filter(belongs)) }
}

// ── answers that are cut before they are sorted ──────────────────────────────────────────────────────────────

/** An answer that holds no more than this was not cut: longer ones came. */
export const isSmall = ({ largestAnswer }: Reading, { received }: SeenPage): boolean =>
  received <= Math.max(1, largestAnswer >> 1)

/** A bound that leaves about half of what the page shows; null where it shows one version only. */
export function narrower({ since, versions }: ObservedPage): bigint | null {
  const above = versions.filter((version) => version > since)
  const distinct = [...new Set(above)].sort((a, b) => (a < b ? -1 : 1))
  return distinct.length < 2 ? null : (distinct[distinct.length >> 1] ?? null)
}

/** After a small answer: up to where everything is read, and where the next range ends; null: nowhere. */
export function nextRange(
  reading: Reading<'ahead'>,
  page: ObservedPage,
): { readonly upTo: bigint; readonly below: bigint | null } {
  const { since, below } = reading.state
  const top = reading.highestServed ?? reading.cursor
  if (below === null) return { upTo: page.last, below: null }
  // No further than what exists: a version above it may still be given.
  const upTo = below <= top ? below - 1n : page.last
  const width = (below - since) * (isSmall(reading, { ...page, received: 2 * page.received }) ? 2n : 1n)
  const next = upTo + (width > 2n ? width : 2n)
  return { upTo, below: next < top ? next : null }
}
