// What a BI role may read: the mirror, its views and the freshness of both, also of tables that come later, and nothing
// else. Makes no roles.

import pg, { type ClientBase } from 'pg'
import { DatabaseError } from './connection.ts'

export async function grantReading(client: ClientBase, role: string): Promise<void> {
  const name = pg.escapeIdentifier(role)
  const { rows } = await client.query('select 1 from pg_roles where rolname = $1', [role])
  if (rows.length === 0)
    throw new DatabaseError(
      `BI_ROLE names ${role}, which is no role in this Postgres; make it: create role ${name} login`,
    )
  await client.query(`
    grant usage on schema mirror, bi, tidemark to ${name};
    grant select on all tables in schema mirror, bi to ${name};
    grant select on tidemark.freshness to ${name};
    alter default privileges in schema mirror, bi grant select on tables to ${name}`)
}
