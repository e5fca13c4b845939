// What a page costs this program may not grow unnoticed: it is measured in turns of a bare loop, so that a slow or busy machine fails
// nothing. Where something else disturbs a measurement, the next ones do better. The figures of whole loads are those of `npm run bench`.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const program = fileURLToPath(new URL('../../bench/page-cpu.ts', import.meta.url))
// They take 0.65 to 1.05 and 1.3 to 1.9 of them, depending on the processor and on what else it does. Parsing the records takes 3.6 and 4.
const most = [
  { kind: 'recorded', mostTurns: 1.25 },
  { kind: 'unlike', mostTurns: 2 },
]

it.each(most)(
  'a page of $kind records is taken from its bytes to those of COPY within its time',
  { timeout: 120_000 },
  async ({ kind, mostTurns }) => {
    let leastTurns = Number.POSITIVE_INFINITY
    for (let measured = 0; measured < 10 && leastTurns >= mostTurns; measured++) {
      const { stdout } = await promisify(execFile)(process.execPath, [program, kind])
      const { turns, plainBytes, pageBytes } = JSON.parse(stdout)
      expect(plainBytes / pageBytes).toBeGreaterThan(0.4)
      leastTurns = Math.min(leastTurns, turns)
    }
    expect(leastTurns).toBeLessThan(mostTurns)
  },
)
