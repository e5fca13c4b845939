// When the stand-in is asked for changes.

import type { Simulator } from '../../src/simulator/simulator.ts'

type Asked = { readonly path: string; readonly query: Readonly<Record<string, string>> }

/** Pages, and not the looks at single records further on that tell where parts of a load begin. */
export const isForChanges = ({ path, query }: Asked): boolean =>
  path.includes('neworchanged') && (query.PageSize !== '1' || query.Page === '1')

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
