// How far back the trailing lane reads, and how late a version was that it found: twice the worst lateness seen, shrinking
// slowly, never below its floor. Pure.

import { formatDuration } from '../duration.ts'
import type { LateArrival } from './ports.ts'

export type LookBack = { readonly lookbackMs: number; readonly reason: string }

const growth = 2
const shrinkPerRun = 0.98

export function currentLookBack(stored: number | null, floorMs: number): number {
  return Math.max(floorMs, stored ?? floorMs)
}

/** Null when what is stored stays right. */
export function nextLookBack(
  stored: number | null,
  floorMs: number,
  late: readonly LateArrival[],
): LookBack | null {
  const currentMs = currentLookBack(stored, floorMs)
  const worst = late.toSorted((a, b) => b.lateMs - a.lateMs)[0]
  if (worst && growth * worst.lateMs > currentMs)
    return {
      lookbackMs: Math.ceil(growth * worst.lateMs),
      reason: `twice the ${formatDuration(worst.lateMs)} that version ${worst.version} came late`,
    }
  const lookbackMs = worst ? currentMs : Math.max(floorMs, Math.floor(currentMs * shrinkPerRun))
  if (lookbackMs === stored) return null
  return {
    lookbackMs,
    reason: lookbackMs === floorMs ? 'the configured least' : 'shrinking: nothing came that late again',
  }
}

/**
 * Where the recent past begins. A version is found when it is late by no more than half a look-back, also when the reading
 * before this one was long ago: what was hidden then may have come at any time since.
 */
export function recentPast(now: Date, lookbackMs: number, lastReadAt: Date | null): Date {
  const asEver = now.getTime() - lookbackMs
  return new Date(lastReadAt ? Math.min(asEver, lastReadAt.getTime() - lookbackMs / 2) : asEver)
}

/**
 * How late a version came that was passed at one time and found now. It came between two readings, so the middle between them
 * is taken: if it were the later one, each look-back would make the next one longer.
 */
export function latenessMs(passedAt: Date, now: Date, lastReadAt: Date | null): number {
  const latest = now.getTime()
  const earliest = lastReadAt ? Math.max(passedAt.getTime(), lastReadAt.getTime()) : latest
  return Math.max(0, (earliest + latest) / 2 - passedAt.getTime())
}

/** The trailing lane is due every half look-back. */
export const trailingIntervalMs = (lookbackMs: number): number => lookbackMs / 2
