// The soak: three workers, a source that changes all the time, misbehaves and breaks one belief after the other, and everything else
// going wrong around them. Then quiet, and the mirror must equal the source. `SOAK_MINUTES` (10) says for how long, `SOAK_BACKEND` (redis, or postgres) where the
// queue lives, `SOAK_SEED` what goes wrong when. With `-- --faults` (or `SOAK_FAULTS=1`) the parts around the workers fail at random instead, each for
// more than two minutes, and health is compared with the truth each second.

import { chmodSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { mildMix } from '../../src/simulator/faults.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { receiveAlerts } from '../support/alert-receiver.ts'
import { environmentFor } from '../support/environment.ts'
import { missing } from '../support/installed.ts'
import { differences } from '../support/same-as-source.ts'
import { keepLittle, mountSmallDisk } from '../support/small-disk.ts'
import { percentile, watchAges } from './ages.ts'
import { breakBeliefs, tell } from './beliefs.ts'
import { makeFailure } from './chaos.ts'
import { startChurn } from './churn.ts'
import { drawFaults } from './faults.ts'
import { copyViews, followFeed } from './followers.ts'
import { postgresFaults, redisFaults, startMovingRedis, upstreamFaults } from './part-faults.ts'
import { type Finding, judgeMemory, overlappingRuns, startSampling } from './verdict.ts'
import { openSoakWorker } from './workers.ts'
import { startPostgres, startRedis } from './worlds.ts'

const minutes = Number(process.env.SOAK_MINUTES ?? 10)
const usesRedis = (process.env.SOAK_BACKEND ?? 'redis') === 'redis'
const seed = Number(process.env.SOAK_SEED ?? 1)
const withFaults = process.argv.includes('--faults') || process.env.SOAK_FAULTS === '1'
const schedule = '2s'
/** Longer than it takes until a restored backup is believed. */
const quietTimeoutMs = 1_200_000
/** Of the file system in memory that can be filled. */
const diskMb = 2_000

const directory = mkdtempSync(join(tmpdir(), 'tidemark-soak-'))
// For the Postgres of the soak when root runs it.
chmodSync(directory, 0o755)
const startedMs = performance.now()
const say = (what: string) =>
  process.stdout.write(`${((performance.now() - startedMs) / 1000).toFixed(1).padStart(7)} s  ${what}\n`)
say(`${minutes} minutes, queue in ${usesRedis ? 'Redis' : 'Postgres'}, seed ${seed}; logs in ${directory}`)

const hasDisk = withFaults && missing(['mount']) === null
const disk = hasDisk ? mountSmallDisk(join(directory, 'disk'), diskMb) : null
const postgres = await startPostgres(disk?.path ?? join(directory, 'database'))
if (disk) await keepLittle(postgres.url)
const moving = usesRedis && withFaults ? await startMovingRedis(join(directory, 'redis')) : null
const redis = moving ?? (usesRedis ? await startRedis(join(directory, 'redis')) : null)
const alerts = withFaults ? await receiveAlerts() : null
const simulator = await startSimulator({
  look: 'recorded',
  seed,
  assignments: 5_000,
  notes: 5_000,
  trackers: 50,
  objects: 100,
  faults: [...mildMix],
  behaviour: { lateFraction: 0.02, lateDelayMs: 3_000, tokenLifetimeMs: 60_000 },
})
const environment = environmentFor(
  simulator,
  { url: postgres.url },
  {
    ...(redis && { REDIS_URL: redis.url }),
    LOG_LEVEL: 'info',
    LOOKBACK: '20s',
    HISTORY: 'all',
    REQUEST_TIMEOUT: '5s',
    SCHEDULE_ASSIGNMENT: schedule,
    SCHEDULE_ASSIGNMENT_NOTE: schedule,
    SCHEDULE_TRACKER_OBJECT: '5s',
    SCHEDULE_ASSIGNMENT_OBJECT: '15s',
    SCHEDULE_DELETIONS: '15s',
    SCHEDULE_RECONCILE: '60s',
    ...(alerts && { ALERT_WEBHOOK_URL: alerts.url, ALERT_FORMAT: 'json' }),
  },
)
const ports = await Promise.all([1, 2, 3].map(() => freePort()))
const workers = ports.map((port, index) =>
  openSoakWorker({
    name: `worker-${index + 1}`,
    directory,
    environment: { ...environment, HTTP_PORT: String(port) },
  }),
)
const pool = new pg.Pool({ connectionString: postgres.url, max: 6 })
pool.on('error', () => {})

const ending = new AbortController()
const { signal } = ending
const sampling = startSampling(workers, signal)
const aging = watchAges({ simulator, pool, signal })
const feed = followFeed({ pool, random: Math.random, signal })
const past = copyViews({ pool, signal })
let randomState = seed
const random = () => {
  randomState = (Math.imul(randomState, 1_664_525) + 1_013_904_223) >>> 0
  return randomState / 2 ** 32
}
const churn = startChurn(simulator, { changesPerSecond: 50, random: Math.random })
const troubling = alerts
  ? Promise.resolve({})
  : makeFailure({ workers, postgres, redis, random, signal, say })
const comparing: Promise<readonly Finding[]> = alerts
  ? drawFaults({
      faults: [
        ...(moving ? redisFaults(moving) : []),
        ...postgresFaults(postgres, disk),
        ...upstreamFaults(simulator),
      ],
      readyUrls: ports.map((port) => `http://127.0.0.1:${port}/readyz`),
      ...{ alerts, random, signal, say },
    })
  : Promise.resolve([])
const breaking = breakBeliefs({ simulator, pool, signal, say })
await wait(minutes * 60_000)
ending.abort()
await breaking.thrown
const [ages, breaker, memory, compared] = await Promise.all([aging, troubling, sampling, comparing])

say('quiet')
const changes = churn.stop()
simulator.faults.clear()
simulator.source.commitLate()
const quietMs = performance.now()
let different: readonly string[] = ['not compared yet']
while (different.length > 0 && performance.now() - quietMs < quietTimeoutMs) {
  await wait(1_000)
  different = (
    await Promise.all([
      differences(pool, simulator, 'assignment'),
      differences(pool, simulator, 'assignment_note'),
    ])
  ).flat()
}
const equalAfterMs = Math.round(performance.now() - quietMs)
const broken = await breaking.mended(AbortSignal.timeout(5_000))

const overlaps = await overlappingRuns(pool)
const followed = [await feed.judge(), await past.judge()]
const { rows: ledger } = await pool.query(
  `select kind, status, count(*)::int as lines, sum(polls)::int as runs from tidemark.run group by 1, 2 order by 1, 2`,
)
const ends = await Promise.all(workers.map((worker) => worker.stop()))
const findings: readonly Finding[] = [
  ...compared,
  ...followed,
  {
    what: 'mirror equals source',
    isFine: different.length === 0,
    told: `${different.length} differences, ${equalAfterMs} ms after the last change`,
  },
  {
    what: 'no two runs of one lane at once',
    isFine: overlaps.length === 0,
    told: `${overlaps.length} overlaps`,
  },
  {
    what: 'every witness of a broken belief is right',
    isFine: broken.every(({ mendedMs }) => mendedMs !== null),
    told: `${broken.filter(({ mendedMs }) => mendedMs !== null).length} of ${broken.length}`,
  },
  { what: 'memory is flat', ...judgeMemory(memory) },
  {
    what: 'every worker ends with 0 within 30 s',
    isFine: ends.every(({ code, tookMs }) => code === 0 && tookMs < 30_000),
    told: JSON.stringify(ends),
  },
  {
    what: 'no worker ended by itself',
    isFine: workers.every(({ surprises }) => surprises.length === 0),
    told: workers.flatMap(({ surprises }) => surprises).join('; ') || 'none did',
  },
]
say(`changes: ${changes}; faults that struck: ${simulator.faults.struck}`)
say(`troubles: ${JSON.stringify(breaker)}`)
say(`ledger: ${JSON.stringify(ledger)}`)
for (const one of broken) say(`belief: ${one.name}: ${tell(one)}`)
say(
  `age of a change when it is visible, schedule ${schedule}: p50 ${percentile(ages, 0.5)} ms, p95 ${percentile(ages, 0.95)} ms, of ${ages.length}`,
)
for (const { what, isFine, told } of findings) say(`${isFine ? 'yes' : 'NO '}  ${what}: ${told}`)
for (const difference of different.slice(0, 10)) say(`  ${difference}`)
for (const overlap of overlaps.slice(0, 10)) say(`  ${JSON.stringify(overlap)}`)

await pool.end()
await simulator.close()
await redis?.stop()
await postgres.stop()
await alerts?.[Symbol.asyncDispose]()
disk?.leave()
process.exitCode = findings.every(({ isFine }) => isFine) ? 0 : 1
