// What a verb of the program is. Each file in src/commands/ defines one; src/main.ts lists them.

import type { Logger } from '../log.ts'

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
  /** What follows `tidemark <name>`, e.g. `[stream…] [--lane trailing]`. */
  readonly usage: string
  readonly options: Readonly<Record<string, Option>>
  readonly examples: readonly string[]
  run(call: Call): Promise<ExitCode>
}
