// Whether a stream should have been read by now: measured by its own schedule, so that a list that is read once an hour, or on
// weekdays only, is not called stale between two readings.

import type { Schedule } from '../variable-schemas.ts'
import { lastSlot } from './slots.ts'

/** The reading that was due this long ago must be in the mirror. */
export const isStale = (schedule: Schedule, staleAfterMs: number, completeAt: Date, now: Date): boolean =>
  completeAt < lastSlot(schedule, new Date(now.getTime() - staleAfterMs))
