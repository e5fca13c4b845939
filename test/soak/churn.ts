// Changes at the source, a number a second, that can be ended: new records, changed ones, and ones that are marked deleted.

import type { Simulator } from '../../src/simulator/simulator.ts'
import { isWitness } from './beliefs.ts'

const tickMs = 100

export function startChurn(
  { source }: Simulator,
  { changesPerSecond, random }: { readonly changesPerSecond: number; readonly random: () => number },
): { stop(): number } {
  let made = 0
  const startedMs = performance.now()

  function changeSomething(): void {
    const resource = random() < 0.7 ? 'assignment' : 'assignment_note'
    const chance = random()
    if (chance < 0.1) source.insert(resource)
    else {
      const ids = source.ids(resource)
      const id = ids[Math.floor(random() * ids.length)]
      if (id === undefined || isWitness(id)) return
      if (chance < 0.15) source.remove(resource, id, 'soft')
      else source.change(resource, id)
    }
  }

  const timer = setInterval(() => {
    for (const due = ((performance.now() - startedMs) / 1000) * changesPerSecond; made < due; made++)
      changeSomething()
  }, tickMs)
  return {
    stop() {
      clearInterval(timer)
      return made
    },
  }
}
