// Targets: how old each of the three times of a stream may become. Whether one is missed now, and the rules for Prometheus that say the same.
// Pure.

import type { Targets } from '../config/alert-file.ts'
import { times } from '../config/stream-variables.ts'
import type { StreamSymptoms } from '../store/book/symptoms.ts'
import type { KeptTarget, Target } from '../store/book/targets.ts'
import type { Stream } from '../streams/catalog.ts'
import { settledThrough } from '../streams/settling.ts'
import { formatDuration } from '../util/text.ts'
import { type Problem, problemOf, runbookOf } from './stream-problems.ts'

export const claims: Readonly<Record<string, string>> = {
  read: 'read through',
  settled: 'settled through',
  deletions: 'deletions known through',
}
const metrics: Readonly<Record<string, string>> = {
  read: 'tidemark_lag_seconds',
  settled: 'tidemark_settled_age_seconds',
  deletions: 'tidemark_deletions_age_seconds',
}

/** As they are measured. */
export const measured = (
  targets: Targets,
  kinds: readonly Pick<Stream, 'name' | 'kind'>[],
): readonly Target[] =>
  Object.entries(targets).flatMap(([stream, ofStream]) => {
    const isList = kinds.some(({ name, kind }) => name === stream && kind === 'list')
    return times.flatMap((time) => {
      const targetMs = ofStream[time]
      const age = time === 'settled' && isList ? 'read' : time
      return targetMs === undefined ? [] : [{ stream, time, age, seconds: targetMs / 1000 }]
    })
  })

/** Nothing is missed while a stream is paused, or before its first load is complete. */
export function targetsMissed(
  symptoms: StreamSymptoms,
  { kind, targets }: { readonly kind: string | undefined; readonly targets: Targets },
  now: Date,
): Problem[] {
  const { stream, isPaused, readThroughAt, movedBackAt, firstReadThroughAt, deletionsKnownAt } = symptoms
  if (isPaused || firstReadThroughAt === null || (readThroughAt ?? movedBackAt) === null) return []
  const known = { read: readThroughAt, settled: settledThrough(kind, symptoms), deletions: deletionsKnownAt }
  return times.flatMap((time) => {
    const targetMs = targets[stream]?.[time]
    const at = known[time]
    // When a position is moved back, nobody knows any more what is read and settled.
    const unknownSince = time === 'deletions' ? firstReadThroughAt : (movedBackAt ?? firstReadThroughAt)
    const ageMs = now.getTime() - (at ?? unknownSince).getTime()
    if (targetMs === undefined || ageMs <= targetMs) return []
    const is = at ? `It is ${at.toISOString()}, ${formatDuration(ageMs)} ago` : 'No such time is known now'
    return [
      problemOf('target_missed', stream, `${stream}:${time}`, {
        since: at && new Date(at.getTime() + targetMs),
        what: `${stream} misses its target for “${claims[time]}”, ${formatDuration(targetMs)}. ${is}.`,
        whatToDo: `\`tidemark status ${stream}\` shows what its last run said. If nothing is wrong, the target is too strict for its schedule.`,
      }),
    ]
  })
}

const daysMs = 24 * 3_600_000

/** `99.31 %`, `99.31 % of 2 d 3 h`: a share is not called one of more time than there is; rounded down, so that 100 % is everything. */
export function keptInWords({ share, days, countedMs }: KeptTarget): string {
  if (share === null) return 'not known yet'
  const percent = `${Math.floor(share * 10_000) / 100} %`
  return countedMs < 0.95 * days * daysMs ? `${percent} of ${formatDuration(countedMs)}` : percent
}

/** The rules of `tidemark alerts rules`: they hold also while no worker can tell of it. */
export const targetRules = (targets: readonly Target[]) => ({
  groups: [
    {
      name: 'tidemark-targets',
      rules: targets.map(({ stream, time, age, seconds }) => {
        const own = `{stream="${stream}"}`
        return {
          alert: 'TidemarkTargetMissed',
          expr: `max by (stream) (${metrics[age]}${own} unless on (stream) tidemark_paused${own} == 1) > ${seconds}`,
          for: '1m',
          labels: { severity: 'warning', time },
          annotations: {
            summary: `Tidemark: ${stream} misses its target for “${claims[time]}”, ${formatDuration(1000 * seconds)}.`,
            description: `\`tidemark status ${stream}\` shows what its last run said.`,
            runbook: runbookOf('target_missed'),
          },
        }
      }),
    },
  ],
})
