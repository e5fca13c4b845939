// A static upstream that sorts and pages, whose answers come after a delay on a clock of its own: nobody waits, and how busy readers were is
// known exactly.

import type { Answer, ChangesRequest, Source } from '../../src/sync/ports/source.ts'
import { type Random, seededRandom } from './random.ts'

/** How versions lie: how far each is from the one before. */
export const spacings = {
  'side by side': () => 1,
  'far apart': (_, random) => 1 + random.integer(2_000),
  'growing from four digits to seven': (version, random) => (version === 1 ? 1_000 : 1 + random.integer(300)),
  'ever farther apart': (version, random) => 1 + random.integer(1 + Math.floor(version / 5_000)),
  'ever closer': (version, random) => 1 + random.integer(Math.max(1, 4_000 - Math.floor(version / 2_500))),
  'in heaps': (_, random) => (random.chance(0.0005) ? 1_000_000 : 1),
  'a few of a bulk update together': (_, random) => (random.chance(0.3) ? 0 : 1 + random.integer(20)),
} as const satisfies Record<string, (version: number, random: Random) => number>
export type Spacing = keyof typeof spacings

type Asked = ChangesRequest & { readonly from: number; to: number; received: number }

export function virtualUpstream(records: number, spacing: Spacing, answerMs = 300) {
  const random = seededRandom(records)
  const step: (version: number, random: Random) => number = spacings[spacing]
  const versions: number[] = []
  for (let version = 1; versions.length < records; versions.push(version)) version += step(version, random)
  // Keys are in another order than versions.
  const keyOf = (rank: number) => 1 + ((rank * 7_919) % records)
  const recordAt = (rank: number) => ({ Id: keyOf(rank), RowVersion: versions[rank] ?? 0, SysDeleted: false })
  const asked: Asked[] = []
  let now = 0
  let waiting: { readonly at: number; answer(): void }[] = []
  let turns = 0
  let isRunning = false

  /** When nobody has anything else to do, the next answer comes. */
  function run(before: number): void {
    turns = asked.length > before ? 0 : turns + 1
    if (turns < 8) return void setImmediate(run, asked.length)
    const next = Math.min(...waiting.map(({ at }) => at))
    const due = waiting.filter(({ at }) => at <= next)
    now = next
    waiting = waiting.filter(({ at }) => at > next)
    for (const { answer } of due) answer()
    turns = 0
    isRunning = waiting.length > 0
    if (isRunning) setImmediate(run, asked.length)
  }

  function serve({ since, page, pageSize, sorts }: ChangesRequest): Answer {
    const least = firstAbove(versions, Number(since))
    const first = (page - 1) * pageSize
    const count = Math.max(0, Math.min(pageSize, records - least - first))
    const rankOf = (index: number) =>
      sorts === 'descending' ? records - 1 - first - index : least + first + index
    return { records: Array.from({ length: count }, (_, index) => recordAt(rankOf(index))), bytes: 1_000 }
  }

  const source: Source = {
    sortedBy: () => source,
    changes(request, signal) {
      signal.throwIfAborted()
      const one: Asked = { ...request, from: now, to: Number.POSITIVE_INFINITY, received: 0 }
      asked.push(one)
      // Not all take as long: otherwise readers would go in step.
      const at = now + answerMs * (0.9 + random.integer(200) / 1_000)
      return new Promise((resolve) => {
        const answer = () => {
          const page = serve(request)
          one.to = now
          one.received = page.records.length
          resolve(page)
        }
        waiting.push({ at, answer })
        if (!isRunning) setImmediate(run, asked.length)
        isRunning = true
      })
    },
    list: async () => ({ records: [], bytes: 0 }),
    listHasPages: false,
    lookup: null,
  }
  return { source, asked, answerMs, now: () => now }
}

function firstAbove(versions: readonly number[], since: number): number {
  let [low, high] = [0, versions.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((versions[middle] ?? 0) > since) high = middle
    else low = middle + 1
  }
  return low
}
