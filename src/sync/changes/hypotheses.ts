// Finds out whether the upstream sorts by row version when asked to. Pure. Four questions: the last record, the first, a page from
// the beginning, the last record again. That a page looks ascending proves nothing: after a bulk update a list in order of
// ids does too, and so does a page that was sorted after it was cut; but then a page of one record is the same from both ends. And one look
// at the ends can be fooled by a delete between them, or by an order that is drawn anew each time.

import type { SeenPage } from '../lists/listing.ts'
import type { Sorts } from '../ports/source.ts'
import type { Belief } from '../ports/store.ts'
import { type ReadingOptions, type Sorting, versionsOf } from './state.ts'

export type ProofQuestion = { readonly sorts: Sorts; readonly pageSize: number }
export type Verdict = {
  readonly sorting: 'proven' | 'ignored' | 'undecided'
  readonly evidence: string
}

/** By chance, fewer versions than this are in order too often (13! is 6 thousand million). */
const enoughVersions = 13

export const proofQuestions: readonly ProofQuestion[] = [
  { sorts: '-RowVersion', pageSize: 1 },
  { sorts: 'RowVersion', pageSize: 1 },
  { sorts: 'RowVersion', pageSize: 100 },
  { sorts: '-RowVersion', pageSize: 1 },
]

export function judge(answers: readonly SeenPage[]): Verdict {
  const [firstLook, beginning, page, secondLook] = answers
  const tooMany = [firstLook, beginning, secondLook].find((look) => look && look.received > 1)
  // Both ends of a page, not of all there is, when it was sorted after it was cut.
  if (tooMany) return { sorting: 'ignored', evidence: `asked for one record, it served ${tooMany.received}` }
  const lowest = firstRow(page)
  const ends = [firstRow(firstLook), firstRow(secondLook)]
  if (!page || !lowest) return { sorting: 'undecided', evidence: 'nothing was served' }
  const versions = versionsOf(page)
  const [first] = beginning ? versionsOf(beginning) : []
  if (first === undefined) return { sorting: 'undecided', evidence: 'nothing was served' }
  if (!isAscending([first, ...versions]))
    return { sorting: 'ignored', evidence: `Sorts=RowVersion began ${some([first, ...versions])}` }
  if (first !== lowest.version)
    return { sorting: 'undecided', evidence: `version ${first} was gone a moment later` }
  const highest = versions.at(-1) ?? 0n
  const distinct = new Set(versions).size
  for (const end of ends) {
    if (!end) return { sorting: 'undecided', evidence: 'nothing was served' }
    const isOpposite =
      (end.version ?? 0n) >= highest && end.key !== lowest.key && (end.version ?? 0n) > (lowest.version ?? 0n)
    if (isOpposite) continue
    const evidence = `Sorts=-RowVersion began at ${end.version}, Sorts=RowVersion at ${lowest.version}`
    return { sorting: distinct >= 2 ? 'ignored' : 'undecided', evidence }
  }
  if (distinct < enoughVersions)
    return { sorting: 'undecided', evidence: `only ${distinct} versions to compare` }
  const evidence = `${distinct} versions ascending from ${lowest.version}, descending from ${ends[0]?.version} and ${ends[1]?.version}`
  return { sorting: 'proven', evidence }
}

const firstRow = (page: SeenPage | undefined) => page?.rows.find(({ version }) => version !== null)

export function isAscending(versions: readonly bigint[]): boolean {
  return versions.every((version, index) => index === 0 || version >= (versions[index - 1] ?? version))
}

const some = (versions: readonly bigint[]): string => versions.slice(0, 4).join(', ')

// What earlier runs learnt about the upstream, as far as a run may still rely on it.
/** Facts are looked at again after this long. */
const beliefLifetimeMs = 24 * 3_600_000

const hourMs = 3_600_000

type Known = Pick<ReadingOptions, 'sorting' | 'largestAnswer'>

export function knownBeliefs(beliefs: readonly Belief[], now: Date): Known {
  const fresh = (name: string) =>
    beliefs.find(
      (belief) => belief.name === name && now.getTime() - belief.testedAt.getTime() < beliefLifetimeMs,
    )?.value
  // Where paging is ignored, asking for one record from the beginning would fetch everything there is.
  if (fresh('paging') === 'ignored') return { sorting: 'ignored', largestAnswer: 0 }
  return { sorting: asSorting(fresh('sorting')), largestAnswer: Number(fresh('largest_answer') ?? 0) }
}

/** The largest answer, when it is news: larger than known, or not confirmed for an hour. */
export function largestAnswerBelief(beliefs: readonly Belief[], received: number, now: Date): Belief | null {
  const known = beliefs.find((belief) => belief.name === 'largest_answer')
  const knownValue = Number(known?.value ?? 0)
  const ageMs = known ? now.getTime() - known.testedAt.getTime() : Number.POSITIVE_INFINITY
  const isNews =
    received > knownValue || ageMs >= beliefLifetimeMs || (received === knownValue && ageMs >= hourMs)
  if (received === 0 || !isNews) return null
  return {
    name: 'largest_answer',
    value: String(received),
    evidence: `one answer held ${received} records`,
    testedAt: now,
  }
}

const asSorting = (value: string | undefined): Sorting =>
  value === 'proven' || value === 'ignored' || value === 'refused' ? value : 'unknown'
