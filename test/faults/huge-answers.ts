// The upstream answers with a body of a gigabyte, plain or compressed, or asks to be left alone for thirty years.

import type { Fault as Answered } from '../../src/simulator/faults.ts'
import { begunWell, type Fault, type Stage, type TriedWorker, tryFault } from './stage.ts'

async function tryAnswers(
  stage: Stage,
  fault: Answered,
  sentence: RegExp,
  atEnd: (worker: TriedWorker) => Promise<void> = async () => {},
): Promise<string> {
  const { url } = await stage.startPostgres()
  const worker = await stage.startWorker({ DATABASE_URL: url })
  await begunWell(stage, { worker, databaseUrl: url })
  const before = worker.memoryMb() ?? 0
  let most = before
  const watching = setInterval(() => {
    most = Math.max(most, worker.memoryMb() ?? 0)
  }, 100)
  stage.defer(async () => clearInterval(watching))
  const said = await tryFault(stage, {
    ...{ worker, databaseUrl: url, staysReady: true, sentence },
    begin: async () => stage.simulator.faults.add(fault),
    async end() {
      stage.simulator.faults.clear()
      await atEnd(worker)
    },
  })
  return `${said}; memory ${before.toFixed(0)} MB before, ${most.toFixed(0)} MB at most`
}

export const endlessBody: Fault = {
  name: 'the upstream answers with a gigabyte',
  needs: [],
  try: (stage) => tryAnswers(stage, { kind: 'endless', path: '/api/' }, /assignment/i),
}

export const gzipBomb: Fault = {
  name: 'the upstream answers with a gzip bomb',
  needs: [],
  try: (stage) => tryAnswers(stage, { kind: 'gzip-bomb', path: '/api/' }, /assignment/i),
}

/** An hour of it is believed; a worker that is started anew asks at once. */
async function startAnew(worker: TriedWorker): Promise<void> {
  await worker.kill()
  worker.start()
}

export const absurdRetryAfter: Fault = {
  name: 'the upstream asks for thirty years of rest (Retry-After)',
  needs: [],
  try: (stage) =>
    tryAnswers(
      stage,
      { kind: 503, retryAfterSeconds: 999_999_999, path: '/api/' },
      /asks to be left alone/,
      startAnew,
    ),
}
