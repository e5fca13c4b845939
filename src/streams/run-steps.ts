// What a run did, step by step: how long each step took, what it asked for, and what it waited for. Pure: time is given, in
// milliseconds since the run began. Kept with the run's line in the ledger, so it is bounded (P10).

import { plural } from '../util/text.ts'

export type RunStep = {
  readonly what: string
  readonly from: number
  readonly to: number
  readonly requests: number
  readonly records: number
  readonly waitedMs: number
  /** The first times that it waited. */
  readonly waits: readonly StepWait[]
}
export type StepWait = { readonly from: number; readonly to: number; readonly what: string }

/** The last step of a run that leaves deletions to a person. */
export const blockStep = 'Block deletions: too many are missing'

/** The rows are proven gone, and nothing more is asked for. */
export const markStep = (rows: number): string => `Mark ${plural(rows, 'row')} as deleted`
/** In the middle of a sentence; null: the step is another one. */
export const markingInWords = (what: string): string | null =>
  /^Mark .* as deleted$/.test(what) ? what.replace('Mark', 'marking') : null

type Writable<Read> = { -readonly [Name in keyof Read]: Read[Name] }
type Step = Writable<Omit<RunStep, 'waits'>> & { readonly waits: Writable<StepWait>[] }

const mostSteps = 24
const mostWaits = 8
/** Looks that are further apart than this count as two waits. */
const sameWaitMs = 2_500

export function openSteps() {
  const steps: Step[] = []
  let lookedMs = 0
  /** From here on the run does this; when it does so already, it goes on. */
  function begin(what: string, atMs: number): Step {
    const last = steps.at(-1)
    if (last?.what === what || (last && steps.length > mostSteps)) return last
    if (last) last.to = atMs
    const words = steps.length === mostSteps ? 'Further steps' : what
    const step: Step = { what: words, from: atMs, to: atMs, requests: 0, records: 0, waitedMs: 0, waits: [] }
    steps.push(step)
    return step
  }
  const current = (atMs: number): Step => steps.at(-1) ?? begin('Ask the upstream', atMs)
  return {
    begin,
    /** What was asked for, and came. */
    add({ requests, records }: Pick<RunStep, 'requests' | 'records'>, atMs: number) {
      const step = current(atMs)
      step.requests += requests
      step.records += records
    },
    /** Told now and then: what the run waits for; null: nothing. */
    look(waitsFor: string | null, atMs: number) {
      const sinceMs = Math.max(lookedMs, steps.at(-1)?.from ?? 0)
      lookedMs = atMs
      if (waitsFor === null) return
      const step = current(atMs)
      step.waitedMs += atMs - sinceMs
      const last = step.waits.at(-1)
      if (last?.what === waitsFor && atMs - last.to <= sameWaitMs) last.to = atMs
      else if (step.waits.length < mostWaits) step.waits.push({ from: sinceMs, to: atMs, what: waitsFor })
    },
    told: (atMs: number): readonly RunStep[] =>
      steps.map((step, index) => (index === steps.length - 1 ? { ...step, to: atMs } : step)),
  }
}
