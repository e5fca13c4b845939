// The records that are there at the start. A quarter of them was changed later than all the others, so ids and row
// versions do not rise together, and versions have gaps.

import { hash, seededRandom, shuffle } from './random.ts'
import type { ResourceName } from './resources.ts'
import { emptyRow, epochMs, type Row, type Versions } from './row.ts'
import type { Tables } from './writes.ts'

const yearMs = 31_536_000_000

export function loadInitialData(
  { tables, versions, seed }: { readonly tables: Tables; readonly versions: Versions; readonly seed: number },
  counts: Partial<Record<ResourceName, number>>,
): void {
  const names = Object.keys(counts) as ResourceName[]
  const written = names.map((name) => firstRows(counts[name] ?? 0, versions))
  names.forEach((name, index) => {
    const rows = written[index] ?? []
    tables[name].load(laterChanges(rows, versions, seed))
  })
}

function firstRows(count: number, versions: Versions): Row[] {
  const stepMs = Math.floor(yearMs / (count + 1))
  return Array.from({ length: count }, (_, index) => {
    const timeMs = epochMs + index * stepMs
    return { ...emptyRow, id: index + 1, version: versions.next(), createdAtMs: timeMs, changedAtMs: timeMs }
  })
}

function laterChanges(rows: Row[], versions: Versions, seed: number): Row[] {
  const chosen = rows.filter((row) => hash(seed, row.id, 7) % 4 === 0)
  for (const row of shuffle(chosen, seededRandom(seed)))
    rows[row.id - 1] = {
      ...row,
      version: versions.next(),
      revision: 1,
      changedAtMs: epochMs + yearMs + (hash(seed, row.id, 8) % yearMs) / 8,
    }
  return rows
}
