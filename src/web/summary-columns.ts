// The columns that tell most people which row it is, by their names.

const usualColumns = 6
const summary = [
  /number/,
  /subject|name|title/,
  /status/,
  /customer/,
  /city|place/,
  /text|description|note/,
  /type/,
]

/** Names of the columns to show, when nobody chose any. */
export function summaryColumns(names: readonly string[]): readonly string[] {
  const found = summary.flatMap((pattern) =>
    names.filter((name) => pattern.test(name) && !/_id|idext|uid/.test(name)).slice(0, 1),
  )
  const rest = names.filter((name) => !/^sys_|_id$|_id_|version|uid|idext/.test(name))
  return [...new Set([...found, ...rest, ...names])].slice(0, usualColumns)
}
