// A program of its own that reads a stream and tells what that took: `node bench/load-once.ts <incremental|lookback> [again]`, configured as
// the worker is. What starting a program costs is not counted. With `again` it reads the stream twice, says by an empty line when the second
// time begins, and tells what that one took: by then the engine has compiled everything.

import { loadConfig } from '../src/config/load.ts'
import { openContext } from '../src/context.ts'
import { openLog } from '../src/log.ts'
import { knownStreams as streams } from '../src/streams/catalog.ts'

const kind = process.argv[2] === 'lookback' ? 'lookback' : 'incremental'
const config = loadConfig(process.env)
await using context = await openContext({ config, log: openLog({ level: 'error' }) })
const [stream] = streams
const read = () => context.read(stream, kind, { signal: new AbortController().signal, reach: 'whole' })
if (process.argv[3] === 'again') {
  await read()
  process.stdout.write('\n')
}
const began = performance.now()
const cpuBefore = process.cpuUsage()
const outcome = await read()
const cpu = process.cpuUsage(cpuBefore)
const { maxRSS } = process.resourceUsage()
process.stdout.write(
  `${JSON.stringify({
    seconds: (performance.now() - began) / 1000,
    nodeSeconds: (cpu.user + cpu.system) / 1_000_000,
    megabytes: maxRSS / 1024,
    ...outcome.tally,
    status: outcome.status,
    isComplete: outcome.isComplete,
  })}\n`,
)
