// What changed from one description to the next.

import {
  boundsOf,
  type DescribedField,
  type DescribedOperation,
  type Description,
  typeOf,
} from './description.ts'

export type DescriptionChange = {
  /** A field as `Type.field`, or an operation. */
  readonly subject: string
  readonly change:
    | 'new field'
    | 'field gone'
    | 'type changed'
    | 'bound changed'
    | 'new operation'
    | 'operation gone'
  readonly before: string | null
  readonly after: string | null
  /** The type that the field belongs to; null for an operation. */
  readonly type: string | null
}

/** In one line. */
export function changeText({
  subject,
  change,
  before,
  after,
}: Pick<DescriptionChange, 'subject' | 'before' | 'after'> & { readonly change: string }): string {
  if (change === 'operation gone' || change === 'field gone' || change === 'new operation')
    return `${subject} (${change})`
  if (before === null || after === null)
    return `${subject} (${change}: ${after ?? before ?? 'not described'})`
  return `${subject} (${change}: ${before} → ${after})`
}

/** Nothing where the two say the same. Types that only one of them has, and no operation answers, show by their operations. */
export function descriptionChanges(before: Description, after: Description): readonly DescriptionChange[] {
  const types = Object.keys(after.types).filter((name) => Object.hasOwn(before.types, name))
  const pairs = [...types.map((name) => [name, name] as const), ...renamedTypes(before, after)]
  const fields = pairs.flatMap(([name, old]) =>
    paired(before.types[old]?.fields ?? [], after.types[name]?.fields ?? [], ({ name }) => name).flatMap(
      ([was, is]) => fieldChange(name, was, is) ?? [],
    ),
  )
  const seen = new Set<string>()
  return [
    ...fields.filter(({ subject }) => !seen.has(subject) && seen.add(subject)),
    ...paired(before.operations, after.operations, operationName).flatMap(
      ([was, is]) => operationChange(was, is) ?? [],
    ),
  ]
}

const operationName = ({ method, path }: DescribedOperation): string => `${method} ${path}`

type Pair<One> = readonly [One | undefined, One | undefined]

/** What has the same name in both, whatever its case, or is only in one. */
function paired<One>(before: readonly One[], after: readonly One[], name: (one: One) => string): Pair<One>[] {
  const byName = (all: readonly One[]) => new Map(all.map((one) => [name(one).toLowerCase(), one]))
  const [old, now] = [byName(before), byName(after)]
  return [...new Set([...old.keys(), ...now.keys()])].map((key) => [old.get(key), now.get(key)])
}

/** What an operation answers now, and what it answered before, where that is another type. */
function renamedTypes(before: Description, after: Description): ReadonlyMap<string, string> {
  const renamed = new Map<string, string>()
  for (const [was, is] of paired(before.operations, after.operations, operationName)) {
    const [old, name] = [was?.answers?.type, is?.answers?.type]
    if (old && name && old !== name && !renamed.has(name)) renamed.set(name, old)
  }
  return renamed
}

function fieldChange(type: string, was?: DescribedField, is?: DescribedField): DescriptionChange | null {
  const subject = `${type}.${(is ?? was)?.name}`
  if (!was) return { subject, change: 'new field', before: null, after: is ? typeOf(is) : null, type }
  if (!is) return { subject, change: 'field gone', before: typeOf(was), after: null, type }
  for (const [change, text] of [
    ['type changed', typeOf],
    ['bound changed', boundText],
  ] as const)
    if (text(was) !== text(is)) return { subject, change, before: text(was), after: text(is), type }
  return null
}

const boundText = ({ values, ...field }: DescribedField): string =>
  boundsOf({ ...field, values: values?.toSorted() ?? null }).join('; ') || 'none'

function operationChange(was?: DescribedOperation, is?: DescribedOperation): DescriptionChange | null {
  const one = is ?? was
  const common = { subject: one ? operationName(one) : '', type: null }
  if (!was) return { ...common, change: 'new operation', before: null, after: is?.summary ?? null }
  if (!is) return { ...common, change: 'operation gone', before: was.summary, after: null }
  const [before, after] = [requestText(was), requestText(is)]
  return before === after ? null : { ...common, change: 'bound changed', before, after }
}

/** What a request must be like, and what it answers. */
function requestText({ parameters, takes, answers }: DescribedOperation): string {
  const given = parameters.map(
    ({ name, says, bounds, isRequired }) =>
      `${name}${isRequired ? '' : '?'}: ${says}${bounds === null ? '' : ` (${bounds})`}`,
  )
  given.sort()
  const body = takes === null ? [] : [`a body ${takes}`]
  const answer = answers === null ? 'nothing' : `${answers.isList ? 'a list of ' : ''}${answers.type}`
  return `takes ${[...given, ...body].join(', ') || 'nothing'}, answers ${answer}`
}
