// What the due migrations would do, and which locks they would take: read from their statements, without asking for any lock.

import type { ClientBase } from 'pg'
import type { DueMigration } from './migrate.ts'

export type Lock =
  | 'access exclusive'
  | 'share row exclusive'
  | 'share'
  | 'share update exclusive'
  | 'row exclusive'
type LockedTable = { readonly table: string; readonly lock: Lock }
export type PlannedStatement = {
  readonly migration: string
  /** Its beginning. */
  readonly statement: string
  /** `rows` as Postgres estimates them; null: tables that the statement finds while it runs. */
  readonly locks: readonly (LockedTable & { readonly rows: number | null })[]
}

const name = String.raw`(?:if (?:not )?exists )?(?:only )?((?:"[^"]+"|[\w%]+)(?:\.(?:"[^"]+"|\w+))?)`
/** By how a statement begins. The first that fits says what is locked; statements that none fits lock no table that is there already. */
const rules: readonly (readonly [RegExp, Lock])[] = [
  [new RegExp(`^alter index ${name} rename`), 'share update exclusive'],
  [new RegExp(`^(?:alter|drop) (?:table|view|sequence|index) ${name}`), 'access exclusive'],
  [new RegExp(`^create or replace view ${name}`), 'access exclusive'],
  [new RegExp(`^create trigger .*? on ${name}`), 'share row exclusive'],
  [new RegExp(`^create (?:unique )?index .*?\\bon ${name}`), 'share'],
  [new RegExp(`^comment on (?:table|view) ${name}`), 'share update exclusive'],
  [/^comment on column ((?:"[^"]+"|\w+)\.(?:"[^"]+"|\w+))\./, 'share update exclusive'],
  [new RegExp(`^(?:update|insert into|delete from) ${name}`), 'row exclusive'],
]
const referenced = new RegExp(`\\breferences ${name}`, 'g')
/** Where another statement begins inside of one, as in a block or behind `with`. */
const inside =
  /(?<=[;'(] ?|\bthen |\bloop |\bbegin |\) ?)(?=(?:alter|drop|create|comment|update|insert|delete)\b)/g

/** What one statement locks of what is there already. */
export function locksOf(statement: string): readonly LockedTable[] {
  const text = normalized(statement)
  const parts = /^(?:do|with)\b/.test(text) ? text.split(inside) : [text]
  const found = parts.flatMap((part) => {
    for (const [rule, lock] of rules) {
      const table = rule.exec(part)?.[1]
      if (table) return [{ table: unquoted(table), lock }]
    }
    return []
  })
  const others = /^(?:create|alter) table/.test(text)
    ? [...text.matchAll(referenced)].map(([, table = '']) => ({
        table: unquoted(table),
        lock: 'share row exclusive' as const,
      }))
    : []
  return [...found, ...others]
}

const normalized = (statement: string): string =>
  statement.replace(/--.*$/gm, '').replace(/\s+/g, ' ').trim().toLowerCase()
/** What a block finds while it runs. */
const foundLater = 'mirrored tables'

const unquoted = (table: string): string => (table.startsWith('%') ? foundLater : table.replaceAll('"', ''))

/** Only locks of tables that are there already: nobody waits for one that is new. */
export async function planMigrations(
  client: ClientBase,
  due: readonly DueMigration[],
): Promise<readonly PlannedStatement[]> {
  const statements = due.flatMap(({ name: migration, statements }) =>
    statements.map((statement) => ({
      migration,
      locks: locksOf(statement),
      statement: normalized(statement).replace(/^(.{70}).+/, '$1…'),
    })),
  )
  const names = statements.flatMap(({ locks }) => locks.map(({ table }) => table))
  const { rows } = await client.query<{ name: string; rows: number }>(
    `select distinct name, greatest(reltuples, 0)::float8 as rows
     from unnest($1::text[]) as name join pg_class on pg_class.oid = to_regclass(name)`,
    [names.filter((name) => name !== foundLater)],
  )
  const counts = new Map<string, number | null>([
    ...rows.map((row) => [row.name, row.rows] as const),
    [foundLater, null],
  ])
  return statements.map(({ locks, ...one }) => ({
    ...one,
    locks: locks.flatMap(({ table, lock }) => {
      const rowCount = counts.get(table)
      return rowCount === undefined ? [] : [{ table, lock, rows: rowCount }]
    }),
  }))
}
