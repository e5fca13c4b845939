// Deletions that are held back until an operator believes them, as they are stored with their stream. Older versions and people may
// have written them: what is no number or no time is not known, and held they are all the same.

export type Held = {
  readonly missing: number | null
  readonly living: number | null
  readonly seen: number | null
  readonly at: Date | null
}

/** Null when nothing is held. */
export function heldOf(stored: unknown): Held | null {
  if (stored === null || stored === undefined) return null
  const fields: Partial<Record<keyof Held, unknown>> = typeof stored === 'object' ? stored : {}
  return {
    missing: countOf(fields.missing),
    living: countOf(fields.living),
    seen: countOf(fields.seen),
    at: momentOf(fields.at),
  }
}

const countOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null

function momentOf(value: unknown): Date | null {
  const moment = new Date(typeof value === 'string' ? value : Number.NaN)
  return Number.isNaN(moment.getTime()) ? null : moment
}
