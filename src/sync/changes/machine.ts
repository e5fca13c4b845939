// Decides how a changes stream is read: what to ask next, and how far the position may move. Pure: what was seen goes in, the next
// question comes out; it knows no time, no network and no database, so that it can be tried against thousands of hostile upstreams.
// Everything that is decided stands in one table, whose rows are in states/. state.ts, ends.ts and
// proof-of-sorting.ts only judge.

import type { SeenPage } from '../lists/listing.ts'
import { isOutOfDescent } from '../versions.ts'
import { proofQuestions } from './proof-of-sorting.ts'
import {
  type DeclaredRule,
  firstOf,
  type Move,
  type Rule,
  row,
  rule,
  type StateRow,
  type Taken,
} from './rules.ts'
import {
  type Action,
  type Event,
  leastToServe,
  newReading,
  type Reading,
  type ReadingOptions,
  type StateName,
  sawAny,
  type Transition,
  versionsOf,
} from './state.ts'
import { anchorRow } from './states/anchor.ts'
import { endRow } from './states/end.ts'
import { askEnd, confirmsEnd, isOutOfOrder, lowest, maySort, retract, sortsRefused } from './states/moves.ts'
import { nextPageRow } from './states/next-page.ts'
import { oneVersionRow, passesRow } from './states/passes.ts'
import { longerVersionsRow, proofRow } from './states/proof.ts'
import { recheckPageRow } from './states/recheck-page.ts'
import { rangesRow } from './states/sorted.ts'

type SeenAny = { readonly reading: Reading; readonly event: Event }

/** Tried first, in every state. */
const always: readonly Rule<SeenAny>[] = [
  rule(
    'Sorts refused',
    'next-page',
    ({ event }) => event.kind === 'refused' && event,
    ({ reading }, { status, why = `status ${status}` }) => sortsRefused(reading, why),
  ),
  rule(
    'a version below what was asked for',
    'broken',
    ({ reading, event }) => event.kind === 'answer' && whatIsTooLow(reading, event.page),
    ({ reading }, what) => ({ ...reading, state: { name: 'broken', what } }),
  ),
  rule(
    'out of order, back to the start',
    'passes',
    ({ reading, event }) =>
      event.kind === 'answer' && confirmsEnd(reading) && whatIsOutOfOrder(reading.state.name, event.page),
    ({ reading }, held) => retract(reading, held),
  ),
]

/** Where each question is asked in an order. In passes none is needed. */
const orders: Readonly<Partial<Record<StateName, (versions: readonly bigint[]) => string | false>>> = {
  'next-page': isOutOfOrder,
  'recheck-page': isOutOfOrder,
  'one-version': isOutOfOrder,
  end: isOutOfDescent,
  'longer-versions': isOutOfDescent,
}

const whatIsOutOfOrder = (state: StateName, page: SeenPage): string | false =>
  orders[state]?.(versionsOf(page)) ?? false

const table: { readonly [Name in StateName]: StateRow<Name> } = {
  'next-page': nextPageRow,
  proof: proofRow,
  'longer-versions': longerVersionsRow,
  end: endRow,
  'recheck-page': recheckPageRow,
  ranges: rangesRow,
  passes: passesRow,
  'one-version': oneVersionRow,
  anchor: anchorRow,
  done: row<'done', never>({
    asks: 'Nothing: the reading is over.',
    action: ({ state: { isComplete, note, isInconclusive } }) => ({
      kind: 'end',
      isComplete,
      note,
      isInconclusive,
    }),
    see: isOver,
    rules: [],
  }),
  broken: row<'broken', never>({
    asks: 'Nothing: the upstream broke its contract.',
    action: ({ state: { what } }) => ({ kind: 'breach', what }),
    see: isOver,
    rules: [],
  }),
}

/** For the manual and for tests; `null` stands for any state. */
export const declaredStates: readonly {
  readonly name: StateName | null
  readonly asks: string | null
  readonly rules: readonly DeclaredRule[]
}[] = [
  { name: null, asks: null, rules: always },
  ...Object.entries(table).map(([name, { asks, rules }]) => ({ name: name as StateName, asks, rules })),
]

export function start(options: ReadingOptions): Transition {
  const { from, until, pageSize, sorting, anchor } = options
  const reading: Reading<'next-page'> = {
    ...newReading(options),
    state: { name: 'next-page', since: lowest(from, anchor), pageSize, below: null },
  }
  // A poll asks for the newest records first: while little is new, that one answer shows all of it; otherwise it shows how far to read.
  const readsAnew = from === 0n && sorting === 'proven'
  const asksNewest = until === null && (anchor !== null || readsAnew) && maySort(reading)
  return transition(null, asksNewest ? askEnd(reading, null) : reading)
}

/**
 * What probably comes next, so that its requests can be sent early: the last question of the proof of sorting is answered like the
 * first, and ranges are read to their ends. Null in any other state.
 */
export function foreseen(reading: Reading): Transition | null {
  const { state } = reading
  if (state.name === 'ranges') {
    const unread = { upTo: state.unread.upTo, ranges: [] }
    return next(reading, { kind: 'ranges', unread, fell: null })
  }
  const [first] = state.name === 'proof' ? state.answers : []
  const isLast = state.name === 'proof' && state.answers.length === proofQuestions.length - 1
  return isLast && first ? next(reading, { kind: 'answer', page: first }) : null
}

export function next(before: Reading, event: Event): Transition {
  const reading = event.kind === 'answer' ? sawAny(before, event.page) : before
  const taken = firstOf(always, { reading, event }) ?? nextIn(reading.state.name, reading, event)
  if (!taken)
    throw new Error(`The reader has no rule for this ${event.kind} in its state ${reading.state.name}`)
  return transition(taken.rule, taken.move)
}

const nextIn = <Name extends StateName>(name: Name, reading: Reading<Name>, event: Event): Taken | null =>
  table[name].next(reading, event)

const actionIn = <Name extends StateName>(name: Name, reading: Reading<Name>): Action =>
  table[name].action(reading)

function transition(taken: string | null, move: Move): Transition {
  const { reading, effects } = 'reading' in move ? move : { reading: move, effects: {} }
  return {
    reading,
    rule: taken,
    action: actionIn(reading.state.name, reading),
    effects: { seen: null, retreat: null, detected: [], isLeftOut: false, isKept: false, ...effects },
  }
}

function isOver(_reading: Reading, event: Event): never {
  throw new Error(`This came after the reading had ended: ${event.kind}`)
}

function whatIsTooLow({ state }: Reading, page: SeenPage): string | false {
  const least = leastToServe(state)
  const tooLow = least === null ? undefined : versionsOf(page).find((version) => version < least)
  return tooLow !== undefined && `asked for changes since ${least}, it served version ${tooLow}`
}
