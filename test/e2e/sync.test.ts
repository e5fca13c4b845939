// The real program against the stand-in and a real Postgres: started twice, told to stop, and told nonsense.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { isForChanges, untilAsked } from '../support/asked.ts'
import { positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark, startTidemark } from '../support/program.ts'
import { differences } from '../support/same-as-source.ts'

describe.skipIf(!hasPostgres)('a sync that is started twice', () => {
  const database = createTestDatabase()
  it('runs once; the other says who is running (P2)', async () => {
    await using simulator = await startSimulator({ assignments: 3000, notes: 10 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '100' })
    const asked = untilAsked(simulator, 1)
    const isOver = Promise.withResolvers<void>()
    const stopWaiting = simulator.onRequest((request) => (isForChanges(request) ? isOver.promise : undefined))
    const first = startTidemark(['sync', 'assignment'], environment)
    await asked
    const second = await runTidemark(['sync', 'assignment'], environment)
    expect(second.code).toBe(0)
    expect(second.stdout).toMatch(
      new RegExp(`^assignment: skipped, because it is being read already \\(process ${first.child.pid} on `),
    )
    stopWaiting()
    isOver.resolve()
    expect((await first.ended).code).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('a sync that is told to stop', () => {
  const database = createTestDatabase()
  it('commits the page in hand and ends with the status of an interruption', async () => {
    await using simulator = await startSimulator({ assignments: 3000 })
    // One page after the other: the position rises with each.
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '100', LOAD_CONNECTIONS: '1' })
    const asked = untilAsked(simulator, 14)
    const program = startTidemark(['sync', 'assignment'], environment)
    await asked
    const toldAt = performance.now()
    program.child.kill('SIGINT')
    const { code, stdout } = await program.ended
    expect(code).toBe(130)
    expect(stdout).toContain('assignment: stopped')
    expect(performance.now() - toldAt).toBeLessThan(10_000)
    const position = await positionOf(database.pool)
    expect(position).toBeGreaterThan(0n)
    expect(position).toBeLessThan(simulator.source.highestVersion('assignment') ?? 0n)
    expect((await runTidemark(['sync', 'assignment'], environment)).code).toBe(0)
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('a verb that is interrupted before it is done', () => {
  const database = createTestDatabase()
  it.each([
    [['reconcile', 'assignment']],
    [['verify', 'assignment', '--json']],
    [['backfill', 'assignment', '--from-version', '0', '--json']],
    [['explain', 'assignment', '3']],
    [['probe', '--json']],
  ])('%j ends with 130', async (words) => {
    await using simulator = await startSimulator({ assignments: 300 })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '50' })
    await runTidemark(['sync', 'assignment'], environment)
    const isAsked = Promise.withResolvers<void>()
    // It gets no answer any more.
    simulator.onRequest(({ path }) => {
      if (path.includes('Token')) return
      isAsked.resolve()
      return new Promise(() => {})
    })
    const program = startTidemark(words, environment)
    await isAsked.promise
    program.child.kill('SIGINT')
    const { code, stdout } = await program.ended
    expect(code).toBe(130)
    if (words.includes('--json')) expect(JSON.parse(stdout)).toBeInstanceOf(Object)
  })
})

describe.skipIf(!hasPostgres)('a sync', () => {
  const database = createTestDatabase()

  it('says shortly what is wrong with what it was told, and what to do', async () => {
    await using simulator = await startSimulator()
    const environment = environmentFor(simulator, database)
    for (const [words, more, code, message] of [
      [['asignment'], {}, 2, /^There is no stream "asignment"; did you mean assignment\?[^\n]*\n$/],
      [['--kind', 'tail'], {}, 2, /^--kind must be one of incremental, lookback, related, not "tail"\.\n$/],
      [
        [],
        { API_KEY: '' },
        2,
        /^The configuration [^\n]*:\n {2}API_KEY is not set[^\n]*\nSettings come from [^\n]* `tidemark init` asks for them [^\n]*\n$/,
      ],
      [['--knd', 'incremental'], {}, 2, /Did you mean --kind\?\n$/],
      [
        [],
        { DATABASE_URL: 'postgres://nobody:pw@127.0.0.1:1/none' },
        4,
        /^Postgres at 127\.0\.0\.1:1\/none[^\n]*DATABASE_URL[^\n]*\n$/,
      ],
    ] as const) {
      const ended = await runTidemark(['sync', ...words], { ...environment, ...more })
      expect(ended.stderr).toMatch(message)
      expect(ended.code).toBe(code)
    }
  })
})
