// What is looked up in Postgres to know who makes a request. Strangers can make it be looked up too, with cookies and tokens that they
// made up: so it is done for a few at once, and nobody waits for long.

import type { KeptSession, useToken } from '../store/book/people.ts'
import { openPlaces } from '../util/places.ts'
import { withTimeout } from '../util/waiting.ts'
import { networkOf } from './limits.ts'

export type PeopleStore = {
  saveSession(session: KeptSession): Promise<void>
  /** Null when there is none. */
  readSession(hash: string): Promise<KeptSession | null>
  endSession(hash: string): Promise<void>
  /** Null when there is none, or it has ended. */
  useToken(hash: string): ReturnType<typeof useToken>
}

/** Rejects when Postgres does not answer in time, or too many ask at once. */
export type LookUp = <Answer>(
  address: string,
  ask: (store: PeopleStore) => Promise<Answer>,
) => Promise<Answer>

const longestMs = 2_000
const limits = {
  inAll: 3,
  ofOne: 2,
  waitingInAll: 200,
  waitingOfOne: 40,
  longestWaitMs: longestMs,
} as const

/** Null: Postgres is known to be away. */
export function openLookUp(store: () => PeopleStore | null): LookUp {
  const places = openPlaces(limits)
  const never = new AbortController().signal
  return async (address, ask) => {
    const leave = await places.take(networkOf(address), never)
    const there = store()
    try {
      if (leave === null || there === null) throw new Error('who this is could not be looked up in Postgres')
      return await withTimeout(longestMs, ask(there))
    } finally {
      leave?.()
    }
  }
}
