// What a verb of the program is. Each file in src/commands/ defines one; src/main.ts lists them.

import { hostname, userInfo } from 'node:os'
import type { Logger } from '../log.ts'
import { UsageError } from '../util/errors.ts'
import { visible } from '../util/text.ts'

export type Option = {
  readonly type: 'string' | 'boolean'
  readonly describe: string
  /** How the value is named in the help, e.g. `N` or `FILE`. */
  readonly value?: string
  readonly multiple?: boolean
  readonly short?: string
}
export type Values = { readonly [option: string]: string | boolean | readonly string[] | undefined }

export type Call = {
  readonly positionals: readonly string[]
  readonly values: Values
  /** Aborted by the first SIGINT or SIGTERM: finish what is in hand and come back. */
  readonly signal: AbortSignal
  readonly log: Logger
  /** The environment with `.env` laid under it. Only config.ts reads it. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly stdout: NodeJS.WriteStream
}

export const exitCodes = { done: 0, failed: 1, usage: 2 } as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

export type Command = {
  readonly name: string
  readonly summary: string
  /** What follows `tidemark <name>`, e.g. `[stream…] [--kind lookback]`. */
  readonly usage: string
  readonly options: Readonly<Record<string, Option>>
  readonly examples: readonly string[]
  run(call: Call): Promise<ExitCode>
}

// Who gives the order, for what is recorded with it.
export function operator(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container may run as a user that has no name.
    return `user ${process.getuid?.() ?? 'unknown'}@${hostname()}`
  }
}

// Rows as aligned columns for a terminal, whatever the cells hold.
export function alignedTable(header: readonly string[], given: readonly (readonly string[])[]): string {
  const rows = given.map((cells) => cells.map((cell) => visible(cell).replaceAll(/\s+/g, ' ')))
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  )
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [header, ...rows].map((row) => `${line(row)}\n`).join('')
}

// An option that is a whole number. Digits alone: what else the language takes for a number, nobody means.
type Bounds = { readonly least: number; readonly most?: number }

/** Null when the option is not there. */
export function wholeNumber(
  values: Values,
  name: string,
  { least, most = Number.MAX_SAFE_INTEGER }: Bounds,
): number | null {
  const value = values[name]
  if (value === undefined) return null
  const number = Number(value)
  if (/^\d+$/.test(String(value)) && number >= least && number <= most) return number
  const upTo = most === Number.MAX_SAFE_INTEGER ? '' : ` to ${most}`
  throw new UsageError(`--${name} ${value}: write a whole number from ${least}${upTo}`)
}
