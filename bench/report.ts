// Results as a table for people, with the machine they were measured on.

import { readFileSync, writeFileSync } from 'node:fs'
import { arch, cpus, loadavg, platform } from 'node:os'

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

/** Other work on the machine is part of the figures. */
export function loadOfMachine(rounds: number, butOne?: string): string {
  const [, , fifteenMinutes = 0] = loadavg()
  const of =
    rounds === 1 ? '' : `Each figure is the median of ${rounds} rounds${butOne ? ` (${butOne})` : ''}. `
  return `${of}Load of the machine in the 15 minutes before the end: ${fifteenMinutes.toFixed(1)} on ${cpus().length} cores, of which the bench itself is about 2.`
}

const page = new URL('../docs/how-it-works/performance.md', import.meta.url)

/** Between the marks of that name. */
export function writeBlock(name: string, text: string): void {
  const block = new RegExp(`(<!-- begin: ${name} -->\\n)[\\s\\S]*?(<!-- end: ${name} -->)`)
  const before = readFileSync(page, 'utf8')
  if (!block.test(before)) throw new Error(`performance.md has no place for ${name}`)
  writeFileSync(
    page,
    before.replace(block, (_all, begin: string, end: string) => `${begin}${text}\n${end}`),
  )
}
