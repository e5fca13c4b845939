// For whom work is done, wherever it is done: what asks the upstream is told apart by the run that wanted it, through all layers between.

import { AsyncLocalStorage } from 'node:async_hooks'

export type Behalf = { readonly stream: string; readonly kind: string }

const storage = new AsyncLocalStorage<Behalf>()

export const onBehalfOf = <Result>(behalf: Behalf, work: () => Result): Result => storage.run(behalf, work)

/** Undefined: of no run. */
export const behalfNow = (): Behalf | undefined => storage.getStore()
