// What goes wrong during the soak, one thing after another, chosen by a seed. The first worker is never killed, so that its memory
// can be followed.

import { setTimeout as wait } from 'node:timers/promises'
import type { SoakWorker } from './workers.ts'
import type { World } from './worlds.ts'

type Things = {
  readonly workers: readonly SoakWorker[]
  readonly postgres: World
  readonly redis: (World & { flush(): Promise<void> }) | null
  readonly random: () => number
  readonly signal: AbortSignal
  readonly say: (what: string) => void
}

/** Longer than a worker's lock on its jobs. */
const frozenMs = 25_000
const longestPauseMs = 12_000

/** Ends after the signal, with everything up and running. Returns how often what happened. */
export async function makeFailure(things: Things): Promise<Readonly<Record<string, number>>> {
  const { workers, postgres, redis, random, signal, say } = things
  const counts: Record<string, number> = {}
  const pick = <Item>(items: readonly Item[]): Item | undefined => items[Math.floor(random() * items.length)]
  const pause = (ms: number) => wait(ms, undefined, { signal }).catch(() => {})
  const mortal = workers.slice(1)

  async function kill(): Promise<void> {
    const worker = pick(mortal)
    await worker?.kill()
    await pause(1_000 + random() * 2_000)
    worker?.start()
  }
  async function freeze(): Promise<void> {
    const worker = pick(workers)
    worker?.freeze()
    await pause(frozenMs)
    worker?.thaw()
  }
  const breaker: readonly (readonly [string, number, () => Promise<void>])[] = [
    ['kill', 5, kill],
    ['freeze', 2, freeze],
    ['postgres', 1, () => postgres.cut(500 + random() * 4_000)],
    ...(redis
      ? ([
          ['redis', 1, () => redis.cut(500 + random() * 4_000)],
          ['flush', 1, () => redis.flush()],
        ] as const)
      : []),
  ]
  const lots = breaker.flatMap(([name, weight, happen]) =>
    Array.from({ length: weight }, () => ({ name, happen })),
  )

  // Each happens once, however short the soak is.
  const first = breaker.map(([name, , happen]) => ({ name, happen }))
  while (!signal.aborted) {
    await pause(2_000 + random() * longestPauseMs)
    const next = first.shift() ?? pick(lots)
    if (signal.aborted || !next) break
    say(next.name)
    await next.happen()
    counts[next.name] = (counts[next.name] ?? 0) + 1
  }
  return counts
}
