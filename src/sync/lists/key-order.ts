// Whether a list can be filtered and sorted by key, as a run may rely on it: known from an earlier run, or found out now.

import { learnt, usable } from '../changes/hypotheses.ts'
import type { Source } from '../ports/source.ts'
import type { RunCore } from '../ports/store.ts'
import { keyListing, proveKeyOrder } from './by-key.ts'

export async function keyOrderOf(context: {
  readonly run: Pick<RunCore, 'state' | 'findings'>
  readonly source: Pick<Source, 'list'>
  readonly keyField: string
  readonly pageSize: number
  readonly now: () => Date
  readonly signal: AbortSignal
}): Promise<string> {
  const { run, now } = context
  const known = usable(run.state.beliefs, 'key_order', now())
  if (known) return known.value
  const { value, evidence } = await proveKeyOrder(keyListing(context))
  if (value !== 'undecided')
    await run.findings.learn([{ ...learnt('key_order', value, evidence), testedAt: now() }])
  return value
}
