// The file .env, written for one user alone: what is set in it changes, and all else in it stays.

import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { asUnwritable } from '../util/files.ts'

/** Says why the file could not be written, before anybody answers questions for it. */
export const expectWritable = (file: string): void => rmSync(openDraft(file))

/** It gets its mode before anything is written to it (P9). */
function openDraft(file: string): string {
  const draft = `${file}.new`
  try {
    writeFileSync(draft, '', { mode: 0o600 })
    chmodSync(draft, 0o600)
  } catch (error) {
    throw asUnwritable(error, file)
  }
  return draft
}

/** An empty value switches its line off. */
export function writeDotEnv(file: string, values: Readonly<Record<string, string>>): void {
  const before = existsSync(file) ? readFileSync(file, 'utf8').replace(/^\ufeff/, '') : ''
  const draft = openDraft(file)
  try {
    writeFileSync(draft, withValues(before, values))
    renameSync(draft, file)
  } catch (error) {
    rmSync(draft)
    throw asUnwritable(error, file)
  }
}

export function withValues(before: string, values: Readonly<Record<string, string>>): string {
  const left = new Map(Object.entries(values))
  const lines = before === '' ? [] : before.replace(/\n$/, '').split('\n')
  const changed = lines.map((line) => {
    const [, name = ''] = /^\s*(?:export\s+)?([A-Z][A-Z0-9_]*)\s*=/.exec(line) ?? []
    const value = left.get(name)
    if (value === undefined) return line
    left.delete(name)
    return value === '' ? `# ${name}=` : `${name}=${quoted(value)}`
  })
  const added = [...left]
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name}=${quoted(value)}`)
  return `${[...changed, ...added].join('\n')}\n`
}

/**
 * In the form that node:util's parseEnv, a shell and compose read alike: as it is, or between single quotes. Where the value has one, between
 * the first quotes that it has none of, so that this program at least reads it: between double ones it takes `\n` for a line break.
 */
function quoted(value: string): string {
  if (/^[\w:/.@%+,?=-]*$/.test(value)) return value
  const quote = ["'", ...(value.includes('\\n') ? [] : ['"']), '`'].find((one) => !value.includes(one))
  return quote === undefined ? value : `${quote}${value}${quote}`
}
