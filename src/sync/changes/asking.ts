// Asks the questions of a reading of changes, some of them before their turn: where an answer is only needed for the question behind it
// to be asked at all, both are asked at once. What is asked early is looked at in its turn, or not at all.

import { isDeepStrictEqual } from 'node:util'
import { type Records, readRecords } from '../../streams/record.ts'
import { withoutTwins } from '../../streams/twins.ts'
import { seenPage } from '../lists/listing.ts'
import { confirmEmpty } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Ask, Event } from './state.ts'

export type Fetched = { readonly event: Event; readonly records: Records; readonly bytes: number }

export type AskingContext = {
  readonly source: Pick<Source, 'changes'>
  readonly keyFields: readonly string[]
  readonly versionFields: readonly string[]
  readonly signal: AbortSignal
}

export type Asking = {
  /** In its turn: what was asked early and is not wanted next is left unread. */
  ask(asked: Ask): Promise<Fetched>
  /** One of many that are asked side by side: it has no turn. */
  askAmongOthers(asked: Ask, until: AbortSignal): Promise<Fetched>
  /** Before its turn. */
  begin(asked: Ask): void
  /** The answer was not looked at: the same is asked again when what was asked instead is known. */
  keep(asked: Ask, fetched: Fetched): void
  stop(): void
}

type Early = {
  readonly asked: Ask
  readonly answer: Promise<Fetched>
  /** Until something else is read than what only helps to judge it. */
  readonly isKept: boolean
}

export const nothing: Records = { rows: [], rejected: [] }

export function openAsking(context: AskingContext): Asking {
  const stopping = new AbortController()
  const signal = AbortSignal.any([context.signal, stopping.signal])
  let early: readonly Early[] = []

  function begin(asked: Ask): void {
    if (early.some((one) => isSame(one.asked, asked))) return
    const answer = fetchAnswer(context, asked, signal)
    // A failure is told when it is its turn.
    answer.catch(() => {})
    early = [...early, { asked, answer, isKept: false }]
  }
  function take(asked: Ask): Promise<Fetched> | null {
    const here = early.find((one) => isSame(one.asked, asked))
    early = early.filter((one) => one !== here)
    return here?.answer ?? null
  }
  return {
    ask(asked) {
      const { beside = [], isOnlyLook } = asked
      const answer = take(asked) ?? fetchAnswer(context, asked, signal)
      early = early.filter(
        (one) => (one.isKept && isOnlyLook) || beside.some((next) => isSame(one.asked, next)),
      )
      for (const next of beside) begin(next)
      return answer
    },
    askAmongOthers: (asked, until) => take(asked) ?? fetchAnswer(context, asked, until),
    begin(asked) {
      begin(asked)
      for (const next of asked.beside ?? []) begin(next)
    },
    keep(asked, fetched) {
      early = [...early, { asked, answer: Promise.resolve(fetched), isKept: true }]
    },
    stop: () => stopping.abort(new Error('the reading is over')),
  }
}

/** Who goes first changes nothing of the answer. */
const isSame = (one: Ask, other: Ask): boolean =>
  one.isOnlyLook === other.isOnlyLook &&
  isDeepStrictEqual({ ...one.request, givesWay: true }, { ...other.request, givesWay: true })

/** What the rules see of the answer, and what of it is to be written. */
async function fetchAnswer(
  { source, keyFields, versionFields }: AskingContext,
  { request, mayBeNothing, isOnlyLook }: Ask,
  signal: AbortSignal,
): Promise<Fetched> {
  signal.throwIfAborted()
  const fetch = () => source.changes(request, signal)
  const answer = await (mayBeNothing ? fetch() : confirmEmpty(fetch))
  if ('refused' in answer) {
    const { refused: status, why } = answer
    const event: Event = { kind: 'refused', status, ...(why !== undefined && { why }) }
    return { event, records: nothing, bytes: 0 }
  }
  const records = readRecords(answer.records, keyFields, versionFields)
  const event: Event = { kind: 'answer', page: seenPage(answer.records.length, records) }
  if (!isOnlyLook) return { event, records: withoutTwins(records), bytes: answer.bytes }
  records.release?.()
  return { event, records: nothing, bytes: answer.bytes }
}
