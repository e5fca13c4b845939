// `npm run bench`: prints what it measures as tables, and writes that of loading into docs/how-it-works/performance.md. Nothing else should
// run meanwhile. `npm run bench -- loading` measures loading alone, `npm run bench -- millions 10` one load of so many millions (of disk
// it takes 2 GB for each), `npm run bench -- recording` what it costs to record how far a load
// is, `npm run bench -- pages` how long each page of the console takes on a mirror of a million rows, and `npm run bench -- rest 3` what
// the worker costs in three minutes in which nothing happens (`redis` or `postgres` after it: with the queue there alone), and
// `npm run bench -- latency 2` how long changes take to arrive, for two minutes each way.

import { benchLatency } from './latency.ts'
import { benchLoading } from './loading.ts'
import { benchMillions } from './millions.ts'
import { benchPages } from './pages.ts'
import { openBenchDatabase } from './postgres.ts'
import { benchReading } from './reading.ts'
import { benchRecording } from './recording.ts'
import { machine, table, writeBlock } from './report.ts'
import { benchRest, queues } from './rest.ts'
import { benchWriting } from './writing.ts'

const say = (what: string) => process.stderr.write(`${what}\n`)
const database = await openBenchDatabase()
const { rows } = await database.pool.query<{ version: string }>(
  `select current_setting('server_version') as version`,
)
await database.close()
if (process.argv[2] === 'millions') {
  const shown = `${await benchMillions(Number(process.argv[3] ?? 10), say)}\n\n${machine(rows[0]?.version ?? '')}`
  process.stdout.write(`${shown}\n`)
  writeBlock('millions', shown)
  process.exit(0)
}
if (process.argv[2] === 'pages') {
  process.stdout.write(`${await benchPages(Number(process.argv[3] ?? 1_000_000), say)}\n`)
  process.exit(0)
}
if (process.argv[2] === 'rest') {
  const [, , , minutes = 3, wanted = ''] = process.argv
  const some = queues.filter((queue) => queue.toLowerCase() === wanted.toLowerCase())
  const measured = await benchRest(Number(minutes), some.length > 0 ? some : queues, say)
  const shown = `${measured}\n\n${machine(rows[0]?.version ?? '')}`
  process.stdout.write(`${shown}\n`)
  if (some.length === 0) writeBlock('rest', shown)
  process.exit(0)
}
if (process.argv[2] === 'latency') {
  const shown = `${await benchLatency(Number(process.argv[3] ?? 2), say)}\n\n${machine(rows[0]?.version ?? '')}`
  process.stdout.write(`${shown}\n`)
  writeBlock('latency', shown)
  process.exit(0)
}
if (process.argv[2] === 'recording') {
  const shown = await benchRecording(say)
  process.stdout.write(`${shown}\n`)
  writeBlock('recording', shown)
  process.exit(0)
}
const loading = await benchLoading(say)
const shown = `${loading}\n\n${machine(rows[0]?.version ?? '')}`
process.stdout.write(`${shown}\n\n`)
writeBlock('loading', shown)
if (process.argv[2] === 'loading') process.exit(0)
const writing = await benchWriting(say)
const results = [...writing, ...(await benchReading(writing[0]?.rowsPerSecond ?? 0, say))]
process.stdout.write(`${table(results)}\n\n${machine(rows[0]?.version ?? '')}\n`)
