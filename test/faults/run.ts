// `npm run faults [-- words]`: tries faults of the parts around a worker, with the real parts, one after the other. Words pick the faults
// whose name holds all of them. Ends with 1 when a fault was told too late or not at all, or when the worker did not get well.

import { withTimeout } from '../../src/util/waiting.ts'
import { missing } from '../support/installed.ts'
import { known } from './known.ts'
import { onStage, seconds } from './stage.ts'

/** Of one trial. */
const longestMs = 15 * 60_000
const words = process.argv.slice(2)
const chosen = known.filter(({ name }) => words.every((word) => name.includes(word)))
const line = (text: string) => process.stdout.write(`${text}\n`)

let failed = 0
let skipped = 0
for (const fault of chosen) {
  const lack = missing(fault.needs)
  if (lack !== null) {
    skipped++
    line(`*** SKIPPED  ${fault.name}: ${lack}`)
    continue
  }
  const startedMs = performance.now()
  try {
    line(
      `fine  ${fault.name}: ${await withTimeout(
        longestMs,
        onStage((stage) => fault.try(stage)),
      )}`,
    )
  } catch (error) {
    failed++
    const took = seconds(performance.now() - startedMs)
    line(`FAIL  ${fault.name}, after ${took}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
const tried = chosen.length - skipped
line(
  `${tried - failed} of ${tried} faults were told of and got well${skipped > 0 ? `; ${skipped} SKIPPED` : ''}`,
)
if (chosen.length === 0)
  line(`There is no fault with these words. There are: ${known.map(({ name }) => name).join(', ')}.`)
// A pooler or a Redis that hangs must not hold this up.
process.exit(failed === 0 && chosen.length > 0 ? 0 : 1)
