// An option that is a whole number. Digits alone: what else the language takes for a number, nobody means.

import { UsageError } from '../usage-error.ts'
import type { Values } from './command.ts'

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
