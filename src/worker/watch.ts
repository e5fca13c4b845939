// Notes what people watch: that this worker is there and what it does, how each stream stands minute by minute, and what requests came to.
// Says in the log how far long readings have come. What fails here is tried again the next time, and stops nothing else.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { isNews, type Problem } from '../problems/stream-problems.ts'
import { minuteStateOf, stateOfStream } from '../problems/stream-state.ts'
import { forgetOldProblems, noteProblems } from '../store/admin/problem-history.ts'
import {
  forgetWorker,
  noteRequests,
  noteStates,
  noteWorker,
  type SeenState,
  thinMinutes,
  type WorkerLine,
} from '../store/admin/watch.ts'
import { readProgress } from '../store/queries/progress.ts'
import { readStandings } from '../store/queries/watch.ts'
import {
  estimate,
  outlookInWords,
  percent,
  type ReadingProgress,
  rowsInWords,
} from '../streams/load-progress.ts'
import { count } from '../util/text.ts'
import type { RequestMinutes } from './request-minutes.ts'

type Options = {
  readonly context: Pick<SyncContext, 'database' | 'streams'>
  readonly problems: () => Promise<readonly Problem[]>
  readonly running: () => WorkerLine['runs']
  readonly waits: () => WorkerLine['waits']
  readonly requests: Pick<RequestMinutes, 'take'>
  readonly signal: AbortSignal
  readonly log: Logger
}
export type Watch = {
  /** Takes this worker's line away. */
  stop(): Promise<void>
}

const everyMs = { worker: 10_000, states: 15_000, requests: 15_000, log: 30_000, thin: 3_600_000 }

export function startWatch(options: Options): Watch {
  const { context, requests, signal, log } = options
  const { pool } = context.database
  const worker = workerLine()
  const noteAll = async () => {
    const minutes = requests.take()
    if (minutes.length > 0) await noteRequests(pool, worker.id, minutes)
  }
  const regularly = (ms: number, what: string, work: () => Promise<void>) => {
    let isAtIt = false
    const once = async () => {
      if (isAtIt || signal.aborted) return
      isAtIt = true
      await work().catch((error) => log.debug({ err: error }, `could not note ${what}`))
      isAtIt = false
    }
    void once()
    return setInterval(once, ms).unref()
  }
  const timers = [
    regularly(everyMs.worker, 'what this worker does', () =>
      noteWorker(pool, { ...worker, runs: options.running(), waits: options.waits() }),
    ),
    regularly(everyMs.states, 'how the streams are', async () => {
      const found = await options.problems()
      await noteStates(pool, await statesOf(options, found))
      await noteProblems(
        pool,
        found.filter(({ kind }) => !isNews(kind)),
      )
    }),
    regularly(everyMs.requests, 'what was asked', noteAll),
    regularly(everyMs.thin, 'what is old', async () => {
      await thinMinutes(pool)
      await forgetOldProblems(pool)
    }),
    regularly(everyMs.log, 'how far readings are', () => logProgress(options)),
  ]
  return {
    async stop() {
      timers.forEach(clearInterval)
      await noteAll()
      await forgetWorker(pool, worker.id)
    },
  }
}

function workerLine(): Pick<WorkerLine, 'id' | 'host' | 'pid' | 'version' | 'startedAt'> {
  const { version }: { version: string } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  const [host, pid] = [hostname(), process.pid]
  const id = `${host}-${pid}-${randomBytes(4).toString('hex')}`
  return { id, host, pid, version, startedAt: new Date() }
}

async function statesOf(
  { context }: Options,
  found: readonly Problem[],
): Promise<ReadonlyMap<string, SeenState>> {
  const { database, streams } = context
  const names = streams.map(({ name }) => name)
  const standings = await readStandings(database.pool, names)
  return new Map(
    standings.map((one) => {
      const service = streams.find(({ name }) => name === one.stream)?.service ?? 'assignment'
      const { tone, state, reason } = stateOfStream(one, service, found)
      return [one.stream, { inMinute: minuteStateOf({ tone }), state, reason }]
    }),
  )
}

/** Logs how far long readings of this worker have come, and which first loads stand still, whichever worker does them. */
async function logProgress({ context, running, log }: Options): Promise<void> {
  const { database, streams } = context
  const now = new Date()
  const found = await readProgress(
    database.pool,
    streams.map(({ name }) => name),
  )
  for (const progress of found) {
    const isOwn = running().some(({ stream }) => stream === progress.stream)
    const isLong = now.getTime() - progress.beganAt.getTime() >= everyMs.log / 2
    const seen = estimate(progress, now)
    if ((!isOwn || !isLong) && !seen.stalled) continue
    const { stream, reading, rows, total } = progress
    log[seen.stalled ? 'warn' : 'info'](
      { stream, reading, rows, total, share: seen.share, rowsPerSecond: seen.rowsPerSecond, ...leftOf(seen) },
      lineOf(progress, now),
    )
  }
}

const leftOf = ({ left }: ReturnType<typeof estimate>) =>
  left && {
    secondsLeftAtLeast: Math.round(left.leastMs / 1000),
    secondsLeftAtMost: left.mostMs === null ? null : Math.round(left.mostMs / 1000),
  }

function lineOf(progress: ReadingProgress, now: Date): string {
  const seen = estimate(progress, now)
  const parts = [
    ...(seen.share === null ? [] : [`${percent(seen.share)} %`]),
    rowsInWords(progress),
    ...(seen.rowsPerSecond === null ? [] : [`${count(Math.round(seen.rowsPerSecond))} rows/s`]),
    outlookInWords(seen, now),
  ].filter((part) => part !== null)
  return `${progress.stream}: ${progress.reading} ${parts.join(', ')}`
}
