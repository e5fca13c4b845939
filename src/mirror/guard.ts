// When a row may be replaced by an older version than its own (P3): when it is known to be wrong, or when a rewind said that
// the upstream itself may have gone back. SQL text only.

import pg from 'pg'
import { type Shape, versionSql } from './shape.ts'

/** Such a row takes whatever comes next. */
export const distrustedHash = `''::bytea`

/** After a rewind: what was mirrored above its target, and not written again since. */
export function isRewoundSql(shape: Shape, alias: string): string {
  const column = (name: string) =>
    `(select ${name} from tidemark.stream where name = ${pg.escapeLiteral(shape.stream.name)})`
  return `(${versionSql(shape, alias)} > ${column('unguarded_above')} and ${alias}._synced_at <= ${column('unguarded_before')})`
}
