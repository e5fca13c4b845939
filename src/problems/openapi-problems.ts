// What needs a person, or is worth knowing, of what the upstream says about itself.

import { changeText } from '../openapi/changes.ts'
import type { ChangeLine, UnusableDescription } from '../openapi/stored.ts'
import type { StreamSymptoms } from '../store/book/symptoms.ts'
import { count, plural, sentence } from '../util/text.ts'
import { type Problem, problemOf } from './stream-problems.ts'
import { groupedDrift } from './upstream-changes.ts'

export type DescriptionSymptoms = {
  readonly changes: readonly ChangeLine[]
  readonly unusable: readonly UnusableDescription[]
}

const longestList = 8

export const descriptionProblems = ({ changes, unusable }: DescriptionSymptoms): readonly Problem[] => [
  ...unusable.map(unusableProblem),
  ...changedProblems(changes),
]

const unusableProblem = ({ service, problem, since }: UnusableDescription): Problem =>
  problemOf('contract_unusable', null, service, {
    since,
    what: `The description (OpenAPI) of the ${service} service cannot be used: ${sentence(problem)} Rows are read as usual, and column types come from the data.`,
    whatToDo:
      'Set CONTRACT to the address of the description, or to `off`. `tidemark probe` shows what was found.',
  })

/** All changes that one look found are one problem. Changes of what is neither mirrored nor an operation show only in the history. */
function changedProblems(changes: readonly ChangeLine[]): readonly Problem[] {
  const groups = new Map<string, ChangeLine[]>()
  for (const change of changes) {
    if (change.stream === null && !/^[A-Z]+ \//.test(change.subject)) continue
    const key = `${change.service}:${change.foundAt.toISOString()}`
    groups.set(key, [...(groups.get(key) ?? []), change])
  }
  return [...groups].flatMap(([key, group]): Problem[] => {
    const [first] = group
    if (!first) return []
    const named = group.slice(0, longestList).map(changeText)
    const more = group.length > longestList ? ` and ${count(group.length - longestList)} more` : ''
    return [
      problemOf('contract_changed', null, key, {
        since: first.foundAt,
        what: `The ${first.service} service changed its description (OpenAPI), ${plural(group.length, 'change')}: ${named.join('; ')}${more}.`,
        whatToDo: 'Check whether your reports or programs use what changed: `tidemark contract history`.',
      }),
    ]
  })
}

/** Problems for fields of which records show something else than the description says. */
export const recordsDiffer = ({ stream, drift }: StreamSymptoms): readonly Problem[] =>
  groupedDrift(drift.filter(({ said = null }) => said !== null)).map((group) => {
    const named = group
      .slice(0, longestList)
      .map(({ field, change, said }) =>
        change === 'new' ? `${field} (not in the description)` : `${field} (described as ${said}: ${change})`,
      )
    const more = group.length > longestList ? ` and ${count(group.length - longestList)} more` : ''
    return problemOf('contract_differs', stream, `${stream}:${group[0]?.at.toISOString()}`, {
      since: group[0]?.at ?? null,
      what: `${stream}: its records do not match the description of the upstream in ${plural(group.length, 'field')}: ${named.join(', ')}${more}. Tidemark follows the records.`,
      whatToDo: `Tell the operator of the upstream. All differences: \`tidemark contract ${stream} --diff\`.`,
    })
  })
