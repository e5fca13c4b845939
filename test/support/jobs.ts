// The jobs of a worker for one test that runs beside others: in a queue and a database of its own, in both places that a queue can live in.

import { describe, type TestContext } from 'vitest'
import type { RunRequest } from '../../src/streams/catalog.ts'
import type { RunOutcome } from '../../src/sync/perform-run.ts'
import { backoff } from '../../src/util/backoff.ts'
import { type FailureScope, openCircuitBreaker } from '../../src/worker/queue/circuit-breaker.ts'
import type { OpenDriver } from '../../src/worker/queue/driver.ts'
import { type Jobs, type JobsOptions, startJobs } from '../../src/worker/queue/jobs.ts'
import { openRunQueue, type QueuedRun } from '../../src/worker/queue/requests.ts'
import { type RunHooks, type RunWorkerOptions, startRunWorker } from '../../src/worker/queue/run-worker.ts'
import { databaseOf, quietLog } from './database.ts'
import { plannedBy } from './planned.ts'
import { type Backend, flushQueue, hasBackend, openTestQueue } from './queues.ts'

export const nothing = {
  inserted: 0,
  updated: 0,
  unchanged: 0,
  rescued: 0,
  quarantined: 0,
  requests: 1,
  bytes: 0,
}
export const outcomeOf = ({ stream, kind }: RunRequest, more: Partial<RunOutcome> = {}): RunOutcome => ({
  ...{ stream, kind, status: 'done', runId: '1', note: null, error: null, tally: nothing },
  ...{ isComplete: true, yielded: false, ...more },
})
export const incremental = (stream: string, cause: RunRequest['cause'] = 'operator'): RunRequest => ({
  stream,
  kind: 'incremental',
  cause,
})
const failServiceScope: JobsOptions['failureScope'] = (error): FailureScope => ({
  ...{ scope: 'service', notBefore: null, policy: backoff.circuit, level: 'warn', message: 'down' },
  error: error instanceof Error ? error : null,
})

export type Run = (request: QueuedRun, hooks: RunHooks) => Promise<RunOutcome>

const neverPlanned = () => Promise.reject(new Error('there is no plan in this test'))

/** What is begun here ends with the test. */
async function openJobs(backend: Backend, test: TestContext) {
  const database = await databaseOf(test)
  const started = new Set<Jobs>()
  const openQueue = () => openTestQueue(backend, database)
  test.onTestFinished(async () => {
    await Promise.all([...started].map((jobs) => jobs.stop()))
    if (backend === 'postgres') return
    const queue = await openQueue()
    await flushQueue(queue, database)
    await queue.close()
  })
  return {
    openQueue,
    flush: (queue: OpenDriver) => flushQueue(queue, database),
    async start(run: Run, more: Partial<JobsOptions> = {}): Promise<Jobs> {
      const jobs = await startJobs({
        queue: await openQueue(),
        ...plannedBy([]),
        run,
        failureScope: failServiceScope,
        serviceOf: () => 'assignment',
        onOutcome: () => {},
        log: quietLog,
        ...more,
      })
      started.add(jobs)
      const stop = () => {
        started.delete(jobs)
        return jobs.stop()
      }
      return { ...jobs, stop }
    },
    /** What takes the runs alone, without plans. */
    async startRuns(
      more: (runs: ReturnType<typeof openRunQueue>) => Partial<RunWorkerOptions>,
      given?: OpenDriver,
    ) {
      const queue = given ?? (await openQueue())
      const runs = openRunQueue(queue.driver, () => {})
      const breaker = openCircuitBreaker({
        serviceOf: () => 'assignment',
        heldUntil: async () => null,
        requestRun: runs.requestRun,
        log: quietLog,
      })
      const worker = startRunWorker({
        ...{ name: 'polls', plan: neverPlanned, driver: queue.driver, queue: runs },
        ...{ breaker, runsAtOnce: 1, hostOf: (stream: string) => stream, log: quietLog },
        run: async (request) => outcomeOf(request),
        ...{ failureScope: () => null, onOutcome: () => {}, whatFollows: () => [], onError: () => {} },
        ...more(runs),
      })
      test.onTestFinished(async () => {
        breaker.close()
        await worker.close()
        await runs.close()
        await queue.close()
      })
      return { runs, worker }
    },
  }
}

/** Most of these tests wait, so they run side by side, in both backends. */
export const describeJobs = (
  what: string,
  tests: (openIn: (test: TestContext) => ReturnType<typeof openJobs>) => void,
): void => {
  for (const backend of ['postgres', 'redis'] as const)
    describe
      .skipIf(!hasBackend(backend))
      .concurrent(`${what} in ${backend}`, () => tests((test) => openJobs(backend, test)))
}
