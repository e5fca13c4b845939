// `npm run fuzz`: compares the scanner with the parser on records that nobody has thought of, for half an hour. Every seed can be run
// again by itself: `npm run fuzz -- --seed 123`. Ends with 1 and the seed of the first difference.

import { parseArgs } from 'node:util'
import { newFieldOrder } from '../../src/wire/field-order.ts'
import { compareScanner } from '../support/compare-scanner.ts'
import { hostileList, hostileTable } from '../support/hostile-records.ts'
import { seededRandom } from '../support/random.ts'

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '30' }, seed: { type: 'string' } },
})
const first = Number(values.seed ?? Math.floor(Date.now() / 1000) * 1_000)
const endsAtMs = performance.now() + Number(values.minutes) * 60_000
const say = (line: string) => process.stdout.write(`${line}\n`)
const sayEveryMs = 60_000
const pagesOfASeed = 3

let [seed, lists, rows, plain] = [first, 0, 0, 0]
let sayAtMs = performance.now() + sayEveryMs
say(`seeds from ${first} on`)

do {
  const random = seededRandom(seed)
  const table = hostileTable(random)
  const hostility = {
    oddity: random.pick([0, 0.01, 0.05, 0.3]),
    damage: random.pick([0, 0, 0.5]),
  }
  const order = newFieldOrder()
  for (let page = 0; page < pagesOfASeed; page++) {
    const bytes = hostileList(random, hostility)
    try {
      const compared = await compareScanner(bytes, order, table)
      lists++
      rows += compared.rows
      plain += compared.plain
    } catch (error) {
      say(`seed ${seed}, page ${page}: ${error}\nThe list, as base64: ${bytes.toString('base64')}`)
      process.exit(1)
    }
  }
  if (performance.now() > sayAtMs) {
    say(`seed ${seed}: ${lists} lists, ${rows} rows, ${plain} of them plain, no difference`)
    sayAtMs += sayEveryMs
  }
  seed++
} while (values.seed === undefined && performance.now() < endsAtMs)
say(`seeds ${first} to ${seed - 1}: ${lists} lists, ${rows} rows, ${plain} of them plain, no difference`)
