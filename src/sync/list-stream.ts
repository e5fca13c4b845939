// One poll of a list stream: everything is listed, rows are written as they come, and what is gone is only believed after a
// listing that is proven complete.

import type { Json } from '../json/json.ts'
import { chooseKeyField, readRecords } from '../record.ts'
import type { ListStream, MirroredStream } from '../streams.ts'
import { beginListing, type ListingMove, nextPass, sawCount, sawPage, wantedKeys } from './listing.ts'
import type { Mirror, Run, Source, Written } from './ports.ts'
import { type LaneOutcome, type LaneReading, runLane } from './run-lane.ts'
import { openWriteWindow } from './write-window.ts'

export type ListContext = {
  readonly mirror: Mirror
  readonly source: Source
  readonly stream: ListStream
  /** The operator's choice of the key, which goes before the usual names. */
  readonly keyField: string | null
  readonly pageSize: number
  /** An operator believes a listing that is empty or has shrunk by more than a fifth. */
  readonly release?: boolean
  readonly signal: AbortSignal
  readonly onWritten?: (written: Written) => void
}

/** The records have no field that could be their key. */
class KeyUnknown extends Error {
  override readonly name = 'KeyUnknown'
}

const pagesInFlight = 2
const maxPasses = 4

export function pollList(context: ListContext): Promise<LaneOutcome> {
  const { mirror, stream, signal } = context
  const lane = {
    mirror,
    source: context.source,
    stream: stream.name,
    lane: 'head',
    collectArrivals: false,
    signal,
  } as const
  return runLane(lane, (run, source) => listOnce(context, run, source))
}

async function listOnce(context: ListContext, run: Run, source: Source): Promise<LaneReading> {
  const { signal, pageSize } = context
  const writes = openWriteWindow(pagesInFlight)
  let keyField = run.state.keyField
  let move: ListingMove = beginListing({
    // More than was asked for is taken for everything.
    askedSize: source.listHasPages ? pageSize : 0,
    maxPasses,
    ceiling: null,
  })
  try {
    for (;;) {
      const { listing, step } = move
      switch (step.kind) {
        case 'page': {
          signal.throwIfAborted()
          const answer = await source.list(step, signal)
          if (answer.records.length > 0 && keyField === null) {
            keyField = chooseKey(context.stream, context.keyField, answer.records)
            await run.setKeyField(keyField)
          }
          const records = readRecords(answer.records, [keyField ?? ''], null)
          move = sawPage(listing, { received: answer.records.length, rows: records.rows })
          if (answer.records.length === 0) break
          const keys = wantedKeys({ received: answer.records.length, rows: records.rows }, null)
          await writes.start(async () => {
            const written = await run.write(records, null)
            await run.see(listing.pageNumber, keys)
            context.onWritten?.(written)
          })
          break
        }
        case 'passed':
          await writes.settled()
          // When nothing lacks there is nothing to prove.
          if ((await run.countAbsent(1)) > 0) move = nextPass(listing)
          else move = { listing, step: { kind: 'complete', highest: null } }
          break
        case 'count':
          await writes.settled()
          move = sawCount(listing, await run.countSeenAround(step.around))
          break
        case 'uncertain':
          return {
            note: `the list changed during each of ${step.passes} passes: nothing is taken for gone`,
            isComplete: false,
            gaveWay: false,
          }
        case 'complete': {
          await writes.settled()
          const { held } = await run.settleAbsences(1, context.release)
          return {
            note: held > 0 ? `held: ${held} rows would be marked deleted` : null,
            isComplete: true,
            gaveWay: false,
          }
        }
      }
    }
  } finally {
    await writes.settled()
  }
}

/** `keyField` is the operator's choice. */
export function chooseKey(
  stream: Pick<MirroredStream, 'name' | 'keyFields'>,
  keyField: string | null,
  records: readonly Json[],
): string {
  const chosen = chooseKeyField(records, keyField ? [keyField] : stream.keyFields)
  if (chosen !== null) return chosen
  const first = records.find((record) => typeof record === 'object' && record !== null)
  const seen = Object.keys(first ?? {}).join(', ') || 'none'
  const variable = `KEY_${stream.name.toUpperCase()}`
  throw new KeyUnknown(
    keyField
      ? `${variable} is ${keyField}, but not every record of ${stream.name} has a usable value there; fields seen: ${seen}`
      : `${stream.name} has no usable key among ${stream.keyFields.join(', ')}: set ${variable} to one of its fields (seen: ${seen})`,
  )
}
