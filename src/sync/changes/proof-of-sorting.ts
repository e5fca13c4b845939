// Does the upstream sort by row version when asked to? Four questions tell: the last record, the first, a page from the beginning, the
// last record again. An ascending page alone does not prove it. After a bulk update, a list in the order of ids looks ascending too. So
// does a page that was cut before it was sorted; but such an upstream shows the same single record from both ends. The last record is
// asked for twice, because a delete in between, or an order that is drawn anew each time, can fool one look. Pure.

import { ignored, undecided, type Verdict } from '../capabilities.ts'
import type { SeenPage } from '../lists/listing.ts'
import type { SortOrder } from '../ports/source.ts'
import { isAscending } from '../versions.ts'
import { versionsOf } from './state.ts'

export type ProofQuestion = { readonly sorts: SortOrder; readonly pageSize: number }

/** Fewer versions than this are too often in order by chance (13! is 6 thousand million). */
const enoughVersions = 13

export const proofQuestions: readonly ProofQuestion[] = [
  { sorts: 'descending', pageSize: 1 },
  { sorts: 'ascending', pageSize: 1 },
  { sorts: 'ascending', pageSize: 100 },
  { sorts: 'descending', pageSize: 1 },
]

export function judge(answers: readonly SeenPage[]): Verdict {
  const [firstLook, beginning, page, secondLook] = answers
  const tooMany = [firstLook, beginning, secondLook].find((look) => look && look.received > 1)
  // It ignores the page size. Perhaps it cut one page and sorted it afterwards: its ends are not the ends of everything.
  if (tooMany) return ignored(`asked for one record, it served ${tooMany.received}`)
  const lowest = firstRow(page)
  const ends = [firstRow(firstLook), firstRow(secondLook)]
  const versions = page ? versionsOf(page) : []
  const [first] = beginning ? versionsOf(beginning) : []
  if (!lowest || first === undefined) return undecided('nothing was served')
  const began = [first, ...versions]
  if (!isAscending(began)) return ignored(`sorted ascending it began ${began.slice(0, 4).join(', ')}`)
  if (first !== lowest.version) return undecided(`version ${first} was gone a moment later`)
  const highest = versions.at(-1) ?? 0n
  const distinct = new Set(versions).size
  for (const end of ends) {
    if (!end) return undecided('nothing was served')
    const version = end.version ?? 0n
    const isOpposite = version >= highest && end.key !== lowest.key && version > (lowest.version ?? 0n)
    if (isOpposite) continue
    const evidence = `descending it began at ${end.version}, ascending at ${lowest.version}`
    return distinct >= 2 ? ignored(evidence) : undecided(evidence)
  }
  if (distinct < enoughVersions) return undecided(`only ${distinct} versions to compare`)
  const [descending = 0n, again = 0n] = ends.map((end) => end?.version ?? 0n)
  // When everything changes between two questions, any record is above what was shown before.
  if (again - descending > (highest - (lowest.version ?? 0n)) / 2n)
    return undecided(`while it was asked, versions rose from ${descending} to ${again}`)
  return {
    value: 'proven',
    evidence: `${distinct} versions ascending from ${lowest.version}, descending from ${descending} and ${again}`,
  }
}

const firstRow = (page: SeenPage | undefined) => page?.rows.find(({ version }) => version !== null)
