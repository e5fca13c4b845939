// Decides how a changes stream is read: what to ask next, and how far the position may move. Pure: answers in, decisions
// out; it knows no time, no network and no database, so that it can be tried against thousands of hostile upstreams.

import {
  beginListing,
  type Listing,
  type ListingMove,
  nextPass,
  type SeenPage,
  sawCount,
  sawPage,
  wantedKeys,
} from './listing.ts'
import {
  advance,
  type Decision,
  decide,
  end,
  lookAhead,
  type Phase,
  type Reading,
  type ReadingOptions,
  sortsOf,
} from './reading.ts'
import { isAscending, judge, proofQuestions } from './sorting-proof.ts'

const maxWholeAnswers = 3

/** Where the order among the rows of one version is drawn anew each time, it takes many passes to see them all. */
const maxTiePasses = 24

export function beginReading(options: ReadingOptions): Decision {
  const reading: Reading = {
    options,
    position: options.from,
    cursor: options.from,
    sorting: options.sorting,
    largestAnswer: options.largestAnswer,
    highestServed: null,
    wholeAnswers: 0,
    phase: { name: 'ahead', since: options.from, pageSize: options.pageSize },
  }
  return lookAhead(reading)
}

export function sawAnswer(before: Reading, page: SeenPage): Decision {
  const { phase } = before
  const reading: Reading = {
    ...before,
    largestAnswer: Math.max(before.largestAnswer, page.received),
    highestServed: highest(page, before.highestServed),
  }
  if (phase.name === 'proof') return sawProof(reading, phase, page)
  const below =
    phase.name === 'ended' ? undefined : page.rows.find(({ version }) => (version ?? 0n) < phase.since)
  if (below && phase.name !== 'ended')
    return decide(reading, {
      kind: 'breach',
      what: `asked for changes since ${phase.since}, it served version ${below.version}`,
    })
  if (phase.name === 'listing') return sawListed(reading, phase, page)
  if (phase.name === 'ahead') return sawAhead(reading, phase, page, mayBeCut(before, phase.pageSize, page))
  throw new Error('An answer came after the reading had ended')
}

/** The upstream refused a request because of its `Sorts`. */
export function sawRefusal(reading: Reading, status: number): Decision {
  const refused: Reading = { ...reading, sorting: 'refused' }
  const learnt = [{ name: 'sorting', value: 'refused', evidence: `status ${status}` }]
  const { phase } = reading
  if (phase.name === 'listing')
    return { ...askListed(refused, phase.since, sameAgain(phase.listing)), learnt }
  return { ...lookAhead(refused), learnt }
}

export function sawSeenAround(reading: Reading, count: number): Decision {
  if (reading.phase.name !== 'listing') throw new Error('A count came that nobody asked for')
  const { since, listing } = reading.phase
  return askListed(reading, since, sawCount(listing, count))
}

function sawAhead(
  reading: Reading,
  phase: Phase & { name: 'ahead' },
  page: SeenPage,
  isPerhapsCut: boolean,
): Decision {
  const { cursor, options } = reading
  const versions = page.rows.map(({ version }) => version ?? 0n)
  const fresh = versions.filter((version) => version > cursor)
  const last = fresh.reduce((a, b) => (a > b ? a : b), cursor)
  if (fresh.length === 0) return sawNothingNew(reading, phase, page, isPerhapsCut)
  if (page.received > phase.pageSize) {
    const learnt = [
      {
        name: 'paging',
        value: 'ignored',
        evidence: `asked for ${phase.pageSize} records, received ${page.received}`,
      },
    ]
    return { ...end(advance(reading, last)), learnt }
  }
  if (reading.sorting === 'unknown') return askProof(reading, isPerhapsCut ? cursor : 0n, [])
  if (reading.sorting !== 'proven') return listAhead(reading, phase, page, isPerhapsCut)
  if (!isAscending(versions)) return takeBackProof(reading, versions)
  if (options.until !== null && last > options.until) return end(advance(reading, options.until))
  if (fresh.every((version) => version === last))
    return sawOneVersion(reading, phase, page, last, isPerhapsCut)
  // The last version may go on behind the end of the page: only what is below it is complete (P6).
  const wholeAnswers = isPerhapsCut ? 0 : reading.wholeAnswers + 1
  const moved: Reading = { ...advance(reading, last - 1n), wholeAnswers }
  return wholeAnswers < maxWholeAnswers
    ? lookAhead(moved)
    : end(moved, 'the source changes as fast as it is read')
}

function sawNothingNew(
  reading: Reading,
  phase: Phase & { name: 'ahead' },
  page: SeenPage,
  isPerhapsCut: boolean,
): Decision {
  const hasOld = page.rows.some(({ version }) => version === phase.since)
  const learnt = hasOld
    ? [{ name: 'inclusive', value: 'yes', evidence: `since ${phase.since} served version ${phase.since}` }]
    : []
  if (page.received === 0 || !isPerhapsCut) return { ...end(reading), learnt }
  // Old rows of the position's own version fill the page. They prove that `since` includes, so the next version up loses nothing.
  if (hasOld && phase.since === reading.cursor) return { ...lookAhead(reading, reading.cursor + 1n), learnt }
  return { ...listAhead(reading, phase, page, isPerhapsCut), learnt }
}

function sawOneVersion(
  reading: Reading,
  phase: Phase & { name: 'ahead' },
  page: SeenPage,
  version: bigint,
  isPerhapsCut: boolean,
): Decision {
  if (!isPerhapsCut) return end(advance(reading, version))
  const moved: Reading = { ...advance(reading, version - 1n), wholeAnswers: 0 }
  if (page.received >= phase.pageSize && phase.pageSize < reading.options.largePageSize)
    return lookAhead(moved, phase.since, reading.options.largePageSize)
  const begun = beginListing({
    askedSize: page.received,
    maxPasses: maxTiePasses,
    ceiling: version,
  })
  return askListed(moved, phase.since, begun)
}

/** Without sorting: one answer that holds everything if there is such a page size, passes otherwise. */
function listAhead(
  reading: Reading,
  phase: Phase & { name: 'ahead' },
  page: SeenPage,
  isPerhapsCut: boolean,
): Decision {
  const { maxPasses, largePageSize } = reading.options
  if (page.received >= phase.pageSize || isPerhapsCut)
    return askListed(
      reading,
      phase.since,
      beginListing({ askedSize: largePageSize, maxPasses, ceiling: null }),
    )
  const begun = beginListing({ askedSize: phase.pageSize, maxPasses, ceiling: null })
  return sawListed(reading, { name: 'listing', since: phase.since, listing: begun.listing }, page)
}

function sawListed(reading: Reading, phase: Phase & { name: 'listing' }, page: SeenPage): Decision {
  const { listing, since } = phase
  if (listing.ceiling !== null) {
    const versions = page.rows.map(({ version }) => version ?? 0n)
    if (!isAscending(versions)) return takeBackProof(reading, versions)
  }
  const seen = { pageNumber: listing.pageNumber, keys: wantedKeys(page, listing.ceiling) }
  return { ...askListed(reading, since, sawPage(listing, page)), seen }
}

function askListed(reading: Reading, since: bigint, { listing, step }: ListingMove): Decision {
  const here: Reading = { ...reading, phase: { name: 'listing', since, listing } }
  switch (step.kind) {
    case 'page':
      return decide(here, {
        kind: 'ask',
        request: { since, page: step.page, pageSize: step.pageSize, sorts: sortsOf(here) },
      })
    case 'count':
      return decide(here, step)
    case 'passed':
      return askListed(here, since, nextPass(listing))
    case 'uncertain':
      // Rows beyond must not wait for it.
      if (listing.ceiling !== null) return lookAhead({ ...here, cursor: listing.ceiling })
      return decide(
        { ...here, phase: { name: 'ended' } },
        {
          kind: 'end',
          isComplete: false,
          note: `the source changed during each of ${step.passes} passes: everything is read, the position waits for a quiet moment`,
        },
      )
    case 'complete': {
      const reached = step.highest === null || step.highest < here.cursor ? here.cursor : step.highest
      const moved = advance(here, reached)
      return listing.ceiling === null ? end(moved) : lookAhead(moved)
    }
  }
}

function askProof(reading: Reading, since: bigint, answers: readonly SeenPage[]): Decision {
  const question = proofQuestions[answers.length]
  if (!question) throw new Error('The proof of sorting has no such question')
  return decide(
    { ...reading, phase: { name: 'proof', since, answers } },
    { kind: 'ask', request: { since, page: 1, ...question } },
  )
}

function sawProof(reading: Reading, phase: Phase & { name: 'proof' }, page: SeenPage): Decision {
  const answers = [...phase.answers, page]
  if (answers.length < proofQuestions.length) return askProof(reading, phase.since, answers)
  const { sorting, evidence } = judge(answers)
  const verdict: Reading = { ...reading, sorting: sorting === 'proven' ? 'proven' : 'ignored' }
  const learnt = sorting === 'undecided' ? [] : [{ name: 'sorting', value: sorting, evidence }]
  return { ...lookAhead(verdict), learnt }
}

/** The proof was wrong, so nothing that this run concluded from it holds. */
function takeBackProof(reading: Reading, versions: readonly bigint[]): Decision {
  const { from, largePageSize, maxPasses } = reading.options
  const evidence = `a page sorted by RowVersion held ${outOfOrder(versions)}`
  const begun = beginListing({ askedSize: largePageSize, maxPasses, ceiling: null })
  const back: Reading = { ...reading, position: from, cursor: from, sorting: 'ignored' }
  const learnt = [{ name: 'sorting', value: 'ignored', evidence }]
  return { ...askListed(back, from, begun), retreat: evidence, learnt }
}

const sameAgain = (listing: Listing): ListingMove => ({
  listing,
  step: { kind: 'page', page: listing.page, pageSize: listing.pageSize },
})

/** A short answer may still have been cut by a cap, unless a longer one was seen. */
const mayBeCut = (reading: Reading, pageSize: number, page: SeenPage): boolean =>
  page.received >= pageSize || page.received >= reading.largestAnswer

function highest(page: SeenPage, known: bigint | null): bigint | null {
  return page.rows.reduce<bigint | null>(
    (most, { version }) => (version !== null && (most === null || version > most) ? version : most),
    known,
  )
}

function outOfOrder(versions: readonly bigint[]): string {
  const at = versions.findIndex((version, index) => index > 0 && version < (versions[index - 1] ?? version))
  return `${versions[at]} behind ${versions[at - 1]}`
}
