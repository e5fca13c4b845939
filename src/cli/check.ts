// One line of `tidemark probe` and of `tidemark init`: what was checked, whether it is as it has to be, and what was seen.

import { messageOf } from '../util/errors.ts'
import { type ExitCode, exitCodes } from './exit.ts'

export type Check = {
  readonly name: string
  /** False: something has to be done, and `says` tells what. */
  readonly isFine: boolean
  /** It may be as it should be, and a person has to look. */
  readonly isWarning?: boolean
  /** It could not be found out, and nothing is wrong with that. */
  readonly isUntold?: boolean
  readonly says: string
  /** What there is to say of it besides, in the document. */
  readonly belief?: unknown
}

export const good = (name: string, says: string): Check => ({ name, isFine: true, says })
export const doubtful = (name: string, says: string): Check => ({ name, isFine: true, isWarning: true, says })
export const wrong = (name: string, why: unknown): Check => ({
  name,
  isFine: false,
  says: typeof why === 'string' ? why : messageOf(why),
})

export const areFine = (checks: readonly Check[]): boolean => checks.every(({ isFine }) => isFine)

export const markOfCheck = ({ isFine, isWarning = false, isUntold = false }: Check) =>
  !isFine ? 'bad' : isWarning ? 'warning' : isUntold ? 'idle' : 'good'

/** Exit codes by the first word of a check's name. All other checks are about the upstream. */
const codes: Readonly<Record<string, ExitCode>> = {
  configuration: exitCodes.usage,
  postgres: exitCodes.storage,
  source: exitCodes.usage,
  queue: exitCodes.storage,
  clock: exitCodes.failed,
}
export const exitCodeOfCheck = ({ name, isFine }: Check): ExitCode =>
  isFine ? exitCodes.done : (codes[name.split(' ')[0] ?? ''] ?? exitCodes.upstream)
