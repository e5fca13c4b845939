// An answer that lacked a record that is known (P11).

import { otherwise, row, rule } from '../rules.ts'
import type { Anchor, Reading } from '../state.ts'
import { askFromAnchor } from './moves.ts'

/** So many of the highest rows are tried, one after the other. If all of them are gone or not shown, nothing is proven. */
const mostAnchors = 6

type SeenAnchor = {
  readonly reading: Reading<'anchor'>
  readonly found: bigint | 'gone' | 'unclear'
  readonly next: Anchor | null
}

export const anchorRow = row<'anchor', SeenAnchor>({
  asks: 'An answer lacked a record that is known. What does the record itself say?',
  action: ({ state: { asked } }) => ({ kind: 'look', anchor: asked }),
  see: (reading, event) => {
    if (event.kind !== 'looked') throw new Error(`A ${event.kind} came that nobody asked for`)
    return { reading, found: event.found, next: event.next }
  },
  rules: [
    rule(
      'gone, and another is known',
      'next-page',
      ({ reading, found, next }) =>
        found === 'gone' && reading.anchorsTried < mostAnchors && next !== null && next,
      ({ reading }, anchor) => askFromAnchor(reading, anchor),
    ),
    // The record was changed meanwhile: its new version has to show up before the reading is over.
    rule(
      'changed meanwhile',
      'next-page',
      ({ reading: { state }, found }) => typeof found === 'bigint' && found > state.asked.version && found,
      ({ reading }, version) => askFromAnchor(reading, { key: reading.state.asked.key, version }),
    ),
    rule(
      'there: asked again',
      'next-page',
      ({ reading: { state }, found }) => found === state.asked.version && state.looks === 0,
      ({ reading }) => askFromAnchor(reading, reading.state.asked),
    ),
    // A record that is hidden or cannot be read tells nothing. If another known record shows up, the answers are the upstream's own.
    rule(
      'not shown: another is known',
      'next-page',
      ({ reading, found, next }) =>
        (found === 'unclear' || found === reading.state.asked.version) &&
        reading.anchorsTried < mostAnchors &&
        next !== null &&
        next,
      ({ reading }, anchor) => askFromAnchor({ ...reading, lacked: reading.state.asked }, anchor),
    ),
    otherwise('nothing is proven', 'done', ({ reading, found }) => ({
      ...reading,
      state: {
        name: 'done',
        isComplete: false,
        isInconclusive: true,
        note: whyInconclusive(reading.state.asked, found),
      },
    })),
  ],
})

function whyInconclusive({ key, version }: Anchor, found: bigint | 'gone' | 'unclear'): string {
  const lacked = `the answer lacked record ${key}, which has version ${version} here`
  const said =
    found === 'gone'
      ? 'it and others before it are gone when asked for by id'
      : found === 'unclear'
        ? 'asked for by id, it cannot be read'
        : found === version
          ? 'asked for by id, it is there'
          : `asked for by id, it has version ${found}`
  return `${lacked}; ${said}: nothing was proven`
}
