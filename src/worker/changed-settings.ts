// What may change while the worker runs: secrets in files, settings in Postgres and what is asked for there, the dictionary. One timer
// looks at all of them.

import { watchAuthorities } from '../config/authorities.ts'
import type { Config } from '../config/load.ts'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { type AlertSetting, readAlertSettings } from '../store/book/alert-settings.ts'
import { forgetProblem, noteProblem } from '../store/book/problems.ts'

/** Changes are promised to be taken up within five seconds. */
const lookEveryMs = 4_000

export type Looks = {
  add(what: string, look: () => Promise<void> | void): void
  /** Does not wait for the next time. */
  now(what: string): void
}

type Given = { readonly log: Logger; readonly signal: AbortSignal }

/** Go on by themselves until the signal. One that hangs, such as on Postgres, holds up no other. */
export function lookRegularly({ log, signal }: Given): Looks {
  const looks: { readonly what: string; readonly go: () => void }[] = []
  const timer = setInterval(() => {
    for (const { go } of looks) go()
  }, lookEveryMs).unref()
  signal.addEventListener('abort', () => clearInterval(timer))
  return {
    add(what, look) {
      let [isAtIt, isWanted] = [false, false]
      const go = async () => {
        isWanted = true
        if (isAtIt) return
        isAtIt = true
        while (isWanted) {
          isWanted = false
          try {
            await look()
          } catch (error) {
            log.debug({ err: error }, `could not look at ${what}`)
          }
        }
        isAtIt = false
      }
      looks.push({ what, go })
    },
    now(what) {
      for (const one of looks) if (one.what === what) one.go()
    },
  }
}

/** What stands in files is taken up when they change. */
export function keepFiles(looks: Looks, { secretFiles, extraCaFile }: Config, log: Logger): void {
  looks.add('secrets in files', () => secretFiles.look(log))
  looks.add('certificates of authorities', watchAuthorities(extraCaFile, log))
}

const theDictionary = 'the dictionary'

/** It says how long histories are kept, and HISTORY is a setting. */
export const lookAtDictionary = (looks: Looks): void => looks.now(theDictionary)

/**
 * Of all sources. A schedule that became shorter may ask for a run at once, and so does whoever asks for one at the terminal or resumes a
 * stream.
 */
export function keepOverrides(
  looks: Looks,
  { overrides }: Pick<SyncContext, 'overrides'>,
  { planNow, onTaken }: { readonly planNow: () => Promise<void>; readonly onTaken: (source: string) => void },
): void {
  /** Null: settings have changed since. */
  let planned: string | null = ''
  let isPlanning = false
  async function plan(asked: string): Promise<void> {
    const before = planned
    ;[planned, isPlanning] = [asked, true]
    await planNow().catch(() => {
      planned = planned === asked ? before : planned
    })
    isPlanning = false
  }
  looks.add('the settings in Postgres', async () => {
    const { overrides: stored, asked } = await overrides.read()
    const changed = overrides.takeUp(stored)
    for (const source of changed) onTaken(source)
    if (changed.length > 0) planned = null
    // While the queue does not answer, settings are taken up all the same, and nothing piles up behind it.
    if (asked !== planned && !isPlanning) void plan(asked)
  })
}

/** What was set up in the console holds here from now on. */
export async function takeUpAlerts(
  { keptAlerts }: Config,
  pool: Parameters<typeof readAlertSettings>[0],
): Promise<readonly AlertSetting[]> {
  const settings = await readAlertSettings(pool)
  keptAlerts.takeUp(settings.flatMap(({ key, value }) => (value === null ? [] : { key, value })))
  return settings
}

/** Of many mistakes the first ones are told. */
const mostTold = 5

export function keepDictionary(
  looks: Looks,
  { config, log }: { readonly config: Pick<Config, 'source' | 'dictionary'>; readonly log: Logger },
  context: Pick<SyncContext, 'database' | 'takeUpDictionary' | 'descriptions'>,
): void {
  const { source, dictionary } = config
  const { takeUpDictionary, descriptions } = context
  const { pool } = context.database
  const noticeKey = source === '' ? 'dictionary' : `dictionary:${source}`
  // Until it is told: Postgres may be away when the file changes.
  let untold: { readonly problem: string | null } | null = { problem: dictionary.problem() }
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
  looks.add(theDictionary, () =>
    look().catch((error) => {
      isNew = true
      untold ??= { problem: null }
      throw error
    }),
  )
}

const saidOf = (problem: string | null): string =>
  problem === null
    ? 'The dictionary changed, or how long histories are kept, and holds from now on.'
    : `The dictionary changed and has mistakes, so what it said before holds: ${problem.split('\n')[0]}`

function whatIsWrong(problem: string): string {
  const lines = problem.split('\n')
  const more = lines.length > mostTold ? `; and ${lines.length - mostTold} more` : ''
  return `The dictionary has mistakes, so what it said before holds: ${lines.slice(0, mostTold).join('; ')}${more}.`
}
