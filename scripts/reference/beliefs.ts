// The beliefs, for docs/how-it-works/beliefs.md: what each claims, what can falsify it, and what is taken back then.

import { type BeliefKind, beliefs } from '../../src/streams/beliefs.ts'
import { formatDuration } from '../../src/util/text.ts'
import { code, table } from './markdown.ts'

export const beliefList = (): string =>
  table(
    ['belief', 'claim', 'tested', 'relied on for', 'taken back when it falls'],
    Object.entries(beliefs).map(([name, kind]) => row(name, kind)),
  )

const row = (name: string, { claim, test, lifetimeMs, takenBack }: BeliefKind): readonly string[] => [
  code(name),
  claim,
  test,
  lifetimeMs === null ? 'until something contradicts it' : formatDuration(lifetimeMs),
  takenBack,
]
