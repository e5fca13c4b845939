// A program of its own that writes rows through the mirror and tells how much memory it took at most: `node bench/memory.ts
// <database url> <rows>`.

import { openDatabase } from '../src/store/server/connect.ts'
import { writeThroughStore } from './mirror-writes.ts'
import { benchLog } from './postgres.ts'
import { makePages } from './records.ts'

const [url = '', rowCount = ''] = process.argv.slice(2)
const database = await openDatabase({ url, log: benchLog })
await writeThroughStore(database, 2, makePages(4)(0, Number(rowCount), 1))
await database.close()
process.stdout.write(`${process.resourceUsage().maxRSS / 1024}\n`)
