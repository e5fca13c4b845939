// When something goes wrong: the conditions of a fault and the schedule by which it strikes. How each looks on the wire
// is in fault-answers.ts.

import type { Incoming } from './answer.ts'
import { type Random, seededRandom } from './random.ts'
import type { Row } from './row.ts'

export const faultKinds = [
  'hang',
  'slow-drip',
  'reset',
  'truncated',
  'html',
  'content-type',
  'duplicate-page',
  'empty-page',
] as const

export type Fault = {
  /** An HTTP status from 400 to 599, or one of the other kinds. */
  readonly kind: number | (typeof faultKinds)[number]
  /** Part of the path, or a pattern for it. Without one the fault strikes everything but the sign-in. */
  readonly path?: string | RegExp
  readonly method?: string
  /** Only requests for this page. */
  readonly page?: number
  /** Only answers in which the record with this id would be. */
  readonly record?: number
  /** Only while this holds. */
  readonly while?: (request: Incoming) => boolean
  /** Of the requests that match, only this one, counted from 1. */
  readonly nth?: number
  /** Of the requests that match, each one whose number is a multiple of this. */
  readonly every?: number
  readonly probability?: number
  /** Strikes at most this often. */
  readonly times?: number
  readonly retryAfterSeconds?: number
  readonly retryAfterAs?: 'seconds' | 'date'
  /** Of a slow drip; 1,000 when absent. */
  readonly bytesPerSecond?: number
}

export type Faults = {
  /** Returns what takes the fault away again. */
  add(fault: Fault): () => void
  clear(): void
  /** How often faults struck since the start. */
  readonly struck: number
}
export type FaultSchedule = Faults & {
  /** The fault that strikes a request before it is worked on, if any. */
  strike(request: Incoming): Fault | null
  /** The fault that strikes because of a record in the answer, if any. */
  strikeRows(request: Incoming, rows: readonly Row[]): Fault | null
  readonly needsPreviousPage: boolean
}

type Planned = { readonly fault: Fault; matches: number; strikes: number; readonly random: Random }

export function scheduleFaults(seed: number): FaultSchedule {
  const planned = new Set<Planned>()
  let added = 0
  let struck = 0

  function strikeWhere(isMet: (fault: Fault) => boolean): Fault | null {
    for (const plan of planned) {
      if (!isMet(plan.fault) || !isDue(plan)) continue
      plan.strikes++
      struck++
      return plan.fault
    }
    return null
  }

  return {
    add(fault) {
      const plan = { fault, matches: 0, strikes: 0, random: seededRandom(seed + 977 * ++added) }
      planned.add(plan)
      return () => planned.delete(plan)
    },
    clear: () => planned.clear(),
    get struck() {
      return struck
    },
    get needsPreviousPage() {
      return planned.values().some(({ fault }) => fault.kind === 'duplicate-page')
    },
    strike: (request) => strikeWhere((fault) => fault.record === undefined && isAbout(fault, request)),
    strikeRows: (request, rows) =>
      strikeWhere(
        (fault) =>
          fault.record !== undefined &&
          isAbout(fault, request) &&
          rows.some((row) => row.id === fault.record),
      ),
  }
}

function isAbout(fault: Fault, request: Incoming): boolean {
  const { path, method, page } = fault
  if (path === undefined && request.service === 'auth') return false
  if (typeof path === 'string' && !request.path.toLowerCase().includes(path.toLowerCase())) return false
  if (path instanceof RegExp && !path.test(request.path)) return false
  if (method !== undefined && method.toUpperCase() !== request.method) return false
  if (page !== undefined && Number(request.query.get('page') ?? 1) !== page) return false
  return fault.while?.(request) ?? true
}

function isDue(plan: Planned): boolean {
  const { nth, every, probability, times } = plan.fault
  plan.matches++
  if (times !== undefined && plan.strikes >= times) return false
  if (nth !== undefined && plan.matches !== nth) return false
  if (every !== undefined && plan.matches % every !== 0) return false
  return probability === undefined || plan.random() < probability
}
