// Which columns point to another table. The upstream tells of no references: they are proposed by names and types, and only those that
// the rows confirm are shown. Read-only.

import pg from 'pg'
import { inBi } from '../schema/places.ts'
import { queryRow } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { ColumnMap, ViewMap } from './dictionary.ts'

/** By its names alone. */
export type LikelyReference = { readonly from: string; readonly column: string; readonly to: string }
export type Reference = LikelyReference & {
  /** The key of the other view. */
  readonly key: string
  /** How many different values were looked up. */
  readonly values: number
  /** Which share of them the other view has: more than 0, up to 1. */
  readonly share: number
}
/** Key names that say nothing of their table: there a column refers to the table by the table's name. */
const sayingNothing: readonly string[] = ['id', 'uid']

type Target = { readonly view: ViewMap; readonly key: ColumnMap; readonly name: string }

export function likelyReferences(views: readonly ViewMap[]): readonly LikelyReference[] {
  const targets = views.flatMap((view): Target[] => {
    const key = view.columns.find(({ isKey }) => isKey)
    if (!key) return []
    return [{ view, key, name: sayingNothing.includes(key.name) ? `${view.name}_${key.name}` : key.name }]
  })
  return views.flatMap((view) =>
    view.columns.flatMap((column): LikelyReference[] => {
      const meant = targets.find(
        ({ view: other, key }) => other.name === column.meantReference && key.type === column.type,
      )
      const target = meant ?? targetOf(view, column, targets)
      return target ? [{ from: view.name, column: column.name, to: target.view.name }] : []
    }),
  )
}

function targetOf(view: ViewMap, column: ColumnMap, targets: readonly Target[]): Target | undefined {
  const [best] = targets
    .filter(
      ({ key, name }) =>
        column.type === key.type && (column.name === name || column.name.endsWith(`_${name}`)),
    )
    // Of two tables with such a key, the one that is named after it; of `x_note_id` rather `note_id` than `id`.
    .toSorted((a, b) => b.name.length - a.name.length || Number(isNamesake(b)) - Number(isNamesake(a)))
  const isOwnKey = best?.view === view && best.key.name === column.name
  return isOwnKey ? undefined : best
}

const isNamesake = ({ view, name }: Target): boolean => name.startsWith(view.name)

/** If a smaller share of a column's values is found there, the names are only similar by chance. */
const leastShare = 0.5
const mostRows = 200_000
const mostValues = 10_000

/** Those that the rows confirm: a column without values confirms nothing. */
export async function confirmedReferences(
  client: Queryable,
  views: readonly ViewMap[],
  /** What cannot be looked up is not confirmed; left out: it is an error. */
  onFailure?: (reference: LikelyReference, error: unknown) => void,
): Promise<readonly Reference[]> {
  const confirmed: Reference[] = []
  for (const { from, column, to } of likelyReferences(views)) {
    const key = views.find(({ name }) => name === to)?.columns.find(({ isKey }) => isKey)?.name
    if (key === undefined) continue
    try {
      const counted = await countResolved(client, { from, column, to, key })
      if (counted.share >= leastShare || (isMeant(views, { from, column, to }) && counted.share > 0))
        confirmed.push({ from, column, to, key, ...counted })
    } catch (error) {
      if (!onFailure) throw error
      onFailure({ from, column, to }, error)
    }
  }
  return confirmed
}

/** The dictionary says so. */
const isMeant = (views: readonly ViewMap[], { from, column, to }: LikelyReference): boolean =>
  views.some(
    ({ name, columns }) =>
      name === from && columns.some((one) => one.name === column && one.meantReference === to),
  )

async function countResolved(
  client: Queryable,
  { from, column, to, key }: LikelyReference & Pick<Reference, 'key'>,
): Promise<Pick<Reference, 'values' | 'share'>> {
  const [value, found] = [pg.escapeIdentifier(column), pg.escapeIdentifier(key)]
  const counted = await queryRow<{ values: number; resolved: number }>(
    client,
    `select count(*)::int as values, count(*) filter (where exists (
       select from ${inBi({ name: to })} as there where there.${found} = sample.value
     ))::int as resolved
     from (
       select distinct ${value} as value
       from (select ${value} from ${inBi({ name: from })} where ${value} is not null limit ${mostRows}) as known limit ${mostValues}
     ) as sample`,
  )
  const { values = 0, resolved = 0 } = counted ?? {}
  return { values, share: values === 0 ? 0 : resolved / values }
}
