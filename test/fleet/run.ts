// `npm run fleet`: several workers mirror the simulated upstream of many clients, and what is promised of many sources is counted: what they cost,
// that each is equal under faults, that none is delayed by others, that budgets hold. `npm run fleet -- budget outage --sources 100` runs
// the trials with these names; without names, all. `-- rolling --older FOLDER` runs workers of another checkout beside those of this one.
// With `--sentinels` Redis fails over to a replica when it is cut off. Ends with 1 when one does not hold.

import { parseArgs } from 'node:util'
import type { Finding } from '../soak/verdict.ts'
import { budget } from './budget.ts'
import { droppedAgain } from './dropped-again.ts'
import { equal } from './equal.ts'
import { fairness } from './fairness.ts'
import { idle } from './idle.ts'
import { loads } from './loads.ts'
import { outage } from './outage.ts'
import { reload } from './reload.ts'
import { rolling } from './rolling.ts'
import { equalityFinding, onStage, type Trial, untilEqual } from './stage.ts'

/** Those that leave Postgres and the workers alone come first. */
const trials: readonly Trial[] = [idle, fairness, budget, outage, loads, reload, droppedAgain, equal]
const firstLoadMs = 900_000

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sources: { type: 'string', default: '50' },
    hosts: { type: 'string', default: '10' },
    workers: { type: 'string', default: '3' },
    rows: { type: 'string', default: '1000' },
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    sentinels: { type: 'boolean', default: false },
    older: { type: 'string' },
  },
})
const { sources, hosts, workers, rows, minutes, seed } = values
const scale = {
  ...{ sources: Number(sources), hosts: Number(hosts), workers: Number(workers) },
  ...{ rows: Number(rows), minutes: Number(minutes), seed: Number(seed) },
  hasSentinels: values.sentinels,
  older: values.older ?? null,
}
const possible = scale.older === null ? trials : [rolling]
const unknown = positionals.filter((name) => possible.every((trial) => trial.name !== name))
if (unknown.length > 0)
  throw new Error(
    `There is no trial ${unknown.join(', ')}: there are ${possible.map(({ name }) => name).join(', ')}${scale.older === null ? ', and rolling with --older' : ''}.`,
  )
const chosen = possible.filter(({ name }) => positionals.length === 0 || positionals.includes(name))

const startedMs = performance.now()
const say = (what: string) =>
  process.stdout.write(`${((performance.now() - startedMs) / 1000).toFixed(1).padStart(7)} s  ${what}\n`)

function tell(trial: string, findings: readonly Finding[]): boolean {
  for (const { what, isFine, told } of findings) say(`${isFine ? 'yes' : 'NO '}  ${trial}: ${what}: ${told}`)
  return findings.every(({ isFine }) => isFine)
}

say(
  `${scale.sources} sources of 3 streams on ${scale.hosts} hosts, ${scale.workers} workers, ${scale.minutes} minutes for each trial`,
)
let isFine = true
await onStage(scale, say, async (stage) => {
  const loaded = await untilEqual(stage, stage.fleet.clients, firstLoadMs)
  isFine = tell('start', [equalityFinding('every source is equal after its first load', loaded)])
  for (const trial of chosen) {
    say(`${trial.name}: ${trial.what}`)
    isFine = tell(trial.name, await trial.run(stage)) && isFine
    for (const { requests, faults } of stage.fleet.clients) {
      requests.clear()
      faults.clear()
    }
  }
  const surprises = stage.workers.flatMap((worker) => worker.surprises)
  isFine =
    tell('end', [
      {
        what: 'no worker ended by itself',
        isFine: surprises.length === 0,
        told: surprises.join('; ') || 'none did',
      },
    ]) && isFine
})
process.exitCode = isFine ? 0 : 1
