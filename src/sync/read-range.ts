// What the lanes of a changes stream have in common: each reads a part of it, with what earlier runs learnt about the upstream.

import type { ChangesStream } from '../streams.ts'
import { knownFacts } from './facts.ts'
import type { Mirror, Run, Source, Written } from './ports.ts'
import { type Progress, type ReadOutcome, readChanges } from './read-changes.ts'
import type { ReadingOptions } from './reading.ts'

export type ChangesContext = {
  readonly mirror: Mirror
  readonly source: Source
  readonly stream: ChangesStream
  readonly pageSize: number
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly shouldGiveWay?: () => boolean
  readonly onWritten?: (written: Written, progress: Progress) => void
}

type Range = Pick<ReadingOptions, 'from' | 'until' | 'maxPasses'> & { readonly movesPosition: boolean }

export function readRange(
  context: Omit<ChangesContext, 'mirror'> & { readonly run: Run },
  { movesPosition, ...range }: Range,
): Promise<ReadOutcome> {
  const { stream, run, pageSize, now } = context
  const { keyFields, versionFields } = stream
  return readChanges(
    { ...context, keyFields, versionFields, movesPosition },
    {
      ...range,
      ...knownFacts(run.state.facts, now()),
      pageSize,
      largePageSize: Math.max(pageSize, Math.min(10 * pageSize, 10_000)),
    },
  )
}
