// Sends the requests of a reading of changes, some of them early: when it is likely which question comes next, its request goes out
// together with the current one and saves a wait. An early answer is looked at when its question comes up, and dropped if it never does.

import { isDeepStrictEqual } from 'node:util'
import { type Records, readRecords } from '../../streams/record.ts'
import { withoutTwins } from '../../streams/twins.ts'
import { seenPage } from '../lists/listing.ts'
import { confirmEmpty } from '../lists/page-ends.ts'
import type { Source } from '../ports/source.ts'
import type { Ask, Event } from './state.ts'

export type Fetched = { readonly event: Event; readonly records: Records; readonly bytes: number }

export type AskingContext = {
  readonly source: Pick<Source, 'changes'>
  readonly keyFields: readonly string[]
  readonly versionFields: readonly string[]
  readonly signal: AbortSignal
}

export type Asking = ReturnType<typeof openAsking>

type Early = {
  readonly asked: Ask
  readonly answer: Promise<Fetched>
  /** Put aside by `keep`: stays until a question comes that is more than a look. */
  readonly isKept: boolean
}

export const nothing: Records = { rows: [], rejected: [] }

export function openAsking(context: AskingContext) {
  const stopping = new AbortController()
  const signal = AbortSignal.any([context.signal, stopping.signal])
  let early: readonly Early[] = []

  function begin(asked: Ask): void {
    if (early.some((one) => isSame(one.asked, asked))) return
    const answer = fetchAnswer(context, asked, signal)
    // `ask` reports a failure when the question comes up. Until then it must not count as an unhandled rejection.
    answer.catch(() => {})
    early = [...early, { asked, answer, isKept: false }]
  }
  function take(asked: Ask): Promise<Fetched> | null {
    const here = early.find((one) => isSame(one.asked, asked))
    early = early.filter((one) => one !== here)
    return here?.answer ?? null
  }
  return {
    /** The answer to the next question. Other early answers are dropped; those put aside by `keep` survive questions that are only looks. */
    ask(asked: Ask): Promise<Fetched> {
      const { beside = [], isOnlyLook } = asked
      const answer = take(asked) ?? fetchAnswer(context, asked, signal)
      early = early.filter(
        (one) => (one.isKept && isOnlyLook) || beside.some((next) => isSame(one.asked, next)),
      )
      for (const next of beside) begin(next)
      return answer
    },
    /** For readers side by side: as `ask`, but leaves all other early answers alone. */
    askAmongOthers: (asked: Ask, until: AbortSignal): Promise<Fetched> =>
      take(asked) ?? fetchAnswer(context, asked, until),
    /** Sends the request before its turn. */
    begin(asked: Ask) {
      begin(asked)
      for (const next of asked.beside ?? []) begin(next)
    },
    /** Puts an answer aside unjudged, because something else has to be asked first. When the same question comes again, it is used. */
    keep(asked: Ask, fetched: Fetched) {
      early = [...early, { asked, answer: Promise.resolve(fetched), isKept: true }]
    },
    stop() {
      stopping.abort(new Error('the reading is over'))
      // Whoever still holds the signal would hold these pages.
      early = []
    },
  }
}

/** `lowPriority` decides only which request goes first, not what is answered: it is not compared. */
const isSame = (one: Ask, other: Ask): boolean =>
  one.isOnlyLook === other.isOnlyLook &&
  isDeepStrictEqual({ ...one.request, lowPriority: true }, { ...other.request, lowPriority: true })

/** The event that the rules judge, and the records to write: none where the answer is only looked at. */
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
  const event: Event = { kind: 'answer', page: seenPage(answer.records.length, records, answer.total) }
  if (!isOnlyLook) return { event, records: withoutTwins(records), bytes: answer.bytes }
  records.release?.()
  return { event, records: nothing, bytes: answer.bytes }
}
