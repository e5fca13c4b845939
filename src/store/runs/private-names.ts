// Names of private fields as they stand in JSON, in SQL (P20).

import pg from 'pg'

/** Names that fold to one of the fields, as they stand in JSON. */
export const patternOf = (fields: readonly string[]): string => {
  const letters = (field: string) =>
    [...field].map((one) => one.replace(/[^\p{L}\p{N}]/u, '.')).join('[^[:alnum:]"]*')
  return `"[^[:alnum:]"]*(${fields.map(letters).join('|')})[^[:alnum:]"]*"\\s*:`
}

/** Whether a text of JSON has one of these names. */
export const namesAnySql = (text: string, names: readonly string[]) =>
  `${text} ~* ${pg.escapeLiteral(patternOf(names))}`
