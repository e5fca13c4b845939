// `npm run worlds [family …]`: reads random worlds until so many were read of each family, or one shows a fault. `WORLDS` says how many
// (100,000), `SEED` where to begin: a batch has the next seed, and a process of its own, for what a long one remembers fills its memory.

import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'

const { WORLDS, SEED } = process.env
const wanted = Number(WORLDS ?? 100_000)
const families = process.argv.length > 2 ? process.argv.slice(2) : ['reading', 'ranges', 'beliefs']
const mostAtOnce = 2_500

for (const family of families) {
  let seed = Number(SEED ?? randomInt(1e9))
  for (let read = 0; read < wanted; read += mostAtOnce, seed++) {
    const worlds = Math.min(mostAtOnce, wanted - read)
    const { status } = spawnSync('vitest', ['run', `test/property/${family}.test.ts`, '--silent'], {
      stdio: 'inherit',
      env: { ...process.env, WORLDS: String(worlds), SEED: String(seed) },
    })
    if (status !== 0) {
      process.stdout.write(`\n${family}: a fault after ${read} worlds, in those of SEED=${seed}\n`)
      process.exit(1)
    }
    process.stdout.write(`${family}: ${read + worlds} of ${wanted} worlds, no fault\n`)
  }
}
