// How much of the worker one reader may have at once.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { openPlaces } from '../util/places.ts'
import { type Authentication, clientAddress } from './auth.ts'

/** Who asks, for as long as the answer takes. */
export type Reader = {
  /** The session, or where there is none the address: the same for all that one person asks. */
  readonly who: unknown
  /** Nobody waits for the answer any more. */
  readonly gone: AbortSignal
  /** Whether they may still read: a session may end during a download, or a token be revoked. */
  mayRead(): Promise<boolean>
}

const readers = new WeakMap<FastifyRequest, Reader>()
const nobody: Reader = { who: null, gone: new AbortController().signal, mayRead: async () => true }
export const readerOf = (request: FastifyRequest): Reader => readers.get(request) ?? nobody

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the answer keeps busy, and for how long; `page` when it is left out. */
    readonly place?: keyof typeof places
  }
}

/**
 * Of a kind of answer: how many are given at once, how many may wait for how long, and how long a reader may take to read one. One person
 * gets a part of them only.
 */
const places = {
  page: { inAll: 40, ofOne: 8, waitingInAll: 200, waitingOfOne: 24, longestWaitMs: 10_000 },
  search: { inAll: 4, ofOne: 2, waitingInAll: 50, waitingOfOne: 6, longestWaitMs: 5_000 },
  download: { inAll: 4, ofOne: 1, waitingInAll: 8, waitingOfOne: 2, longestWaitMs: 10_000 },
} as const
const longestMs = { page: 60_000, search: 60_000, download: 600_000 }
const retrySeconds = { page: 3, search: 3, download: 10 }

export function openReadingPlaces() {
  const opened = {
    page: openPlaces(places.page),
    search: openPlaces(places.search),
    download: openPlaces(places.download),
  }
  const leaving = new WeakMap<FastifyRequest, () => void>()
  return {
    /** False when there is no place; the answer then says when to come back. */
    async enter(options: Whose, request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
      const { who, gone } = beginReading(options, request, reply)
      const kind = request.routeOptions.config.place ?? 'page'
      const leave = await opened[kind].take(who, gone)
      // Of a connection that is closed already, no end is told any more.
      if (gone.aborted) leave?.()
      if (leave === null) {
        reply.header('retry-after', retrySeconds[kind])
        return false
      }
      leaving.set(request, leave)
      const tooSlow = setTimeout(() => reply.raw.destroy(), longestMs[kind]).unref()
      reply.raw.once('close', () => {
        clearTimeout(tooSlow)
        leave()
      })
      return true
    },
    /** The answer is complete: somebody who takes it slowly keeps nobody else waiting. */
    leave: (request: FastifyRequest) => leaving.get(request)?.(),
  }
}

type Whose = { readonly authentication: Authentication; readonly isOpen: boolean }

function beginReading(
  { authentication, isOpen }: Whose,
  request: FastifyRequest,
  { raw }: FastifyReply,
): Reader {
  const session = authentication.sessionOf(request)
  const gone = new AbortController()
  raw.once('close', () => gone.abort(new Error('the reader is gone')))
  const mayRead = async () => isOpen || (await authentication.isSignedIn(request))
  const reader = { who: session?.key ?? clientAddress(request), gone: gone.signal, mayRead }
  readers.set(request, reader)
  return reader
}
