// How streams were, minute by minute, as few lines as tell it: a state that lasts is one line for five minutes, and a line for each minute
// tells all others. Pure: what was seen in, what is to be noted out.

import type { Ages, MinuteState, StateMinutes } from '../store/book/watch.ts'

type Seen = Ages & { readonly stream: string; readonly state: MinuteState }
export type StreamMinutes = {
  /** Returns what is to be noted now. */
  saw(seen: readonly Seen[], now: Date): readonly StateMinutes[]
  /** Nobody looks any more: returns what is not noted yet. */
  end(now: Date): readonly StateMinutes[]
}

const minuteMs = 60_000
/** As long as the buckets of the charts. */
const spanMs = 5 * minuteMs
const lasting: readonly MinuteState[] = ['up to date', 'paused']

export function openStreamMinutes(): StreamMinutes {
  const open = new Map<string, StateMinutes>()
  const lastNoted = new Map<string, MinuteState>()
  const close = (stream: string, upToMs: number): readonly StateMinutes[] => {
    const span = open.get(stream)
    open.delete(stream)
    if (!span) return []
    const fromMs = span.at.getTime()
    const untilMs = Math.min(endOf(span), Math.max(fromMs + minuteMs, floor(upToMs, minuteMs)))
    return [{ ...span, minutes: (untilMs - fromMs) / minuteMs }]
  }
  const look = (seen: Seen, nowMs: number): readonly StateMinutes[] => {
    const span = open.get(seen.stream)
    const isOver = span && (span.state !== seen.state || nowMs >= endOf(span))
    const closed = isOver ? close(seen.stream, nowMs) : []
    const minute = { ...seen, at: new Date(floor(nowMs, minuteMs)), minutes: 1 }
    const current = open.get(seen.stream)
    // Until its line is there, whoever reads takes the state of the line before.
    const mayLast = lasting.includes(seen.state) && lastNoted.get(seen.stream) === seen.state
    if (current) open.set(seen.stream, worse(current, seen))
    else if (mayLast && (span || nowMs % spanMs < minuteMs)) open.set(seen.stream, minute)
    else {
      lastNoted.set(seen.stream, seen.state)
      return [...closed, minute]
    }
    return closed
  }
  return {
    saw: (seen, now) => seen.flatMap((one) => look(one, now.getTime())),
    end: (now) => [...open.keys()].flatMap((stream) => close(stream, now.getTime() + minuteMs - 1)),
  }
}

const endOf = ({ at }: StateMinutes): number => floor(at.getTime(), spanMs) + spanMs

const floor = (ms: number, stepMs: number): number => Math.floor(ms / stepMs) * stepMs

const worse = (span: StateMinutes, seen: Ages): StateMinutes => ({
  ...span,
  readAge: oldest(span.readAge, seen.readAge),
  settledAge: oldest(span.settledAge, seen.settledAge),
  deletionsAge: oldest(span.deletionsAge, seen.deletionsAge),
})

const oldest = (one: number | null, other: number | null): number | null =>
  one === null || other === null ? (one ?? other) : Math.max(one, other)
