// Which columns likely point to another table: those that are named as its key is, or end so. The upstream tells of no references,
// so these are guesses, and called so.

import type { ColumnMap, ViewMap } from '../mirror/schema-map.ts'

export type Reference = { readonly from: string; readonly column: string; readonly to: string }

/** A key that says nothing of its table is found by the table's name. */
const sayingNothing: readonly string[] = ['id', 'uid']

type Target = { readonly view: ViewMap; readonly key: ColumnMap; readonly name: string }

export function likelyReferences(views: readonly ViewMap[]): readonly Reference[] {
  const targets = views.flatMap((view): Target[] => {
    const key = view.columns.find(({ isKey }) => isKey)
    if (!key) return []
    return [{ view, key, name: sayingNothing.includes(key.name) ? `${view.name}_${key.name}` : key.name }]
  })
  return views.flatMap((view) =>
    view.columns.flatMap((column): Reference[] => {
      const target = targetOf(view, column, targets)
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
