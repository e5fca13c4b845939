// What the upstream says about itself (its contract): its operations, and the fields of the records that they take and answer. Read
// from an OpenAPI description; a belief like any other, and the data decide where they differ.

import type { FieldKind } from './field-types.ts'

/** Where an upstream's description of itself is looked for; `usual`: where such services have it. */
export type ContractPlace =
  | { readonly kind: 'usual' }
  | { readonly kind: 'url' | 'file'; readonly at: string }

export type ContractField = {
  /** The name as the upstream spells it. */
  readonly name: string
  /** What the description says that its values are, e.g. `integer int32`. */
  readonly says: string
  /** Null: a type that no column has, or several that exclude each other; the data decide. */
  readonly kind: FieldKind | null
  readonly isNullable: boolean
  readonly isRequired: boolean
  readonly describe: string | null
  /** The only values that it may have. */
  readonly values: readonly string[] | null
  /** What else values must be like, e.g. `at most 50 characters`. */
  readonly bounds: string | null
  /** The type of the record, or of the records of the list, that it holds. */
  readonly holds: string | null
}
/** What is said of a field, in one line. */
export const saidOf = ({
  says,
  isNullable,
  isRequired,
  bounds,
  values,
}: Pick<ContractField, 'says' | 'isNullable' | 'isRequired' | 'bounds' | 'values'>): string =>
  [
    `${says}${isNullable ? ' or null' : ''}`,
    isRequired ? 'required' : null,
    bounds,
    values && `one of ${values.join(', ')}`,
  ]
    .filter((part) => part !== null)
    .join(', ')

export type RecordType = {
  /** Its name in the description; of one without, that of the operation. */
  readonly name: string
  readonly describe: string | null
  readonly fields: readonly ContractField[]
}
export type ContractParameter = {
  readonly name: string
  readonly in: string
  readonly says: string
  readonly bounds: string | null
  readonly isRequired: boolean
}
export type ContractOperation = {
  readonly method: string
  /** Parameters in braces. Below what the description names as its server, where that is not the base URL. */
  readonly path: string
  /** The path as the description spells it; left out: the same. */
  readonly describedPath?: string
  readonly summary: string | null
  readonly parameters: readonly ContractParameter[]
  /** The name of the type of its body; null: it takes none, or one that is not described. */
  readonly takes: string | null
  /** How its body travels; left out: it takes none, or as JSON where `takes` names a type. */
  readonly bodyIs?: 'json' | 'form' | 'multipart'
  /** What a success answers; null: nothing, or it is not described. */
  readonly answers: { readonly type: string; readonly isList: boolean } | null
}
export type Contract = {
  readonly title: string
  readonly version: string
  /** The version of OpenAPI that the description uses, e.g. `3.1.1`. */
  readonly openApi: string
  readonly operations: readonly ContractOperation[]
  readonly types: Readonly<Record<string, RecordType>>
  /** Which parts of the description could not be used, and why. */
  readonly remarks: readonly string[]
}

/** An operation as it is compared and shown: `GET /api/Assignment`. */
const operationName = ({ method, path }: Pick<ContractOperation, 'method' | 'path'>): string =>
  `${method} ${path}`

// What changed from one description to the next.
export type ContractChange = {
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

/** Nothing where the two say the same. Types that only one of them has, and no operation answers, show by their operations. */
export function contractChanges(before: Contract, after: Contract): readonly ContractChange[] {
  const types = Object.keys(after.types).filter((name) => Object.hasOwn(before.types, name))
  const pairs = [...types.map((name) => [name, name] as const), ...renamedTypes(before, after)]
  const fields = pairs.flatMap(([old, name]) => typeChanges(name, before.types[old], after.types[name]))
  const seen = new Set<string>()
  return [
    ...fields.filter(({ subject }) => !seen.has(subject) && seen.add(subject)),
    ...operationChanges(before, after),
  ]
}

/** What one operation answered before and what it answers now, where that is another type. */
function renamedTypes(before: Contract, after: Contract): readonly (readonly [string, string])[] {
  const answered = new Map(before.operations.map((one) => [folded(one), one.answers?.type]))
  const pairs = new Map<string, string>()
  for (const one of after.operations) {
    const [old, name] = [answered.get(folded(one)), one.answers?.type]
    if (old === undefined || name === undefined || old === name) continue
    if (!pairs.has(name)) pairs.set(name, old)
  }
  return [...pairs].map(([name, old]) => [old, name])
}

const folded = (operation: ContractOperation): string => operationName(operation).toLowerCase()

function typeChanges(type: string, before?: RecordType, after?: RecordType): readonly ContractChange[] {
  const [old, current] = [byName(before?.fields ?? []), byName(after?.fields ?? [])]
  const names = [...new Set([...old.keys(), ...current.keys()])]
  return names.flatMap((folded): readonly ContractChange[] => {
    const [was, is] = [old.get(folded), current.get(folded)]
    const subject = `${type}.${(is ?? was)?.name}`
    if (!was) return [{ subject, change: 'new field', before: null, after: fieldText(is), type }]
    if (!is) return [{ subject, change: 'field gone', before: fieldText(was), after: null, type }]
    if (typeText(was) !== typeText(is))
      return [{ subject, change: 'type changed', before: typeText(was), after: typeText(is), type }]
    if (boundText(was) !== boundText(is))
      return [{ subject, change: 'bound changed', before: boundText(was), after: boundText(is), type }]
    return []
  })
}

const byName = (fields: readonly ContractField[]): ReadonlyMap<string, ContractField> =>
  new Map(fields.map((field) => [field.name.toLowerCase(), field]))

const typeText = ({ says, isNullable }: ContractField): string => `${says}${isNullable ? ' or null' : ''}`
const boundText = ({ bounds, values, isRequired }: ContractField): string =>
  [isRequired ? 'required' : null, bounds, values && `one of ${values.toSorted().join(', ')}`]
    .filter((part) => part !== null)
    .join('; ') || 'none'
const fieldText = (field: ContractField | undefined): string | null => (field ? typeText(field) : null)

function operationChanges(before: Contract, after: Contract): readonly ContractChange[] {
  const known = new Map(before.operations.map((one) => [folded(one), one]))
  const current = new Map(after.operations.map((one) => [folded(one), one]))
  const common = { type: null } as const
  return [
    ...before.operations
      .filter((one) => !current.has(folded(one)))
      .map((one) => ({
        ...common,
        ...{ subject: operationName(one), change: 'operation gone' as const },
        ...{ before: one.summary, after: null },
      })),
    ...after.operations.flatMap((one): readonly ContractChange[] => {
      const subject = operationName(one)
      const was = known.get(subject.toLowerCase())
      if (!was) return [{ ...common, subject, change: 'new operation', before: null, after: one.summary }]
      const [old, now] = [requestText(was), requestText(one)]
      return old === now ? [] : [{ ...common, subject, change: 'bound changed', before: old, after: now }]
    }),
  ]
}

/** What a request must be like, and what it answers. */
function requestText({ parameters, takes, answers }: ContractOperation): string {
  const given = parameters.map(
    ({ name, says, bounds, isRequired }) =>
      `${name}${isRequired ? '' : '?'}: ${says}${bounds === null ? '' : ` (${bounds})`}`,
  )
  given.sort()
  const body = takes === null ? [] : [`a body ${takes}`]
  const answer = answers === null ? 'nothing' : `${answers.isList ? 'a list of ' : ''}${answers.type}`
  return `takes ${[...given, ...body].join(', ') || 'nothing'}, answers ${answer}`
}

/** A list that a description names. */
export type ListOffered = {
  readonly path: string
  readonly type: string
  readonly hasChanges: boolean
  /** The stream that mirrors it; null: none does. */
  readonly stream: string | null
  /** What STREAMS would add; null: it cannot name such a path. */
  readonly setting: string | null
}
