// Faults in what keeps the other promises: at least one for each.

import type { Mutation } from './mutation.ts'

const backfill = { test: 'test/integration/backfill.test.ts' } as const
const rewind = { test: 'test/integration/rewind.test.ts' } as const
const run = { test: 'test/integration/store-run.test.ts' } as const
const order = { test: 'test/integration/store-order.test.ts' } as const
const firstReading = {
  test: 'test/integration/store-first-reading.test.ts',
} as const
const values = { test: 'test/integration/store-values.test.ts' } as const
const deletes = { test: 'test/integration/store-deletes.test.ts' } as const
const vanished = { test: 'test/integration/deletions.test.ts' } as const
const damage = { test: 'test/integration/local-damage.test.ts' } as const
const log = { test: 'test/unit/log.test.ts' } as const
const policy = { test: 'test/unit/upstream-policy.test.ts' } as const

export const promiseMutations: readonly Mutation[] = [
  {
    ...order,
    promise: 'P1',
    name: 'the position is committed before its rows',
    file: 'src/store/writing/commit-page.ts',
    find: `    const merged = await insertOrMerge()
    return await end(client, context, page, {
      merged,
      rejected: encoded.rejected,
      columnsVersion: tableSchema.version,
    })
`,
    replace: `    const counts = { rowsRead: 0, inserted: 0, updated: 0, quarantined: 0 }
    const first = await context.positions.advance(client, { to: page.to, table: context.stream.name, counts })
    const merged = await insertOrMerge()
    const ending = { merged, rejected: encoded.rejected, columnsVersion: tableSchema.version }
    return { ...(await end(client, context, page, ending)), position: first.position }
`,
  },
  {
    ...run,
    promise: 'P2',
    name: 'a position may go down',
    file: 'src/store/runs/positions.ts',
    find: 'where name = $1 and position < $4 and exists',
    replace: 'where name = $1 and position <> $4 and exists',
  },
  {
    ...run,
    promise: 'P2',
    name: 'a run that lost its turn goes on',
    file: 'src/store/runs/lease.ts',
    find: 'where stream = $1 and lane = $2 and epoch = $3 for share',
    replace: 'where stream = $1 and lane = $2 and epoch >= $3 for share',
  },
  {
    ...rewind,
    promise: 'P2',
    name: 'a run that lost its turn stops the stream',
    file: 'src/store/runs/lease.ts',
    find: 'fenced: (work) => alone(() => withinLease(client, lease, work)),',
    replace: 'fenced: (work) => alone(work),',
  },
  {
    ...backfill,
    promise: 'P6',
    name: 'a backfill that was not read completely is done',
    file: 'src/store/runs/positions.ts',
    find: "const isDone = status === 'done' && isComplete",
    replace: "const isDone = status === 'done'",
  },
  {
    ...order,
    promise: 'P3',
    name: 'what comes last wins',
    file: 'src/store/writing/merge-sql.ts',
    find: 'return `(${theirs} > ${ours} or',
    replace: 'return `(${theirs} <> ${ours} or',
  },
  {
    ...order,
    promise: 'P3',
    name: 'of equal versions the first one stays',
    file: 'src/store/writing/merge-sql.ts',
    find: '(${theirs} = ${ours} and (${isOther}))',
    replace: 'false',
  },
  {
    ...firstReading,
    promise: 'P3',
    name: 'a page that is not all new is left out',
    file: 'src/store/writing/page-writer.ts',
    find: 'newRows.wereRefused()) continue',
    replace:
      'newRows.wereRefused()) return await commitNoRows(writer, { ...task, page: { ...task.page, rows: [], rejected: [] } })',
  },
  {
    ...firstReading,
    promise: 'P3',
    name: 'other content of the version where two pages meet is left out',
    file: 'src/store/writing/new-rows.ts',
    find: ' && isDeepStrictEqual(other.record, record)',
    replace: '',
  },
  {
    test: 'test/unit/json.test.ts',
    promise: 'P4',
    name: 'integers of 17 digits are taken for exact',
    file: 'src/json/scan.ts',
    find: 'if (end - start > 15) return true',
    replace: 'if (end - start > 17) return true',
  },
  {
    ...values,
    promise: 'P4',
    name: 'Postgres rounds fractions of seconds',
    file: 'src/store/encoding/copy-text.ts',
    find: 'isInstant(value) ? cutToMicroseconds(value) : null',
    replace: 'isInstant(value) ? value : null',
  },
  {
    ...values,
    promise: 'P4',
    name: 'a UTC field is read in the zone of the source',
    file: 'src/store/encoding/copy-text.ts',
    find: "(saysUtc.test(field) ? 'Z' : '')",
    replace: "''",
  },
  {
    ...values,
    promise: 'P5',
    name: 'what fits no column is left out',
    file: 'src/store/encoding/row.ts',
    find: 'rescued.push([field, value])',
    replace: '',
  },
  {
    test: 'test/integration/quarantine.test.ts',
    promise: 'P5',
    name: 'what cannot be a row is left out',
    file: 'src/store/writing/commit-page.ts',
    find: 'quarantined > 0 ? await quarantine(client, stream.name, rejected) : 0',
    replace: '0',
  },
  {
    ...deletes,
    promise: 'P7',
    name: 'one listing without a row is enough',
    file: 'src/store/runs/absences.ts',
    find: "from: 'tidemark.suspect as before',\n          where: `before.stream = $1 and before.key = ${keyText(tableSchema)}\n            and not exists (select from ${seenKeysTable} as seen where seen.key = before.key and",
    replace:
      'where: `$1::text is not null\n            and not exists (select from ${seenKeysTable} as seen where seen.key = ${keyText(tableSchema)} and',
  },
  {
    ...deletes,
    promise: 'P7',
    name: 'an empty listing is believed',
    file: 'src/sync/ports/store.ts',
    find: '(seen === 0 || missing * 5 > living)',
    replace: 'missing > living',
  },
  {
    ...deletes,
    promise: 'P7',
    name: 'an operator who believes a few rows gone believes them all gone',
    file: 'src/store/runs/absences.ts',
    find: 'missing > approved &&',
    replace: 'approved === 0 && missing > 0 &&',
  },
  {
    ...deletes,
    promise: 'P7',
    name: 'a page from before a deletion takes it back',
    file: 'src/store/writing/merge-sql.ts',
    find: 'mine._deleted_at > statement_timestamp() - make_interval(secs => $1::float8 / 1000)',
    replace: '$1::float8 < 0',
  },
  {
    ...vanished,
    promise: 'P7',
    name: 'what the list lacks is gone without a look',
    file: 'src/sync/deletions/find-deletions.ts',
    find: "if (answer === 'gone')\n",
    replace: "if (answer === 'gone' || keys.length > 0)\n",
  },
  {
    ...vanished,
    promise: 'P11',
    name: 'vanished records are looked for while polls show nothing known',
    file: 'src/sync/deletions/find-deletions.ts',
    find: 'if (run.state.inconclusiveRuns > 0)',
    replace: 'if (run.state.inconclusiveRuns < 0)',
  },
  {
    ...vanished,
    promise: 'P7',
    name: 'too many missing at once are believed',
    file: 'src/sync/deletions/find-deletions.ts',
    find: 'if (!isDoubtful(shortfall)) return null',
    replace: 'if (shortfall.missing >= 0) return null',
  },
  {
    test: 'test/integration/reconcile.test.ts',
    promise: 'P7',
    name: 'what the reconcile lacked is gone without a look',
    file: 'src/sync/reconcile/reconcile.ts',
    find: "if (answer === 'unclear') findings.unclear += 1\n        else if (answer === 'gone')",
    replace: "if (answer === 'unclear' || answer === 'gone')",
  },
  {
    ...run,
    promise: 'P8',
    name: 'the line of a program that was ended stays as it is',
    file: 'src/store/runs/ledger.ts',
    find: "where stream = $1 and kind = any ($5) and status = 'running'\n  ), state",
    replace: "where stream = $1 and kind = any ($5) and status = 'done'\n  ), state",
  },
  {
    ...order,
    promise: 'P8',
    name: 'a page is committed in two parts',
    file: 'src/store/writing/commit-page.ts',
    find: 'const merged = await insertOrMerge()\n',
    replace: "const merged = await insertOrMerge()\n    await client.query('commit; begin')\n",
  },
  {
    ...log,
    promise: 'P9',
    name: 'a known secret is printed',
    file: 'src/log.ts',
    find: '[...secrets.values(), ...tokens.values()]',
    replace: '[...tokens.values()]',
  },
  {
    ...log,
    promise: 'P9',
    name: 'a bearer token that nobody knows is printed',
    file: 'src/log.ts',
    find: '/\\b(Bearer\\s+)',
    replace: '/\\b(Bearers\\s+)',
  },
  {
    promise: 'P9',
    test: 'test/integration/alerts.test.ts',
    name: 'an alert follows its receiver elsewhere',
    file: 'src/problems/alert-loop.ts',
    find: "redirect: 'manual'",
    replace: "redirect: 'follow'",
  },
  {
    promise: 'P9',
    test: 'test/unit/alerts.test.ts',
    name: 'an alert holds what is secret',
    file: 'src/problems/alerts.ts',
    find: 'const clean = redact(text)',
    replace: 'const clean = text',
  },
  {
    ...run,
    promise: 'P10',
    name: 'each idle poll has a line of its own',
    file: 'src/store/runs/ledger.ts',
    find: 'and $9 and previous.is_idle',
    replace: 'and not $9 and previous.is_idle',
  },
  {
    test: 'test/integration/client-pacing.test.ts',
    promise: 'P10',
    name: 'only the request that got it heeds a Retry-After',
    file: 'src/upstream/http/pacing.ts',
    find: 'if (until > pause.until) pause = { until, status }',
    replace: '',
  },
  {
    ...policy,
    promise: 'P10',
    name: 'requests come as fast as they like',
    file: 'src/upstream/http/pacing.ts',
    find: 'Math.min(lastMs + intervalMs - nowMs, intervalMs)',
    replace: '0',
  },
  {
    test: 'test/integration/related-trouble.test.ts',
    promise: 'P8',
    name: 'a wish to read an assignment again is lost while it is read',
    file: 'src/store/runs/related-work.ts',
    find: 'case when known.retry_at between $5 and clock_timestamp() then known.retry_at end',
    replace: 'case when false then $5::timestamptz end',
  },
  {
    test: 'test/integration/verify.test.ts',
    promise: 'P3',
    name: 'a verification closes what a rewind left open',
    file: 'src/store/runs/absences.ts',
    find: 'parts.onMarked(marked)\n',
    replace:
      "parts.onMarked(marked)\n        await client.query('update tidemark.stream set unguarded_above = null, unguarded_before = null')\n",
  },
  {
    test: 'test/integration/missed-reconcile.test.ts',
    promise: 'P13',
    name: 'the list is not compared after a first load',
    file: 'src/store/queries/due.ts',
    find: '(first_read_through_at < $2 or last_reconcile_at is null)',
    replace: 'first_read_through_at < $2',
  },
  {
    test: 'test/integration/reconcile.test.ts',
    promise: 'P13',
    name: 'what was read a moment ago is settled',
    file: 'src/sync/reconcile/reconcile.ts',
    find: 'settled: held === null ? null : { version: held, at: past }',
    replace: 'settled: { version: settled, at: now() }',
  },
  {
    ...damage,
    promise: 'P15',
    name: 'what somebody changed in a table is noted, but not looked for',
    file: 'src/store/schema/watch-table.ts',
    find: 'where stream = known.name and run_id is null)\n',
    replace: 'where stream = known.name and false)\n',
  },
  {
    ...damage,
    promise: 'P15',
    name: 'a table in place of ours is believed',
    file: 'src/store/schema/watch-table.ts',
    find: "if (table_oid !== known_oid) return 'replace'",
    replace: 'if (table_oid !== known_oid) return null',
  },
]
