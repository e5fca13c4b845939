// `npm run upgrade-fixture`: writes the records of test/fixtures/ into the database that DATABASE_URL names, with the program of this
// checkout. What comes of it is kept as `early-database.sql`, from which later versions must go on; RELEASING.md says how.

import { readFileSync } from 'node:fs'
import { readEnvironment } from '../../src/config/environment.ts'
import { loadMirrorConfig } from '../../src/config/load.ts'
import type { Json } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { openLog } from '../../src/log.ts'
import { openStore } from '../../src/store/runs/open-store.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { type Records, readRecords } from '../../src/streams/record.ts'

const log = openLog({ level: 'warn' })
const { databaseUrl } = loadMirrorConfig(readEnvironment())
if (databaseUrl === null) throw new Error('set DATABASE_URL to an empty database')
const database = await openDatabase({ url: databaseUrl, log })
await migrateDatabase({ database, streams, biRole: null, log })
const store = openStore({ database, streams, sourceTimezone: 'UTC', log })

const recordsOf = (file: string): readonly Json[] =>
  parseJson(readFileSync(new URL(`../fixtures/${file}`, import.meta.url))) as readonly Json[]

async function write(stream: string, page: Records, keyField: string | null): Promise<void> {
  const run = await store.openRun(keyField === null ? 'incremental' : 'list', stream)
  if ('busy' in run) throw new Error(`${stream} is being read by ${run.busy}`)
  if (keyField !== null) await run.findings.setKeyField(keyField)
  const versions = page.rows.flatMap(({ version }) => version ?? [])
  await run.pages.commit(page, versions.toSorted((a, b) => (a < b ? -1 : 1)).at(-1) ?? null)
  const end = { status: 'done', error: null, errorCode: null, note: null, isComplete: true } as const
  await run.finish({ ...end, requests: 1, bytes: 100 })
}

await write(
  'assignment',
  readRecords(recordsOf('assignment.json'), ['AssignmentId'], ['RowVersion', 'SysRowVersion']),
  null,
)
await write('tracker_object', readRecords(recordsOf('tracker_object.json'), ['UID'], null), 'UID')
await database.close()
process.stdout.write(`The records are in ${database.address}\n`)
