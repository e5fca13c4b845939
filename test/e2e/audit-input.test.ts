// Wrong input to the verbs of audit and repair: one line that says what would be right, exit 2, and nothing changed. The program is
// started for the first case of each verb: how an error leaves it is the same for all.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { UsageError } from '../../src/util/errors.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { streamOf } from '../support/streams.ts'
import { callVerb, runHere } from '../support/verbs.ts'

const assignment = streamOf('assignment')
const note = streamOf('assignment_note')

describe.skipIf(!hasPostgres)('wrong input', () => {
  const database = createTestDatabase()
  it('is told in one line and changes nothing', async () => {
    await using simulator = await startSimulator({ assignments: 20, notes: 20 })
    const environment = environmentFor(simulator, database)
    {
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      await context.read(note, 'incremental', { signal })
    }
    const { rows } = await database.pool.query(
      `select id from tidemark.checkpoint where stream = 'assignment_note' limit 1`,
    )
    const ofAnother: string = rows[0].id
    const here: string = (
      await database.pool.query(`select position from tidemark.stream where name = 'assignment'`)
    ).rows[0].position
    const state = async () =>
      (
        await database.pool.query(
          `select (select jsonb_agg(s order by name) from tidemark.stream as s) as streams,
                  (select jsonb_agg(l order by stream, lane) from tidemark.lease as l) as lanes,
                  (select count(*) from tidemark.checkpoint) as checkpoints, (select count(*) from tidemark.run) as runs,
                  (select count(*) from tidemark.backfill) as backfills, (select count(*) from tidemark.missed_rows) as rescues`,
        )
      ).rows
    const before = await state()
    const because = ['--reason', 'a test']
    const cases: readonly (readonly [words: readonly string[], told: RegExp])[] = [
      [
        ['rewind', 'assignment', '--to-version', '1e5', ...because],
        /^"1e5" is not a row version: write a whole number from 0 to 9223372036854775807/,
      ],
      [
        ['rewind', 'assignment', '--to-version', '9223372036854775808', ...because],
        /from 0 to 9223372036854775807/,
      ],
      [['rewind', 'assignment', '--to-version=-1', ...because], /is not a row version: write a whole number/],
      [['rewind', 'assignment', '--to-version', '5'], /needs --reason/],
      [['rewind', 'assignment', ...because], /Say where to rewind to: --to-version/],
      [
        ['rewind', 'assignment', '--to-version', '5', '--to-time', '2025-01-01', ...because],
        /^Give a row version or a time, not both/,
      ],
      [
        ['rewind', 'assignment', '--to-version', '999999', ...because],
        /would skip everything in between; if you want that: `tidemark rewind` with --force/,
      ],
      [
        ['rewind', 'assignment', '--to-checkpoint', ofAnother, ...because],
        /Checkpoint \d+ belongs to assignment_note, not to assignment/,
      ],
      [['rewind', 'assignment', '--to-checkpoint', '987654', ...because], /There is no checkpoint 987654/],
      [
        ['rewind', 'assignment', '--to-time', '2001-01-01T00:00:00Z', ...because],
        /had no position yet: its first checkpoint was at 2\S+\. To begin at the very first record, give row version 0\.$/,
      ],
      [
        ['rewind', 'assignment', '--to-time', '2999-01-01', ...because],
        /^2999-\S+ has not come yet\. Write a/,
      ],
      [
        ['rewind', 'assignment', '--to-version', here, ...because],
        /^assignment is at \d+ already, so there is nothing to go back to\.$/,
      ],
      [['rewind', 'assignment', '--to-time', 'yesterday', ...because], /write it as 2025-01-31T14:30:00Z/],
      [
        ['rewind', 'assignment', '--to-time', '2025-02-31T14:30:00Z', ...because],
        /^"2025-02-31T14:30:00Z" is not a time: write it as/,
      ],
      [
        ['rewind', 'tracker_object', '--to-version', '5', ...because],
        /tracker_object is read whole each time and has no positions. Streams with positions are assignment, assignment_note/,
      ],
      [['rewind'], /takes one stream/],
      [['backfill', 'assignment', '--from-version', 'x'], /not a row version: write a whole number/],
      [
        ['backfill', 'assignment', '--from-version', '5', '--to-version', '5'],
        /Row version 5 is not above 5/,
      ],
      [['backfill', 'assignment', '--from-version', '99999999'], /there is nothing between 99999999 and it/],
      [['backfill', 'assignment', '--from-checkpoint', ofAnother], /not to assignment/],
      [['backfill', 'assignment', '--at', '2001-01-01'], /its first checkpoint was at/],
      [['backfill', 'assignment', '--at', '2999-01-01'], /has not come yet/],
      [['backfill', 'tracker_object', '--from-version', '5'], /has no positions/],
      [['backfill', 'assignment'], /Say where the backfill begins: --from-version/],
      [['backfill', '--cancel', '12345'], /There is no backfill 12345/],
      [['reconcile', 'asignment'], /There is no stream "asignment"; did you mean assignment\?/],
      [
        ['reconcile', '--acknowledge', 'nothing_like_it'],
        /There is no stream "nothing_like_it"\. The streams here are assignment, .+[a-z]\.$/,
      ],
      [['reconcile', '--acknowledge', 'assignment', 'assignment_note'], /takes one stream/],
      [
        ['deletions', 'aprove'],
        /`tidemark deletions` has no "aprove"\. Did you mean `tidemark deletions approve`\?/,
      ],
      [['deletions', 'approve'], /takes one stream/],
      [['deletions', 'approve', 'assignment'], /No deletions of assignment are blocked/],
      [
        ['deletions', 'approve', 'assignment', '--rows', '1e3'],
        /--rows must be a whole number from 1 on, not "1e3"/,
      ],
      [['deletions', 'reject', 'assignment'], /No deletions of assignment are blocked/],
      [['deletions', 'list', 'asignment'], /did you mean assignment\?/],
      [['backfill', '--list', '--cancel', '5'], /either --list or --cancel, not both/],
      [
        ['backfill', '--cancel', '5', '--dry-run'],
        /^--dry-run goes with a new backfill, not with --cancel\.$/,
      ],
      [
        ['backfill', '--list', '--from-version', '0'],
        /^--from-version goes with a new backfill, not with --list\.$/,
      ],
      [
        ['sources', 'drop', 'acme', '--confirm', 'acme', '--dry-run'],
        /^--dry-run goes with `tidemark sources apply`, not with drop\. Nothing was changed\./,
      ],
      [['sources', 'pause', 'acme', '--confirm', 'acme'], /^--confirm goes with `tidemark sources drop`/],
      [['runs', 'shwo', '5'], /^`tidemark runs` has no "shwo"\. Did you mean `tidemark runs show`\?/],
      [['backfill', 'assignment', '--cancel', '5'], /takes an id, and no stream/],
      [['verify', 'tracker_object', '--sample', '5'], /cannot be asked for by id/],
      [['verify', 'assignment', '--sample', '0'], /must be a whole number from 1 on/],
      [['verify', 'assignment', '--sample', '1e30'], /must be a whole number from 1 on/],
      [['checkpoints', 'tracker_object'], /^tracker_object is read whole each time and has no positions/],
      [['checkpoints', '--limit', '99999999999999999999'], /must be a whole number from 1 on/],
      [['quarantine', '--limit', '1e30'], /must be a whole number from 1 on/],
      [['migrate', 'assignment'], /takes options only/],
      [['verify', 'assignment', '--sample', '5', '--repair'], /--sample only reports/],
      [['quarantine', 'drop', '5'], /needs --reason/],
      [['quarantine', 'drop', '5', ...because], /There is no record 5 in quarantine/],
      [['quarantine', 'retry', '5'], /There is no record 5 in quarantine/],
      [
        ['quarantine', 'retyr'],
        /`tidemark quarantine` has no "retyr"\. Did you mean `tidemark quarantine retry`\?/,
      ],
      [['quarantine', 'asignment'], /There is no stream "asignment"; did you mean assignment\?/],
      [['explain', 'assignment'], /takes a stream and a key/],
      [
        ['explain', 'assignment', 'abc'],
        /"abc" cannot be a key of assignment: its key AssignmentId is a whole number/,
      ],
    ]
    for (const [words, told] of cases) {
      const { error, stdout, logged } = await callVerb(words, environment)
      expect({ words, stdout, logged }).toEqual({ words, stdout: '', logged: '' })
      expect(error, words.join(' ')).toBeInstanceOf(UsageError)
      expect(error).toMatchObject({ message: expect.stringMatching(told) })
      expect(error).toMatchObject({ message: expect.not.stringContaining('\n') })
    }
    const firstOfEachVerb = new Map(cases.toReversed().map((one) => [one[0][0], one]))
    for (const [words, told] of firstOfEachVerb.values()) {
      const { code, stdout, stderr } = await runHere(words, environment)
      expect({ words, code, stdout }).toEqual({ words, code: 2, stdout: '' })
      expect(stderr).toMatch(told)
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    }
    expect(await state()).toEqual(before)
  })
})
