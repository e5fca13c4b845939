// The extended read of an assignment: asks for as much as is wanted, lets more urgent requests go first, and is slower than the budget
// allows, so that other requests of the service always have their share (P10).

import { type RelatedStream, relatedStreams } from '../streams/catalog.ts'
import { assignmentIn, isObject, toInt64 } from '../streams/record.ts'
import type { Lookup, Source } from '../sync/ports/source.ts'
import { systemClock } from '../util/waiting.ts'
import type { Upstream, UpstreamAnswer } from './client.ts'
import { openRateLimit } from './http/budget.ts'
import { UpstreamError } from './http/errors.ts'
import { lookupAfter } from './stream-source.ts'

type Flags = Readonly<Record<string, boolean>>

const share = 0.5

export function openRelatedSource(
  upstream: Upstream,
  options: {
    readonly streams: readonly RelatedStream[]
    readonly requestsPerSecond: () => number | null
    /** Waits for what goes first. */
    readonly yieldTo: (signal: AbortSignal) => Promise<void>
  },
): Source {
  const { streams, requestsPerSecond, yieldTo } = options
  const query = flagsFor(streams)
  const limit = openRateLimit({ clock: systemClock })
  const notOffered = async () => {
    throw new Error('related records are read by assignment only')
  }
  return {
    sortedBy() {
      return this
    },
    changes: notOffered,
    list: notOffered,
    listHasPages: false,
    lookup: explained(upstream, async (assignmentId, signal) => {
      const ask = async (flags: Flags) => {
        await yieldTo(signal)
        const all = requestsPerSecond()
        await limit.take(all && all * share, signal)
        const request = { path: { assignmentId }, query: flags }
        const answer = await upstream.call('getExtendedAssignment', request, signal, { largestBytes })
        return extendedRecord(answer, assignmentId)
      }
      try {
        return await ask(query).catch(async (error) => {
          if (!query.IncludeAttachmentFileData || !isTooLarge(error)) throw error
          const rest = await ask({ ...query, IncludeAttachmentFileData: false })
          return typeof rest === 'object' ? { ...rest, leftOut: tooLongFiles } : rest
        })
      } catch (error) {
        return lookupAfter(error)
      }
    }),
  }
}

/** An answer is in memory as a whole, as bytes and also as what is parsed from them: twice this, besides what the program takes (P10). */
const largestMegabytes = 28
const largestBytes = largestMegabytes * 1024 * 1024 + 65_536
const tooLongFiles = {
  field: 'FileData',
  problem: `the answer with its files is longer than ${largestMegabytes} MB, which is more than Tidemark reads at a time; everything but the files was read`,
}

const isTooLarge = (error: unknown): boolean =>
  error instanceof UpstreamError && error.code === 'UPSTREAM_TOO_LARGE'

type Look = NonNullable<Source['lookup']>

/** A 404 may mean that there is no such assignment, or that there are no extended reads: the assignment itself is asked for (P7). */
function explained(upstream: Upstream, extended: Look): Look {
  let lastFound: string | null = null
  return async (assignmentId, signal) => {
    const answer = await extended(assignmentId, signal)
    if (typeof answer === 'object') lastFound = assignmentId
    if (answer !== 'gone' || (await plainLook(upstream, assignmentId, signal)) !== 'found') return answer
    const other = lastFound === null ? 'gone' : await extended(lastFound, signal)
    // The extended read of another assignment works: only this one cannot be read.
    if (typeof other === 'object') return 'unclear'
    throw new UpstreamError({
      code: 'UPSTREAM_NOT_OFFERED',
      method: 'GET',
      path: `/api/Assignment/extended/Id/${assignmentId}`,
      status: 404,
      retryable: false,
      problem: `status 404, though GET /api/Assignment/Id/${assignmentId} shows the assignment: extended reads are switched off, so no related records can be read.`,
    })
  }
}

async function plainLook(upstream: Upstream, assignmentId: string, signal: AbortSignal): Promise<string> {
  try {
    await upstream.call('getAssignment', { path: { assignmentId } }, signal)
    return 'found'
  } catch (error) {
    const answer = lookupAfter(error)
    return typeof answer === 'object' ? 'found' : answer
  }
}

/** Every group is asked for or declined by its flag, because nobody knows what the upstream does without one. */
const flagsFor = (streams: readonly RelatedStream[]): Flags => ({
  ...Object.fromEntries(relatedStreams.map(({ group }) => [`Include${group}`, false])),
  ...Object.fromEntries(streams.map(({ group }) => [`Include${group}`, true])),
  IncludeAttachmentFileData: streams.some(({ bulkField }) => bulkField === 'FileData'),
  // These are streams of their own.
  IncludeAssignmentNote: false,
  IncludeAssignmentObject: false,
})

/** If the key of the assignment is there, it has to be the one that was asked for (P11). */
function extendedRecord({ body, bytes }: UpstreamAnswer, assignmentId: string): Lookup {
  if (!isObject(body)) return 'unclear'
  const assignment = assignmentIn(body)
  const name = Object.keys(assignment).find((field) => field.toLowerCase() === 'assignmentid')
  const own = name === undefined ? null : toInt64(assignment[name])
  return own === null || own.toString() === assignmentId ? { found: body, bytes } : 'unclear'
}
