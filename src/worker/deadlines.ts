// What is ended together with the program, and must not keep it.

import type { Logger } from '../log.ts'
import { within } from '../within.ts'

/** A failure is told and goes no further. */
export async function ended(what: string, ms: number, work: PromiseLike<void>, log: Logger): Promise<void> {
  await within(ms, work).catch((error) => log.warn({ err: error }, `${what} did not end in time`))
}
