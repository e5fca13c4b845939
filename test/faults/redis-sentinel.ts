// The sentinels make another Redis the primary: because somebody asks them to, because it was killed, and because it is frozen and keeps its
// connections. The worker has the rights in Redis that the manual names, and no others.

import { join } from 'node:path'
import { deniedBy, primaryName, rulesOf, type Sentinels, startSentinels } from '../support/redis-servers.ts'
import { expectInTime, expectNothingStuck } from './redis-after.ts'
import {
  begunWell,
  expectNoSurprise,
  type Fault,
  type Stage,
  seconds,
  type Trial,
  untilWell,
} from './stage.ts'

type Round = Parameters<Sentinels['untilMoved']>[0]
type Way = {
  readonly what: string
  begin(primary: Round, all: Sentinels): unknown
  end(primary: Round): unknown
}
const ways: readonly Way[] = [
  {
    what: 'asked to',
    begin: (_, { sentinels }) => sentinels[0]?.tell('SENTINEL', 'failover', primaryName),
    end: () => {},
  },
  { what: 'killed', begin: (primary) => primary.kill(), end: (primary) => primary.start() },
  { what: 'frozen', begin: (primary) => primary.freeze(), end: (primary) => primary.thaw() },
]
const rounds = 3

export const redisSentinel: Fault = {
  name: 'redis sentinel names another primary',
  needs: ['redis-server'],
  async try(stage) {
    const { all, trial } = await startWithSentinels(stage)
    const seen: string[] = []
    for (const way of Array.from({ length: rounds }, () => ways).flat()) {
      const primary = await all.primary()
      await way.begin(primary, all)
      await all.untilMoved(primary)
      const movedMs = performance.now()
      const wellMs = await untilWell(stage, trial, movedMs)
      if (wellMs > longestMs)
        throw new Error(`${way.what}: well only ${seconds(wellMs)} after the new primary was there`)
      await expectInTime(trial)
      await expectNothingStuck(await all.primary())
      await way.end(primary)
      await all.untilWhole()
      seen.push(`${way.what} ${seconds(wellMs)}`)
    }
    expectNoSurprise(trial.worker)
    const denied = await Promise.all([...all.servers, ...all.sentinels].map(deniedBy))
    if (denied.flat().length > 0) throw new Error(`refused by Redis: ${denied.flat().join('; ')}`)
    return `well after another one was the primary: ${seen.join(', ')}; all streams in time, 0 differences`
  },
}

/** A worker takes jobs again within this. */
const longestMs = 15_000
const frozenForMs = [3_000, 8_000, 30_000]

export const redisFrozen: Fault = {
  name: 'redis is frozen, with all of its replicas',
  needs: ['redis-server'],
  async try(stage) {
    const { all, trial } = await startWithSentinels(stage)
    const seen: string[] = []
    for (const ms of frozenForMs) {
      for (const server of all.servers) server.freeze()
      await new Promise((resolve) => setTimeout(resolve, ms))
      for (const server of all.servers) server.thaw()
      const thawedMs = performance.now()
      const wellMs = await untilWell(stage, trial, thawedMs)
      await expectInTime(trial)
      await all.untilWhole()
      await expectNothingStuck(await all.primary())
      seen.push(`for ${seconds(ms)}: ${seconds(wellMs)}`)
    }
    expectNoSurprise(trial.worker)
    return `well after it was frozen ${seen.join(', ')}; all streams in time, 0 differences`
  },
}

async function startWithSentinels(
  stage: Stage,
): Promise<{ readonly all: Sentinels; readonly trial: Pick<Trial, 'worker' | 'databaseUrl'> }> {
  const operator = { username: 'default', password: 'of-operators' }
  const users = 'user default on >of-operators ~* &* +@all'
  const all = await startSentinels({
    ...{ directory: join(stage.directory, 'sentinels'), servers: 3, sentinels: 3, downAfterMs: 2_000 },
    secured: {
      server: [
        users,
        'masteruser default',
        'masterauth of-operators',
        `user tidemark ${rulesOf('tidemark')}`,
      ],
      sentinel: [
        ...[users, `user tidemark-sentinel ${rulesOf('tidemark-sentinel')}`],
        ...['sentinel sentinel-user default', 'sentinel sentinel-pass of-operators'],
      ],
      monitor: [`auth-user ${primaryName} default`, `auth-pass ${primaryName} of-operators`],
      ...{ operator, sentinelOperator: operator },
    },
  })
  stage.defer(() => all[Symbol.asyncDispose]())
  const { url: databaseUrl } = await stage.startPostgres()
  const places = all.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')
  const worker = await stage.startWorker({
    DATABASE_URL: databaseUrl,
    REDIS_URL: `redis+sentinel://tidemark@${places}/${primaryName}?sentinelUsername=tidemark-sentinel`,
    REDIS_PASSWORD: 'word-of-tidemark',
    REDIS_SENTINEL_PASSWORD: 'word-of-tidemark-sentinel',
    REQUESTS_PER_SECOND: '50',
  })
  const trial = { worker, databaseUrl }
  await begunWell(stage, trial)
  return { all, trial }
}
