// The dbt project without dbt: the generated models and the reports as views of a schema, with `ref`, `source`, `var` and `config` put in.

import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Pool } from 'pg'
import type { Files } from '../../src/cli/exports/facts.ts'

const project = fileURLToPath(new URL('../../deploy/dbt/', import.meta.url))
const schemas: Readonly<Record<string, string>> = {
  tidemark: 'bi',
  tidemark_mirror: 'mirror',
  tidemark_state: 'tidemark',
}

/** The reports by name, as they are written. */
export const marts: ReadonlyMap<string, string> = new Map(
  globSync('models/marts/*.sql', { cwd: project })
    .toSorted()
    .map((path) => [basename(path, '.sql'), readFileSync(join(project, path), 'utf8')]),
)

/** Makes all of them, and says in which schema. */
export async function makeModels(pool: Pool, files: Files): Promise<string> {
  const schema = 'dbt_reports'
  const staging = Object.entries(files).filter(([path]) => path.endsWith('.sql'))
  await pool.query(`create schema ${schema}`)
  for (const [path, text] of [...staging, ...marts])
    await pool.query(`create view ${schema}.${basename(path, '.sql')} as ${rendered(String(text), schema)}`)
  return schema
}

function rendered(model: string, schema: string): string {
  const text = readFileSync(join(project, 'dbt_project.yml'), 'utf8')
  const sql = model
    .replaceAll(/\{\{ config\(.*?\) \}\}/g, '')
    .replaceAll(/\{\{ ref\('(\w+)'\) \}\}/g, `${schema}.$1`)
    .replaceAll(/\{\{ source\('(\w+)', '(\w+)'\) \}\}/g, (_, source, table) => `${schemas[source]}.${table}`)
    .replaceAll(
      /\{\{ var\('(\w+)'\) \}\}/g,
      (_, name) => RegExp(`^  ${name}: (.*)$`, 'm').exec(text)?.[1] ?? '',
    )
  if (/\{[{%]/.test(sql)) throw new Error(`this is not rendered: ${sql}`)
  return sql
}
