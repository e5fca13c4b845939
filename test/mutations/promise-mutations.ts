// Faults in what keeps the other promises: at least one for each.

import type { Mutation } from './mutation.ts'

const run = { project: 'integration', test: 'test/integration/mirror-run.test.ts' } as const
const order = { project: 'integration', test: 'test/integration/mirror-order.test.ts' } as const
const values = { project: 'integration', test: 'test/integration/mirror-values.test.ts' } as const
const deletes = { project: 'integration', test: 'test/integration/mirror-deletes.test.ts' } as const
const json = { project: 'property', test: 'test/property/exact-json.test.ts' } as const
const log = { project: 'unit', test: 'test/unit/log.test.ts' } as const
const policy = { project: 'unit', test: 'test/unit/upstream-policy.test.ts' } as const

export const promiseMutations: readonly Mutation[] = [
  {
    ...order,
    promise: 'P1',
    name: 'the position is committed before its rows',
    file: 'src/mirror/page-commit.ts',
    find: 'await stagePage(client, table.shape, encoded, context.timeZone)\n',
    replace:
      'await endTurn(client, context.turn, page.position)\n    await stagePage(client, table.shape, encoded, context.timeZone)\n',
  },
  {
    ...run,
    promise: 'P2',
    name: 'a position may go down',
    file: 'src/mirror/fence.ts',
    find: 'where name = $1 and position < $4 and exists',
    replace: 'where name = $1 and position <> $4 and exists',
  },
  {
    ...run,
    promise: 'P2',
    name: 'a run that lost its turn goes on',
    file: 'src/mirror/fence.ts',
    find: 'where stream = $1 and lane = $2 and epoch = $3 for share',
    replace: 'where stream = $1 and lane = $2 and epoch >= $3 for share',
  },
  {
    ...order,
    promise: 'P3',
    name: 'what comes last wins',
    file: 'src/mirror/merge.ts',
    find: 'return `(${theirs} > ${ours} or',
    replace: 'return `(${theirs} <> ${ours} or',
  },
  {
    ...order,
    promise: 'P3',
    name: 'of equal versions the first one stays',
    file: 'src/mirror/merge.ts',
    find: '(${theirs} = ${ours} and (${isOther}))',
    replace: 'false',
  },
  {
    ...json,
    promise: 'P4',
    name: 'integers of 17 digits are taken for exact',
    file: 'src/json/json-scan.ts',
    find: 'if (end - start > 15) return true',
    replace: 'if (end - start > 17) return true',
  },
  {
    ...values,
    promise: 'P4',
    name: 'Postgres rounds fractions of seconds',
    file: 'src/mirror/value-encoding.ts',
    find: 'isInstant(value) ? cutToMicroseconds(value) : null',
    replace: 'isInstant(value) ? value : null',
  },
  {
    ...values,
    promise: 'P5',
    name: 'what fits no column is left out',
    file: 'src/mirror/row-encoding.ts',
    find: 'rescued.push([field, value])',
    replace: '',
  },
  {
    project: 'integration',
    test: 'test/integration/quarantine.test.ts',
    promise: 'P5',
    name: 'what cannot be a row is left out',
    file: 'src/mirror/page-commit.ts',
    find: 'unfit.length > 0 ? await quarantine(client, context.stream.name, unfit) : 0',
    replace: '0',
  },
  {
    ...deletes,
    promise: 'P7',
    name: 'one listing without a row is enough',
    file: 'src/mirror/absences.ts',
    find: 'from tidemark.absence as before\n       where before.stream = $1 and before.key = ${key} and mine._deleted_at is null',
    replace:
      'where $1::text is not null and mine._deleted_at is null and not exists (select from ${sightingsTable} as seen where seen.key = ${key})',
  },
  {
    ...deletes,
    promise: 'P7',
    name: 'an empty listing is believed',
    file: 'src/mirror/absences.ts',
    find: '(seen === 0 || missing * 5 > living)',
    replace: 'missing > living',
  },
  {
    project: 'integration',
    test: 'test/integration/census.test.ts',
    promise: 'P7',
    name: 'what the census lacked is gone without a look',
    file: 'src/sync/census.ts',
    find: "if (answer === 'unclear') findings.unclear += 1\n        else if (answer === 'gone')",
    replace: "if (answer === 'unclear' || answer === 'gone')",
  },
  {
    ...run,
    promise: 'P8',
    name: 'the line of a program that was ended stays as it is',
    file: 'src/mirror/ledger.ts',
    find: "where stream = $1 and lane = $2 and status = 'running'\n     ), state",
    replace: "where stream = $1 and lane = $2 and status = 'done'\n     ), state",
  },
  {
    ...order,
    promise: 'P8',
    name: 'a page is committed in two parts',
    file: 'src/mirror/page-commit.ts',
    find: 'const merged = await mergePage(client, table.shape, context.collectArrivals)\n',
    replace:
      "const merged = await mergePage(client, table.shape, context.collectArrivals)\n    await client.query('commit; begin')\n",
  },
  {
    ...log,
    promise: 'P9',
    name: 'a known secret is printed',
    file: 'src/log.ts',
    find: 'if (clean.includes(secret))',
    replace: 'if (clean === secret)',
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
    ...run,
    promise: 'P10',
    name: 'each idle poll has a line of its own',
    file: 'src/mirror/ledger.ts',
    find: 'and $9 and previous.is_idle',
    replace: 'and not $9 and previous.is_idle',
  },
  {
    project: 'integration',
    test: 'test/integration/client-pacing.test.ts',
    promise: 'P10',
    name: 'only the request that got it heeds a Retry-After',
    file: 'src/upstream/pacing.ts',
    find: 'if (until > held.until) held = { until, status }',
    replace: '',
  },
  {
    ...policy,
    promise: 'P10',
    name: 'requests come as fast as they like',
    file: 'src/upstream/rate-limit.ts',
    find: 'Math.min(lastMs + intervalMs - nowMs, intervalMs)',
    replace: '0',
  },
  {
    project: 'integration',
    test: 'test/integration/related-trouble.test.ts',
    promise: 'P8',
    name: 'a wish to read an assignment again is lost while it is read',
    file: 'src/mirror/related.ts',
    find: 'case when known.retry_at between $5 and clock_timestamp() then known.retry_at end',
    replace: 'case when false then $5::timestamptz end',
  },
  {
    project: 'integration',
    test: 'test/integration/verify.test.ts',
    promise: 'P3',
    name: 'a verification closes what a rewind left open',
    file: 'src/sync/verify.ts',
    find: 'if (context.repair) findings.repaired += await run.markGone()',
    replace: 'if (context.repair) findings.repaired += (await run.guardAgain(), await run.markGone())',
  },
]
