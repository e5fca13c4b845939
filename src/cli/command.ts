// What a verb of the program is. Each file of a verb defines one; `verbs.ts` lists them.

import { hostname, userInfo } from 'node:os'
import type { Logger } from '../log.ts'
import type { Catalogue } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import type { ExitCode } from './exit.ts'
import type { Environment, Output } from './output.ts'

export type Option = {
  readonly type: 'string' | 'boolean'
  readonly describe: string
  /** How the value is named in the help, e.g. `N` or `FILE`. */
  readonly value?: string
  readonly multiple?: boolean
}
export type Values = { readonly [option: string]: string | boolean | readonly string[] | undefined }

export type Call = {
  readonly positionals: readonly string[]
  readonly values: Values
  /** Aborted by the first SIGINT or SIGTERM: finish what is in hand and come back. */
  readonly signal: AbortSignal
  readonly log: Logger
  /** All that can be mirrored, with what was found out about it. */
  readonly catalogue: Catalogue
  /** The environment with `.env` laid under it. Only the configuration reads it. */
  readonly environment: Environment
  readonly stdout: Output
  readonly stderr: Output
  /** All that there are. */
  readonly commands: () => Promise<readonly Command[]>
}

export type Command = {
  readonly name: string
  readonly summary: string
  /** What follows `tidemark <name>`, e.g. `[stream…] [--kind lookback]`. */
  readonly usage: string
  readonly options: Readonly<Record<string, Option>>
  readonly examples: readonly string[]
  /** The verb ignores a demo that runs in the same directory. All others work on the demo's mirror if nothing else is configured. */
  readonly ignoresDemo?: boolean
  run(call: Call): Promise<ExitCode>
}

export const flag = (describe: string): Option => ({ type: 'boolean', describe })

/** An option with a value, which the help calls by this name. */
export const option = (value: string, describe: string, more: Pick<Option, 'multiple'> = {}): Option => ({
  ...{ type: 'string', value, describe },
  ...more,
})

/** The option that most verbs have. */
export const json: Option = flag('print one JSON document')

/** Who gives the order, for what is recorded with it. */
export const operator = (): string => `${osUser()}@${hostname()}`

export function osUser(): string {
  try {
    return userInfo().username
  } catch {
    // A container may run as a user that has no name.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}

/** The value of an option; null when it is not there or empty. */
export function textOf(values: Values, name: string): string | null {
  const value = values[name]
  return typeof value === 'string' ? value.trim() || null : null
}

/** One of the values that an option can have; null when it is not there. */
export function oneOf<Known extends string>(
  values: Values,
  name: string,
  known: readonly Known[],
): Known | null {
  const wanted = textOf(values, name)
  const found = known.find((one) => one === wanted) ?? null
  if (wanted === null || found !== null) return found
  throw new UsageError(`--${name} must be one of ${known.join(', ')}, not "${wanted}".`)
}

type Bounds = { readonly least: number; readonly most?: number }

/** Null when the option is not there. Takes only digits: JavaScript would also take `1e3` or a blank for a number. */
export function wholeNumber(
  values: Values,
  name: string,
  { least, most = Number.MAX_SAFE_INTEGER }: Bounds,
): number | null {
  const value = values[name]
  if (value === undefined) return null
  const number = Number(value)
  if (/^\d+$/.test(String(value)) && number >= least && number <= most) return number
  const upTo = most === Number.MAX_SAFE_INTEGER ? ` from ${least} on` : ` from ${least} to ${most}`
  throw new UsageError(`--${name} must be a whole number${upTo}, not "${value}".`)
}
