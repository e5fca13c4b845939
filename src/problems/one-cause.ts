// Many sources with one cause are one problem for people: of the same kind, in the same words but for names, numbers and times. Pure.

import { hash } from 'node:crypto'
import { environmentSource } from '../streams/names.ts'
import { type Problem, sourceOfProblem } from './stream-problems.ts'

/** From so many sources on; what two have may be chance. */
const manySources = 3

type Told = Pick<Problem, 'key' | 'stream' | 'what' | 'isLong'> & { readonly kind: string }

/** In the order of the first of each. */
export function byCause<One extends Told>(problems: readonly One[]): readonly (readonly One[])[] {
  const groups = Map.groupBy(problems, causeOf)
  return [...groups.values()].flatMap((group) =>
    areMany(sourcesOf(group)) ? [group] : group.map((one) => [one]),
  )
}

export const areMany = ({ length }: readonly string[]): boolean => length >= manySources

/** Their names, each once. */
export const sourcesOf = (group: readonly Pick<Told, 'key' | 'kind' | 'stream'>[]): readonly string[] => [
  ...new Set(group.map((one) => sourceOfProblem(one) || environmentSource)),
]

/** The same as long as sources have the same cause, however many. */
export const keyOfCause = (problem: Told): string =>
  `many_sources:${problem.kind}:${hash('sha256', causeOf(problem)).slice(0, 16)}`

const variable = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|\d[\d.,:TZ-]*/gi

function causeOf(problem: Told): string {
  const source = sourceOfProblem(problem)
  const words = (text: string) =>
    (source ? text.replaceAll(new RegExp(`\\b${source}\\b`, 'g'), environmentSource) : text).replaceAll(
      variable,
      '#',
    )
  return [problem.kind, problem.isLong === true, words(problem.what)].join('\n')
}

const mostNamed = 5

/** Which sources have it; null: it is not one of many. */
export function sharedBy(
  group: readonly Told[],
  { most = mostNamed, have = 'have' }: { readonly most?: number; readonly have?: 'have' | 'had' } = {},
): string | null {
  const names = sourcesOf(group)
  if (group.length === 1) return null
  const more = names.length - most
  return `${names.length} sources ${have} this problem: ${names.slice(0, most).join(', ')}${more > 0 ? ` and ${more} more` : ''}.`
}
