// Fields that are left out or masked: a dictionary of nothing else, and all that is stored, to look for values that should not be there.

import type { Pool } from 'pg'
import type { Dictionary, FieldMeaning, Mask } from '../../src/streams/dictionary.ts'
import { foldField } from '../../src/streams/dictionary.ts'

export const dictionaryOf = (
  streams: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Dictionary =>
  new Map(
    Object.entries(streams).map(([stream, fields]) => [
      stream,
      {
        ...{ label: null, description: null, key: null, version: null, volatile: null, historyMs: null },
        fields: new Map(Object.entries(fields).map(([name, rule]) => [foldField(name), fieldOf(name, rule)])),
      },
    ]),
  )

const fieldOf = (name: string, rule: string): FieldMeaning => ({
  ...{ name, label: null, description: null, unit: null, values: null, refersTo: null },
  ...{ timezone: null, index: null, line: null },
  omit: rule === 'omit',
  mask: rule === 'omit' ? null : maskOf(rule),
})

const maskOf = (rule: string): Mask =>
  rule.startsWith('first ')
    ? { kind: 'first', characters: Number(rule.slice(6)) }
    : { kind: rule as 'hash' | 'null' | 'year' }

/** As `pg_dump` would show it. */
export async function everythingIn(pool: Pool): Promise<string> {
  const { rows: tables } = await pool.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
     where relkind = 'r' and relnamespace in ('mirror'::regnamespace, 'tidemark'::regnamespace)`,
  )
  const texts = await Promise.all(
    tables.map(
      async ({ name }) => (await pool.query(`select whole::text as text from ${name} as whole`)).rows,
    ),
  )
  return texts
    .flat()
    .map(({ text }) => text)
    .join('\n')
}
