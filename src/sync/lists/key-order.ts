// Whether a list can be filtered and sorted by key, as a run may rely on it: known from an earlier run, or found out now.

import { messageOf } from '../../util/errors.ts'
import { detected, learn, usable } from '../capabilities.ts'
import type { RunCore } from '../ports/store.ts'
import { type KeyedList, KeyOrderBroken, type KeyOrderProof, keyListing, proveKeyOrder } from './by-key.ts'

export type KeyOrderContext = KeyedList & {
  readonly run: Pick<RunCore, 'state' | 'findings' | 'progress'>
  readonly now: () => Date
}

/** `doubtsIgnored`: what was ignored once is tested again: perhaps paging or sorting failed just then. What was refused is not asked again so soon. */
export async function keyOrderOf(
  context: KeyOrderContext,
  doubtsIgnored = false,
): Promise<{ readonly order: string; readonly filters: string }> {
  const { run, now } = context
  const known = usable(run.state.beliefs, 'key_order', now())
  if (known && !(doubtsIgnored && known.value === 'ignored'))
    return {
      order: known.value,
      filters: usable(run.state.beliefs, 'filters', now())?.value ?? untested(known.value),
    }
  run.progress.step('Test whether the list can be read by key')
  const { filters, order } = await testKeyOrder(context)
  const decided = [
    detected('filters', filters.value, filters.evidence),
    detected('key_order', order.value, order.evidence),
  ].filter(({ value }) => value !== 'undecided')
  await learn(run, decided, now())
  return { order: order.value, filters: filters.value }
}

/** A list that refuses to be read by key may refuse filters alone as well, or answer them with everything. */
const untested = (order: string) => (order === 'refused' ? 'refused' : 'undecided')

/** If requests fail that filter or sort, and a plain one works, the list refuses both. */
export async function testKeyOrder(tested: KeyedList): Promise<KeyOrderProof> {
  try {
    return await proveKeyOrder(keyListing(tested))
  } catch (error) {
    if (!(error instanceof KeyOrderBroken)) {
      tested.signal.throwIfAborted()
      if (!isAboutRequest(error)) throw error
      await tested.source.list({ page: 1, pageSize: 1 }, tested.signal)
    }
    const verdict = { value: 'refused', evidence: messageOf(error) } as const
    return { filters: verdict, order: verdict }
  }
}

/** Some upstreams answer 500 to a name that they do not know. */
const isAboutRequest = (error: unknown): boolean =>
  error instanceof Error && 'status' in error && error.status === 500
