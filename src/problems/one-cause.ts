// Many sources with one cause are one problem for people: of the same kind, in the same words but for names, numbers and times. Pure.

import { environmentSource } from '../streams/names.ts'
import { type Problem, sourceOfProblem } from './stream-problems.ts'

/** From so many sources on; what two have may be chance. */
const manySources = 3

type Told = Pick<Problem, 'key' | 'kind' | 'stream' | 'what' | 'isLong'>

/** In the order of the first of each. */
export function byCause<One extends Told>(problems: readonly One[]): readonly (readonly One[])[] {
  const groups = Map.groupBy(problems, causeOf)
  const isOne = (group: readonly One[]) => new Set(group.map(sourceOfProblem)).size >= manySources
  return [...groups.values()].flatMap((group) => (isOne(group) ? [group] : group.map((one) => [one])))
}

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
export function sharedBy(group: readonly Told[]): string | null {
  const names = [...new Set(group.map((one) => sourceOfProblem(one) || environmentSource))]
  if (group.length === 1) return null
  const more = names.length - mostNamed
  return `${names.length} sources have this problem: ${names.slice(0, mostNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}.`
}
