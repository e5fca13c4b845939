// Where nothing sorts, or one version fills a page: page after page, in passes, until a count proves that all was seen.

import { judgeListing, type SeenListing } from '../passes.ts'
import { otherwise, row, rule } from '../rules.ts'
import { type Action, advance, type Reading, versionsOf } from '../state.ts'
import { ahead, ask, end, giveUp, isOutOfOrder, lookAtAnchor, neverShown, retract, sortsOf } from './moves.ts'

export const scanRow = row<'scan', SeenListing>({
  asks: 'Page after page of everything above the position, in passes, until a count proves that all was seen.',
  action: listingAction,
  see: judgeListing,
  rules: [
    rule(
      'not all proven yet',
      'scan',
      ({ verdict }) => verdict.kind === 'question' && verdict,
      ({ reading, listing, effects }, { question }) => {
        const { since } = reading.state
        return { reading: { ...reading, state: { name: 'scan', since, listing, question } }, effects }
      },
    ),
    rule(
      'all seen but what is known',
      'anchor',
      ({ reading: { anchor, state }, verdict }: SeenListing) =>
        verdict.kind === 'complete' && anchor !== null && state.since < anchor.version && anchor,
      lookAtAnchor,
    ),
    rule(
      'all seen but the newest',
      'done',
      ({ reading: { highestServed }, verdict }) =>
        verdict.kind === 'complete' && highestServed !== null && verdict.upTo < highestServed,
      ({ reading, effects }) => ({ ...giveUp(reading, neverShown(reading)), effects }),
    ),
    rule(
      'all seen',
      'done',
      ({ verdict }) => verdict.kind === 'complete' && verdict,
      ({ reading, effects }, { upTo }) => ({ ...end(advance(reading, upTo)), effects }),
    ),
    rule(
      'only one page ever comes, sorted',
      'ahead',
      ({ verdict }) => verdict.kind === 'sorted' && verdict,
      ({ reading, effects }, { below }) => ({ reading: ahead(advance(reading, below)), effects }),
    ),
    rule(
      'given up',
      'done',
      ({ verdict }) => verdict.kind === 'uncertain' && verdict,
      ({ reading, effects }, { note }) => ({
        reading: { ...reading, state: { name: 'done', isComplete: false, note, isInconclusive: false } },
        effects,
      }),
    ),
  ],
})

export const tieRow = row<'tie', SeenListing>({
  asks: 'Page after page of the rows of one version, in passes, until a count proves that all were seen.',
  action: listingAction,
  see: judgeListing,
  rules: [
    rule(
      'out of order, back to the start',
      'scan',
      ({ page }) => page !== null && isOutOfOrder(versionsOf(page)),
      ({ reading }, held) => retract(reading, held),
    ),
    rule(
      'not all proven yet',
      'tie',
      ({ verdict }) => verdict.kind === 'question' && verdict,
      ({ reading, listing, effects }, { question }) => {
        const { since } = reading.state
        return { reading: { ...reading, state: { name: 'tie', since, listing, question } }, effects }
      },
    ),
    rule(
      'all seen',
      'ahead',
      ({ verdict }) => verdict.kind === 'complete' && verdict,
      ({ reading, effects }, { upTo }) => ({ reading: ahead(advance(reading, upTo)), effects }),
    ),
    // Rows above this version must not wait for it: the cursor goes on, the position stays.
    otherwise('given up', 'ahead', ({ reading, listing, effects }) => ({
      reading: ahead({ ...reading, cursor: listing.ceiling ?? reading.cursor }),
      effects,
    })),
  ],
})

function listingAction(reading: Reading<'scan' | 'tie'>): Action {
  const { since, question } = reading.state
  if (question.kind === 'count') return question
  const { page, pageSize } = question
  return ask({ since, page, pageSize, sorts: sortsOf(reading) })
}
