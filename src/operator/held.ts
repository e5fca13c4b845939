// Deletions that are held back until an operator believes them, as the mirror stored them.

export type Held = { readonly missing: number; readonly living: number; readonly seen: number }

/** Null when nothing is held. */
export function heldOf(stored: unknown): Held | null {
  if (typeof stored !== 'object' || stored === null) return null
  const { missing, living, seen } = stored as Partial<Record<keyof Held, unknown>>
  return { missing: Number(missing), living: Number(living), seen: Number(seen) }
}
