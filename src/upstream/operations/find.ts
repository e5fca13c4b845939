// Finds the operation that a method and a path with concrete values mean, for a person who typed them.

import { decodedUri, nearest } from '../../util/text.ts'
import { allOperations, type Operation, pathParameters } from './table.ts'

export type Found = {
  readonly operation: Operation
  readonly path: Readonly<Record<string, string>>
}
/** Nothing has that method and path; these are the nearest, e.g. `GET /api/Assignment/Id/{assignmentId}`. */
export type NotFound = { readonly nearest: readonly string[] }

/** Paths are compared without regard to case; what stands for a parameter may be percent-encoded. */
export function findOperation(method: string, path: string): Found | NotFound {
  const matches = operationsAt(path)
  // `/Webhooks/subscription` has no parameter and wins over anything that reads `subscription` as one.
  const [best] = matches
    .filter(({ operation }) => operation.method === method)
    .toSorted((a, b) => Object.keys(a.path).length - Object.keys(b.path).length)
  return best ?? { nearest: nearestTo(method, path, matches) }
}

function operationsAt(path: string): readonly Found[] {
  const wanted = path.split('/')
  return allOperations.flatMap((operation) => {
    const values = matchPath(operation.path.split('/'), wanted, canBe)
    return values ? [{ operation, path: values }] : []
  })
}

/** Values by their names; null: it is another path. Any text may be a value, unless `canBe` says otherwise. */
export function matchPath(
  template: readonly string[],
  wanted: readonly string[],
  canBe: (name: string, value: string) => boolean = () => true,
): Readonly<Record<string, string>> | null {
  if (template.length !== wanted.length) return null
  const values: Record<string, string> = {}
  for (const [index, part] of template.entries()) {
    const given = wanted[index] ?? ''
    const [, name] = /^\{([^{}]+)\}$/.exec(part) ?? []
    if (name === undefined) {
      if (part.toLowerCase() !== given.toLowerCase()) return null
      continue
    }
    const value = decodedUri(given)
    if (value === null || value === '' || !canBe(name, value)) return null
    values[name] = value
  }
  return values
}

/** Words of the paths themselves: whoever writes `DELETE /api/Assignment/Id` forgot the id. */
const reserved = new Set(
  allOperations.flatMap(({ path }) => path.split('/')).map((part) => part.toLowerCase()),
)

function canBe(name: string, value: string): boolean {
  const kind = pathParameters[name as keyof typeof pathParameters] ?? 'segment'
  return kind === 'segment' ? !reserved.has(value.toLowerCase()) : /^-?\d+$/.test(value)
}

/** First what that path offers under another method, then what this method offers nearby, then anything nearby. */
function nearestTo(method: string, path: string, others: readonly Found[]): readonly string[] {
  const here = others.map(({ operation }) => shown(operation))
  const known = new Map(allOperations.map(shown).map((line) => [comparable(line), line]))
  const wanted = comparable(`${method} ${path}`)
  const sameMethod = [...known.keys()].filter((line) => line.startsWith(`${method} `))
  const near = [...nearest(wanted, sameMethod, 2), ...nearest(wanted, [...known.keys()], 3)]
  return [...new Set([...here, ...near.flatMap((line) => known.get(line) ?? [])])].slice(0, 3)
}

const shown = ({ method, path }: Operation): string => `${method} ${path}`

/** Shortens values and names in braces to almost nothing, so that they hardly count when paths are compared. */
const comparable = (line: string): string =>
  line.replaceAll(/\/(?:\{\w+\}|\d+)/g, (part) => (part[1] === '{' ? `/${part[2]}` : '/a'))
