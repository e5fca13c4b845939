// Does the upstream sort, and numbers as numbers?

import { detected, type Verdict } from '../../capabilities.ts'
import type { SeenPage } from '../../lists/listing.ts'
import { digitsOf, highest, outOfOrder } from '../../versions.ts'
import { judge, proofQuestions } from '../proof-of-sorting.ts'
import { type Far, isFar } from '../ranges.ts'
import { otherwise, row, rule } from '../rules.ts'
import { type Ask, type ObservedPage, type Reading, type State, versionsOf } from '../state.ts'
import { ask, isCertain, nextPage, pageOf, prove, retract, takeBack } from './moves.ts'
import {
  beyondTheGoal,
  goOn,
  leastRows,
  muchIsAbove,
  pastTheRange,
  rangesTo,
  rangesWereBegun,
  topAtBeginning,
} from './sorted.ts'

type SeenProof = {
  readonly reading: Reading<'proof'>
  readonly answers: readonly SeenPage[]
  /** Nothing came: the user may not be allowed to see the record at this end, so the next one is asked for. */
  readonly isHidden: boolean
  readonly verdict: Verdict | null
}

type SeenLonger = {
  readonly reading: Reading
  readonly page: ObservedPage
  /** What only an order of texts explains; false: nothing. */
  readonly held: string | false
}

export const proofRow = row<'proof', SeenProof>({
  asks: 'Does the upstream sort? Four questions: the last record, the first, a page, the last again.',
  action: ({ state }) =>
    ask(requestAt(state, state.answers.length), {
      isOnlyLook: true,
      ...(state.page === 1 && { beside: questionsUpToTheLast(state, state.answers.length + 1) }),
    }),
  see: (reading, event) => {
    const answer = pageOf(event)
    const answers = [...reading.state.answers, answer]
    const isHidden = answer.received === 0 && reading.state.page < mostHiddenEnds
    return {
      reading,
      answers,
      isHidden,
      verdict: answers.length < proofQuestions.length ? null : judge(answers),
    }
  },
  rules: [
    rule(
      'hidden, perhaps the next is shown',
      'proof',
      ({ isHidden }) => isHidden,
      ({ reading }) => ({ ...reading, state: { ...reading.state, page: reading.state.page + 1 } }),
    ),
    rule(
      'another question',
      'proof',
      ({ verdict }) => verdict === null,
      ({ reading, answers }) => prove(reading, reading.state.since, answers),
    ),
    rule('sorting proven, and much is above', 'ranges', isMuchProven, ({ reading, verdict }, far) => ({
      reading: {
        ...reading,
        sorting: 'proven',
        state: { name: 'ranges', ...rangesTo(reading.cursor, far) },
      },
      effects: {
        detected: [
          detected('sorting', 'proven', verdict?.evidence ?? ''),
          ...topAtBeginning({ ...reading, goal: far.upTo + 1n }),
        ],
      },
    })),
    rule(
      'sorting proven',
      'next-page',
      ({ verdict }) => verdict?.value === 'proven' && verdict,
      ({ reading }, { evidence }) => ({
        reading: nextPage({ ...reading, sorting: 'proven' }),
        effects: { detected: [detected('sorting', 'proven', evidence), ...firstTop(reading)] },
      }),
    ),
    rule(
      'sorted no more, and earlier runs relied on it',
      'passes',
      ({ reading: { options }, verdict }) =>
        verdict?.value === 'ignored' && (options.restsFrom ?? options.from) < options.from && verdict,
      ({ reading }, { evidence }) => takeBack(reading, evidence),
    ),
    otherwise('sorting not proven', 'next-page', ({ reading, verdict }) => ({
      reading: nextPage({ ...reading, sorting: 'ignored' }),
      effects:
        verdict?.value === 'ignored' ? { detected: [detected('sorting', 'ignored', verdict.evidence)] } : {},
    })),
  ],
})

/** All questions of the proof but the last one: it looks at the last record again, and has to come after all others. */
export const questionsOfProof = (since: bigint): readonly Ask[] =>
  questionsUpToTheLast({ name: 'proof', since, answers: [], page: 1 }, 0)

// An upstream that sorts numbers as text puts 10 before 9: then 9 stands at the other end. Where shorter versions are neither on the page
// nor among those from the end, this does not show it, and a reconcile finds them.

/** Some of them may be no rows, and have no version. */
const fromTheEnd = 100

/** Versions of the page have more digits than what was read, and no page has shown a version like 9 before one like 10. */
export const isPerhapsText = ({ sortsNumbers }: Reading, cursor: bigint, { last }: ObservedPage): boolean =>
  !sortsNumbers && digitsOf(last) > digitsOf(cursor)

export const longerVersionsRow = row<'longer-versions', SeenLonger>({
  asks: 'Versions have one digit more. Are numbers sorted as text? A look at the end.',
  action: ({ state: { page } }) =>
    ask({ since: page.since, page: 1, pageSize: fromTheEnd, sorts: 'descending' }, { isOnlyLook: true }),
  see: (reading, event) => {
    const { page } = reading.state
    const answer = pageOf(event)
    const versions = versionsOf(answer)
    const [end] = versions
    const isBelow = end !== undefined && end < page.last && outOfOrder([page.last, end])
    const hasNone = end === undefined && answer.received > 0 && outOfOrder([])
    return { reading, page, held: isBelow || hasNone }
  },
  rules: [
    rule(
      'sorted as text, back to the start',
      'passes',
      ({ held }) => held,
      ({ reading }, held) => retract(reading, held),
    ),
    pastTheRange,
    beyondTheGoal,
    rangesWereBegun,
    muchIsAbove,
    ...goOn,
  ],
})

/** So many records at an end are tried. If all are hidden, the proof is left undecided. */
const mostHiddenEnds = 8

/** The highest version when the first load began. What existed then is not late, whenever the position gets there. */
const firstTop = ({ options, highestServed }: Reading) =>
  options.from === 0n && options.until === null && highestServed !== null
    ? [detected('first_top', String(highestServed), 'the highest version served when the first load began')]
    : []

/** The questions of the proof have shown the highest version, and how closely versions lie where reading begins. */
function isMuchProven({ reading, answers, verdict }: SeenProof): Far | false {
  const { options } = reading
  const page = answers[proofQuestions.findIndex(({ pageSize }) => pageSize > 1)]
  // From the first look at the last record, because ranges are begun while the second look is under way.
  const [first] = answers
  const top = first ? highest(versionsOf(first), null) : null
  const upTo = options.until ?? (top === null ? null : top - 1n)
  const mayBegin = (options.load?.readers ?? 1) > 1 && reading.unread === null && isCertain(reading)
  if (verdict?.value !== 'proven' || !mayBegin || upTo === null || !page) return false
  return isFar(versionsOf(page), upTo, leastRows(reading)) ?? false
}

const questionsUpToTheLast = (state: State<'proof'>, from: number): readonly Ask[] =>
  proofQuestions.slice(from, -1).map((_, index) => ask(requestAt(state, from + index), { isOnlyLook: true }))

function requestAt({ since, page }: State<'proof'>, index: number): Ask['request'] {
  const question = proofQuestions[index]
  if (!question) throw new Error('The proof of sorting has no such question')
  return { since, page, ...question }
}
