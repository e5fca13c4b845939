// Whether a stream should have been read by now: measured by its own schedule, so that a list that is read once an hour, or on
// weekdays only, is not called stale between two readings.

import { CronExpressionParser } from 'cron-parser'
import type { Schedule } from '../variable-schemas.ts'

/** The reading that was due this long ago must be in the mirror. */
export function isStale(schedule: Schedule, staleAfterMs: number, completeAt: Date, now: Date): boolean {
  const graceEndsMs = now.getTime() - staleAfterMs
  const dueMs =
    'everyMs' in schedule ? graceEndsMs - schedule.everyMs : lastBefore(schedule.cron, new Date(graceEndsMs))
  return completeAt.getTime() < dueMs
}

const lastBefore = (cron: string, moment: Date): number =>
  CronExpressionParser.parse(cron, { currentDate: moment }).prev().getTime()
