// When the stand-in is asked for changes.

import type { Simulator } from '../../src/simulator/simulator.ts'

export const isForChanges = ({ path }: { readonly path: string }): boolean => path.includes('neworchanged')

/** Resolves when the changes have been asked for that often. */
export function untilAsked(simulator: Simulator, times: number): Promise<void> {
  return new Promise((resolve) => {
    let asked = 0
    const stop = simulator.onRequest((request) => {
      if (!isForChanges(request) || ++asked < times) return
      stop()
      resolve()
    })
  })
}
