// `npm run bench`: prints what it measures as tables, and writes that of loading into docs/how-it-works/performance.md. Nothing else should
// run meanwhile. `npm run bench -- loading` measures loading alone.

import { readFileSync, writeFileSync } from 'node:fs'
import { benchLoading } from './loading.ts'

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
const page = new URL('../docs/how-it-works/performance.md', import.meta.url)
const loading = await benchLoading(say)
const shown = `${loading}\n\n${machine(rows[0]?.version ?? '')}`
process.stdout.write(`${shown}\n\n`)
writeFileSync(
  page,
  readFileSync(page, 'utf8').replace(
    /(<!-- begin: loading -->\n)[\s\S]*?(\n<!-- end: loading -->)/,
    (_all, begin: string, end: string) => `${begin}${shown}${end}`,
  ),
)
if (process.argv[2] === 'loading') process.exit(0)
const writing = await benchWriting(say)
const results = [...writing, ...(await benchReading(writing[0]?.rowsPerSecond ?? 0, say))]
process.stdout.write(`${table(results)}\n\n${machine(rows[0]?.version ?? '')}\n`)
