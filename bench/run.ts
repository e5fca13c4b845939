// `npm run bench`: prints what it measures as a table. Nothing else should run meanwhile.

import { openBenchDatabase } from './postgres.ts'
import { benchReading } from './reading.ts'
import { machine, table } from './report.ts'
import { benchWriting } from './writing.ts'

const say = (what: string) => process.stderr.write(`${what}\n`)
const database = await openBenchDatabase()
const { rows } = await database.pool.query<{ version: string }>(
  `select current_setting('server_version') as version`,
)
await database.close()
const writing = await benchWriting(say)
const results = [...writing, ...(await benchReading(writing[0]?.rowsPerSecond ?? 0, say))]
process.stdout.write(`${table(results)}\n\n${machine(rows[0]?.version ?? '')}\n`)
