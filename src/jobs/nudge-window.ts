// Turns any number of announcements into few nudges: the first at once, then at most one in a window, and always one after the
// last announcement.

import type { Logger } from '../log.ts'

export type NudgeWindow = {
  announce(): void
  close(): void
}

type Options = {
  readonly windowMs: number
  readonly nudge: () => Promise<void>
  readonly log: Logger
}

export function openNudgeWindow({ windowMs, nudge, log }: Options): NudgeWindow {
  let isAnnounced = false
  let isClosed = false
  let timer: NodeJS.Timeout | null = null
  let isUnderWay = false

  async function tell(): Promise<void> {
    isAnnounced = false
    isUnderWay = true
    try {
      await nudge()
    } catch (error) {
      isAnnounced = true
      log.debug({ err: error }, 'a webhook could not be passed on yet')
    }
    isUnderWay = false
    if (!isClosed) timer = setTimeout(next, windowMs)
  }

  function next(): void {
    timer = null
    if (isAnnounced) void tell()
  }

  return {
    announce() {
      isAnnounced = true
      if (timer === null && !isUnderWay && !isClosed) void tell()
    },
    close() {
      isClosed = true
      if (timer) clearTimeout(timer)
    },
  }
}
