// What the upstream changed: how it behaves, and what its records hold. These are events: nobody has to do anything for them to end.

import { count, plural } from '../count.ts'
import type { StreamSymptoms } from '../mirror/symptoms.ts'
import type { Concern } from './concern.ts'

const longestList = 5

export const flipped = ({ stream, flippedFacts }: StreamSymptoms): Concern[] =>
  flippedFacts.map(({ name, value, previousValue, evidence, changedAt }) => ({
    key: `fact_flipped:${stream}:${name}:${value}`,
    kind: 'fact_flipped',
    stream,
    since: changedAt,
    what: `${stream}: the upstream behaves differently: ${name} was ${previousValue} and is ${value} (${evidence})`,
    whatToDo: 'nothing: the reading adapts by itself. `tidemark probe` shows what the upstream is like now',
  }))

/** Fields that came within minutes of each other are told together. */
const driftGapMs = 10 * 60_000

export function drifted({ stream, drift }: StreamSymptoms): Concern[] {
  const groups: (typeof drift)[number][][] = []
  for (const change of drift.toSorted((a, b) => a.at.getTime() - b.at.getTime())) {
    const group = groups.at(-1)
    const last = group?.at(-1)
    if (group && last && change.at.getTime() - last.at.getTime() <= driftGapMs) group.push(change)
    else groups.push([change])
  }
  return groups.flatMap((group): Concern[] => {
    const [first] = group
    if (!first) return []
    const named = group.slice(0, longestList).map(({ field, change }) => `${field} (${change})`)
    const more = group.length > longestList ? ` and ${count(group.length - longestList)} more` : ''
    return [
      {
        key: `schema_drift:${stream}:${first.at.toISOString()}`,
        kind: 'schema_drift',
        stream,
        since: first.at,
        what: `${stream}: ${plural(group.length, 'field')} changed: ${named.join(', ')}${more}`,
        whatToDo: `see whether reports need them: \`tidemark schema ${stream}\``,
      },
    ]
  })
}
