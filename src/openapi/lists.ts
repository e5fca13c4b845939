// The lists that a description names, and what would mirror each. Pure.

import { addedIn } from '../config/parsers.ts'
import type { Catalogue } from '../streams/catalog.ts'
import { operationNamed } from '../upstream/operations/table.ts'
import type { DescribedOperation, Description } from './description.ts'

export type ListOffered = {
  readonly path: string
  readonly type: string
  readonly hasChanges: boolean
  /** The stream that mirrors it; null: none does. */
  readonly stream: string | null
  /** What STREAMS would add; null: it cannot name such a path. */
  readonly setting: string | null
}

/** Lists without parameters in their paths. The names of related records that are copied are taken. */
export function listsOffered(
  { operations }: Description,
  catalogue: Catalogue,
  related: readonly string[],
): readonly ListOffered[] {
  const paths = operations.map(({ path }) => path.toLowerCase())
  const mirrored = new Map(catalogue.map(({ name, list }) => [operationNamed(list).path.toLowerCase(), name]))
  const taken = new Set([...related, ...catalogue.map(({ name }) => name)])
  const offered = new Map(operations.filter(isList).map((one) => [withoutSlash(one.path), one]))
  return [...offered].map(([path, { answers }]) => {
    const hasChanges = paths.some((one) => one.startsWith(`${path.toLowerCase()}/neworchanged/{`))
    const stream = mirrored.get(path.toLowerCase()) ?? null
    const name = stream ?? freeName(nameOf(path), taken)
    taken.add(name)
    const setting = `${name}=${path}`
    const canBeSet = stream !== null || addedIn(setting).length === 1
    return {
      path,
      hasChanges,
      type: answers?.type ?? 'not described',
      stream,
      setting: canBeSet ? setting : null,
    }
  })
}

/** An answer that is not described may be a list all the same, where it can be paged. */
const isList = ({ method, path, answers, parameters }: DescribedOperation): boolean =>
  method === 'GET' &&
  !path.includes('{') &&
  (answers?.isList ?? parameters.some(({ name }) => /^page(?:size)?$/i.test(name)))

const withoutSlash = (path: string): string => path.replace(/(?<!\/)\/+$/, '')

function freeName(name: string, taken: ReadonlySet<string>): string {
  for (let n = 1; ; n++) {
    const free = n === 1 ? name : `${name.slice(0, 36)}_${n}`
    if (!taken.has(free)) return free
  }
}

/** `work_order` for `/api/WorkOrder`. */
const nameOf = (path: string): string =>
  (path.split('/').at(-1) ?? '')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]/g, '_')
    .replace(/^(?=[^a-z])/, 'list_')
    .slice(0, 40)
