// What was done, told afterwards in the terminal: the runs, one of them step by step, and who did what.

import { describe, expect, it } from 'vitest'
import { actions } from '../../src/cli/actions.ts'
import { pause } from '../../src/cli/pause.ts'
import { runs } from '../../src/cli/runs.ts'
import { readHappeningsInWords } from '../../src/operator/happenings.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { UsageError } from '../../src/util/errors.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { streamOf } from '../support/streams.ts'
import { callCommand, callVerb } from '../support/verbs.ts'

describe.skipIf(!hasPostgres)('what was done', () => {
  const database = createTestDatabase()
  const told = async (command: typeof runs, ...words: readonly string[]) =>
    (await callCommand(command, words, { DATABASE_URL: database.url })).stdout

  it('is listed by stream and kind, and a run is shown line by line', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await callVerb(['sync', 'assignment'], environmentFor(simulator, database))
    await callVerb(['verify', 'assignment'], environmentFor(simulator, database))
    const listed = await told(runs, 'assignment', '--kind', 'incremental')
    const [, id = ''] =
      /\n(\d+) +assignment +incremental +done +20[\d-]+ [\d:]+ +\S+ m?s +30 /.exec(listed) ?? []
    expect(id, listed).not.toBe('')
    const shown = await told(runs, 'show', id)
    expect(shown).toMatch(
      /^run \d+: incremental of assignment, done, .+\n\n {2}[\d:.]{12} {2}incremental of assignment begins\n/,
    )
    expect(shown).toMatch(/ {2}done: 30 new, 0 changed, .* marked deleted\./)
    expect(JSON.parse(await told(runs, 'show', id, '--json'))).toMatchObject({
      id,
      inserted: 30,
      log: expect.arrayContaining([{ at: expect.any(String), text: 'incremental of assignment begins' }]),
    })
    expect(await told(runs, '--outcome', 'failed')).toContain('No such run is recorded')
    expect(JSON.parse(await told(runs, '--kind', 'verify', '--json'))).toHaveLength(1)
    const happenings = await readHappeningsInWords(database.pool, [streamOf('assignment')])
    expect(happenings.map(({ text }) => text)).toContain('Verification: no difference')
    await database.pool.query(
      `insert into tidemark.run (stream, kind, status, started_at, finished_at, host, pid, error)
       select 'assignment', kind, 'failed', now() + interval '3 s', now() + interval '3 s', 'a', 1, 'no answer'
       from unnest(array['incremental', 'incremental', 'lookback']) as kind`,
    )
    // Also where the clock of Postgres goes before that of this program.
    const failed = (await readHappeningsInWords(database.pool, [streamOf('assignment')])).filter(
      ({ tone }) => tone === 'bad',
    )
    expect(failed.map(({ text }) => text).toSorted()).toEqual([
      'A look-back run failed',
      'An incremental run failed',
    ])
  })

  it('names who did what, and why', async () => {
    await told(pause, 'assignment', '--reason', 'an upgrade')
    await expect(told(actions)).resolves.toMatch(
      /^20[\d-]+ [\d:]+ UTC {2}.+ \(terminal, .+\)\n {4}paused assignment, "an upgrade": done\. assignment is paused\. [^\n]+\n$/,
    )
    expect(await told(actions, 'assignment_note')).toBe('Nobody has done anything here yet.\n')
  })

  it.each([
    [['show'], '`tidemark runs show` takes the id of a run'],
    [['show', '987654321'], 'There is no run 987654321. `tidemark runs` lists them'],
    [['asignment'], 'did you mean assignment?'],
    [['--kind', 'full'], '--kind must be one of incremental, list, '],
    [['assignment', 'assignment_note'], 'takes one stream, or none'],
  ])('is asked for wrongly by %j, which is said', async (words, message) => {
    const error = await told(runs, ...words).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UsageError)
    expect(error).toMatchObject({ message: expect.stringContaining(message) })
  })
})
