// The migrations bring a database to the tables that the code describes: none is missing.

import { readdirSync, readFileSync } from 'node:fs'
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { expect, it } from 'vitest'

const tables = new URL('../../src/store/tables/', import.meta.url)
const meta = new URL('../../migrations/meta/', import.meta.url)

it('the newest migration leaves nothing to do', async () => {
  const snapshots = readdirSync(meta).filter((name) => name.endsWith('_snapshot.json'))
  expect(snapshots, 'only the newest snapshot is kept').toHaveLength(1)
  const migrated = JSON.parse(readFileSync(new URL(snapshots[0] ?? '', meta), 'utf8'))
  const files = readdirSync(tables).map((name) => import(new URL(name, tables).href))
  const described = generateDrizzleJson(Object.assign({}, ...(await Promise.all(files))), migrated.id)
  expect(
    await generateMigration(migrated, described),
    'run: npm run migrate:new -- --name what-it-does',
  ).toEqual([])
})

it('their times rise, because the later one of two is what a database is asked for', () => {
  const journal: { entries: { when: number }[] } = JSON.parse(
    readFileSync(new URL('_journal.json', meta), 'utf8'),
  )
  const times = journal.entries.map(({ when }) => when)
  expect(times).toEqual([...new Set(times)].sort((one, other) => one - other))
})
