// Knows which parts of the worker answer, and tells when one stops and when it is back: one line each, not one a try.

import { setTimeout as wait } from 'node:timers/promises'
import { formatDuration } from '../duration.ts'
import type { Logger } from '../log.ts'

export type Part = {
  readonly name: string
  /** Rejects while the part does not answer. */
  readonly check: () => Promise<void>
  readonly onReturn?: () => void
}
export type PartState = { readonly isUp: boolean; readonly since: Date }
export type PartsWatch = {
  readonly states: () => Readonly<Record<string, PartState>>
  close(): void
}

const everyMs = 2_500
const patienceMs = 5_000

/** The parts answered a moment ago, when they were opened. */
export function watchParts(parts: readonly Part[], log: Logger): PartsWatch {
  const closing = new AbortController()
  const states = new Map(parts.map(({ name }) => [name, { isUp: true, since: new Date() }]))

  function seen(part: Part, isUp: boolean, error: unknown): void {
    const before = states.get(part.name)
    if (closing.signal.aborted || before?.isUp === isUp) return
    const since = new Date()
    states.set(part.name, { isUp, since })
    const lastedMs = since.getTime() - (before?.since ?? since).getTime()
    if (!isUp) log.warn({ err: error }, `the ${part.name} does not answer: runs wait until it does`)
    else {
      log.info(`the ${part.name} answers again, after ${formatDuration(lastedMs)}`)
      part.onReturn?.()
    }
  }

  async function watch(part: Part): Promise<void> {
    while (!closing.signal.aborted) {
      const answer = part.check().then(
        () => seen(part, true, null),
        (error) => seen(part, false, error),
      )
      // A check that hangs is not started again, so that nothing piles up behind it.
      const silence = new AbortController()
      const tooLong = wait(patienceMs, 'too long', { signal: silence.signal, ref: false }).catch(() => null)
      if ((await Promise.race([answer, tooLong])) === 'too long')
        seen(part, false, new Error(`no answer within ${patienceMs} ms`))
      await answer
      silence.abort()
      await wait(everyMs, undefined, { signal: closing.signal, ref: false }).catch(() => null)
    }
  }
  for (const part of parts) void watch(part)

  return { states: () => Object.fromEntries(states), close: () => closing.abort() }
}
