// A program of its own that asks for one list, reads its records as every reading does, and tells what that took:
// `node test/support/read-list.ts <base URL>`.

import { openLog } from '../../src/log.ts'
import { readRecords } from '../../src/streams/record.ts'
import { withoutTwins } from '../../src/streams/twins.ts'
import { openUpstream } from '../../src/upstream/client.ts'
import { openSource } from '../../src/upstream/stream-source.ts'
import { streamOf } from './streams.ts'

const [baseUrl = ''] = process.argv.slice(2)
const upstream = openUpstream({
  ...{ service: 'assignment', baseUrl, authUrl: `${baseUrl}/auth`, clientGuid: null },
  ...{
    subjectId: 'test',
    apiKey: () => 'a-key-for-tests',
    requestsPerSecond: () => null,
    requestTimeoutMs: 60_000,
  },
  log: openLog({ level: 'fatal' }),
})
const source = openSource(upstream, streamOf('assignment'))
let outcome: { readonly rows: number } | { readonly code: unknown; readonly problem: string }
try {
  const { records } = await source.list({ page: 1, pageSize: 1_000 }, new AbortController().signal)
  outcome = { rows: withoutTwins(readRecords(records, ['AssignmentId'], ['RowVersion'])).rows.length }
} catch (error) {
  outcome = { code: Object(error).code, problem: String(error) }
}
upstream.close()
process.stdout.write(JSON.stringify({ ...outcome, megabytes: process.resourceUsage().maxRSS / 1024 }))
