// Results as a table for people, with the machine they were measured on.

import { arch, cpus, platform } from 'node:os'

export type Result = {
  readonly what: string
  readonly rowsPerSecond?: number
  readonly megabytes?: number
  readonly ratio?: number
  /** What the ratio is to. */
  readonly to?: string
  /** At least this ratio; of memory at most this many megabytes. */
  readonly wanted?: number
}

export function table(results: readonly Result[]): string {
  const head = '| | rows/s | ratio | wanted |\n|---|---:|---:|---:|'
  return [head, ...results.map(line)].join('\n')
}

function line({ what, rowsPerSecond, megabytes, ratio, to, wanted }: Result): string {
  const value = megabytes === undefined ? thousands(rowsPerSecond ?? 0) : `${Math.round(megabytes)} MB`
  const beside = ratio === undefined ? '' : `${ratio.toFixed(2)} × ${to}`
  const goal = wanted === undefined ? '' : megabytes === undefined ? `≥ ${wanted}` : `< ${wanted} MB`
  return `| ${what} | ${value} | ${beside} | ${goal} |`
}

const thousands = (rows: number): string => (Math.round(rows / 100) * 100).toLocaleString('en')

export function machine(postgresVersion: string): string {
  const [cpu] = cpus()
  return `${cpu?.model.trim() ?? 'unknown processor'}, ${cpus().length} cores, ${platform()} ${arch()}, Node ${process.versions.node}, Postgres ${postgresVersion} with its own settings on the same machine.`
}
