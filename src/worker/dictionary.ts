// Takes up the dictionary while the worker runs: looks at the file every few seconds, and shows what it says, or what is wrong with it.

import type { Config } from '../config/load.ts'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { forgetProblem, noteProblem } from '../store/book/problems.ts'

const lookEveryMs = 3_000
const noticeKey = 'dictionary'
/** Of many mistakes the first ones are told. */
const mostTold = 5

/** Goes on by itself until the signal. */
export function keepDictionary(
  {
    config: { dictionary },
    log,
    signal,
  }: { readonly config: Pick<Config, 'dictionary'>; readonly log: Logger; readonly signal: AbortSignal },
  {
    database: { pool },
    takeUpDictionary,
    descriptions,
  }: Pick<SyncContext, 'database' | 'takeUpDictionary' | 'descriptions'>,
): void {
  // Until it is told: Postgres may be away when the file changes.
  let untold: { readonly problem: string | null } | null = { problem: null }
  let isNew = false
  const look = async () => {
    const seen = dictionary.look()
    untold = seen ?? untold
    isNew ||= seen?.problem === null
    if (untold === null) return
    if (isNew) {
      await takeUpDictionary()
      await descriptions.noteReferences()
    }
    isNew = false
    const { problem } = untold
    untold = null
    if (problem === null) await forgetProblem(pool, noticeKey)
    else await noteProblem(pool, { key: noticeKey, what: whatIsWrong(problem) })
    if (seen) log[problem === null ? 'info' : 'warn']({ file: dictionary.file }, saidOf(problem))
  }
  const next = () =>
    setTimeout(() => {
      void look()
        .catch((error) => {
          log.debug({ err: error }, 'the dictionary could not be taken up')
          isNew = true
          untold ??= { problem: null }
        })
        .finally(() => signal.aborted || next())
    }, lookEveryMs).unref()
  const timer = next()
  signal.addEventListener('abort', () => clearTimeout(timer))
}

const saidOf = (problem: string | null): string =>
  problem === null
    ? 'The dictionary changed, and holds from now on.'
    : `The dictionary changed and has mistakes, so what it said before holds: ${problem.split('\n')[0]}`

function whatIsWrong(problem: string): string {
  const lines = problem.split('\n')
  const more = lines.length > mostTold ? `; and ${lines.length - mostTold} more` : ''
  return `The dictionary has mistakes, so what it said before holds: ${lines.slice(0, mostTold).join('; ')}${more}.`
}
