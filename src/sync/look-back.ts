// How far back the trailing lane reads: twice the worst lateness seen, shrinking slowly, never below its floor. Pure.

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

/** The trailing lane is due every half look-back. */
export const trailingIntervalMs = (lookbackMs: number): number => lookbackMs / 2
