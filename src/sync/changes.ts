// Decides how a changes stream is read: what to ask next, and how far the position may move. Pure: answers in, decisions
// out; it knows no time, no network and no database, so that it can be tried against thousands of hostile upstreams.

import { believe, sawGoal, sawSorted, sawTail } from './key-set.ts'
import type { SeenPage } from './listing.ts'
import { listOn, sawListed } from './passes.ts'
import {
  ask,
  type Decision,
  decide,
  end,
  highest,
  lookAhead,
  mayBeAtEnd,
  type Phase,
  type Reading,
  type ReadingOptions,
  sortsOf,
  versionsOf,
} from './reading.ts'
import { judge, proofQuestions } from './sorting-proof.ts'
import { sawTextOrder } from './text-order.ts'

type Ahead = Phase & { readonly name: 'ahead' }

export function beginReading(options: ReadingOptions): Decision {
  const reading: Reading = {
    options,
    position: options.from,
    cursor: options.from,
    sorting: options.sorting,
    largestAnswer: options.largestAnswer,
    highestServed: null,
    goal: null,
    phase: { name: 'ended' },
  }
  return lookAhead(reading)
}

export function sawAnswer(before: Reading, page: SeenPage): Decision {
  const { phase } = before
  const reading: Reading = {
    ...before,
    largestAnswer: Math.max(before.largestAnswer, page.received),
    highestServed: highest(versionsOf(page), before.highestServed),
  }
  if (phase.name === 'ended') throw new Error('An answer came after the reading had ended')
  if (phase.name === 'proof') return sawProof(reading, phase, page)
  const { since } = 'since' in phase ? phase : phase.page
  const below = versionsOf(page).find((version) => version < since)
  if (below !== undefined)
    return decide(reading, {
      kind: 'breach',
      what: `asked for changes since ${since}, it served version ${below}`,
    })
  switch (phase.name) {
    case 'ahead':
      return sawAhead(reading, phase, page, mayBeCut(before, phase.pageSize, page))
    case 'behind':
      return page.received === 0 ? end(reading) : listOn(reading, phase, phase.page, true)
    case 'text':
      return sawTextOrder(reading, phase.page, phase.count, page) ?? believe(reading, phase.page, true)
    case 'tail':
      return sawTail(reading, phase.page, page)
    case 'goal':
      return sawGoal(reading, phase.page, page)
    case 'listing':
      return sawListed(reading, phase, page)
  }
}

/** The upstream refused the request because of its `Sorts`. */
export function sawRefusal(reading: Reading, status: number): Decision {
  const refused: Reading = { ...reading, sorting: 'refused' }
  const learnt = [{ name: 'sorting', value: 'refused', evidence: `status ${status}` }]
  // What was concluded from the order of a listing holds no more.
  return { ...lookAhead(refused), learnt }
}

function sawAhead(reading: Reading, phase: Ahead, page: SeenPage, isPerhapsCut: boolean): Decision {
  const { cursor, sorting } = reading
  const last = highest(versionsOf(page), cursor)
  if (last === cursor) return sawNothingNew(reading, phase, page, isPerhapsCut)
  if (sorting === 'proven') return sawSorted(reading, phase, page, last, isPerhapsCut)
  // Where paging is ignored, the questions of the proof would fetch everything there is.
  const isTooLong = page.received > phase.pageSize
  if (sorting === 'unknown' && !isTooLong) return askProof(reading, isPerhapsCut ? cursor : 0n, [])
  return listOn(reading, phase, page, isPerhapsCut)
}

function sawNothingNew(reading: Reading, phase: Ahead, page: SeenPage, isPerhapsCut: boolean): Decision {
  const hasOld = versionsOf(page).includes(phase.since)
  const learnt = hasOld
    ? [{ name: 'inclusive', value: 'yes', evidence: `since ${phase.since} served version ${phase.since}` }]
    : []
  // An upstream whose `since` includes shows it in every quiet poll, and one question has to be enough for that.
  const isOneOldRow = hasOld && page.received === 1 && !isPerhapsCut && mayBeAtEnd(reading)
  if (page.received === 0 || isOneOldRow) return { ...end(reading), learnt }
  // Old rows of the position's own version may fill the page. They prove that `since` includes, so the next version up loses nothing.
  if (hasOld && phase.since === reading.cursor) return { ...lookAhead(reading, reading.cursor + 1n), learnt }
  if (isPerhapsCut) return { ...listOn(reading, phase, page, isPerhapsCut), learnt }
  return { ...askBehind(reading, phase, page), learnt }
}

/** It holds nothing but what cannot be a row. */
const askBehind = (reading: Reading, { since, pageSize }: Ahead, page: SeenPage): Decision =>
  ask(
    { ...reading, phase: { name: 'behind', since, pageSize, page } },
    { since, page: 2, pageSize: page.received, sorts: sortsOf(reading) },
    mayBeAtEnd(reading),
  )

function askProof(reading: Reading, since: bigint, answers: readonly SeenPage[]): Decision {
  const question = proofQuestions[answers.length]
  if (!question) throw new Error('The proof of sorting has no such question')
  return ask({ ...reading, phase: { name: 'proof', since, answers } }, { since, page: 1, ...question })
}

function sawProof(reading: Reading, phase: Phase & { name: 'proof' }, page: SeenPage): Decision {
  const answers = [...phase.answers, page]
  if (answers.length < proofQuestions.length) return askProof(reading, phase.since, answers)
  const { sorting, evidence } = judge(answers)
  const verdict: Reading = { ...reading, sorting: sorting === 'proven' ? 'proven' : 'ignored' }
  const learnt = sorting === 'undecided' ? [] : [{ name: 'sorting', value: sorting, evidence }]
  return { ...lookAhead(verdict), learnt }
}

/** A short answer may still have been cut by a cap, unless a longer one was seen. */
const mayBeCut = (reading: Reading, pageSize: number, page: SeenPage): boolean =>
  page.received >= pageSize || page.received >= reading.largestAnswer
