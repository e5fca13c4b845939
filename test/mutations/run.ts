// `npm run mutate [words]`: puts each fault into a copy of the checkout and runs the test that must notice. Words pick the faults
// whose name, file or test hold all of them, or whose promise they are. Ends with 1 unless every fault was noticed.

import { styleText } from 'node:util'
import pg from 'pg'
import { type Services, startServices } from '../support/services.ts'
import { type CheckoutCopy, copyCheckout } from './checkout-copy.ts'
import { allMutations, type Mutation, pickMutations } from './mutation.ts'
import { judge, type Verdict } from './verdict.ts'

const timeoutMs = 300_000
// Each fault makes a test fail, and nobody wants to look at its database.
process.env.KEEP_TEST_DATABASES ??= 'no'

const chosen = pickMutations(allMutations, process.argv.slice(2))
const startedMs = performance.now()
const interrupted = new AbortController()
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort())

const line = (text: string) => process.stdout.write(`${text}\n`)
const secondsSince = (ms: number) => Math.round((performance.now() - ms) / 1000)

async function main(): Promise<number> {
  if (chosen.length === 0) {
    line('No fault has these words in its promise, name, file or test.')
    return 1
  }
  const needsServices = chosen.some(({ test }) => !/^test\/(unit|property)\//.test(test))
  const services = needsServices ? await startServices() : null
  try {
    using copy = copyCheckout()
    return await tryAll(copy, await openTests(services))
  } finally {
    await services?.stop()
  }
}

async function tryAll(copy: CheckoutCopy, tests: Tests): Promise<number> {
  const problems = await problemsWithoutFault(copy, tests)
  if (interrupted.signal.aborted) return 130
  if (problems.length > 0) {
    line('Nothing can be told, as this is wrong without any fault:')
    for (const problem of problems) line(`  ${problem}`)
    return 1
  }
  await tests.keepDatabases()
  line(`without a fault all pass (${secondsSince(startedMs)} s)\n`)
  const show = openTable(chosen)
  let noticed = 0
  for (const mutation of chosen) {
    const begunMs = performance.now()
    const verdict = await tryOne(copy, tests, mutation)
    if (interrupted.signal.aborted) return 130
    show(mutation, verdict, secondsSince(begunMs))
    if (verdict.verdict === 'noticed') noticed += 1
    await tests.dropDatabases()
  }
  line(`\n${noticed} of ${chosen.length} noticed in ${secondsSince(startedMs)} s`)
  return noticed === chosen.length ? 0 : 1
}

/** A test that fails anyway notices nothing. */
async function problemsWithoutFault(copy: CheckoutCopy, { environment }: Tests): Promise<readonly string[]> {
  const homeless = chosen.filter((mutation) => !copy.hasPlaceFor(mutation))
  if (homeless.length > 0) return homeless.map(({ name, file }) => `"${name}" finds no place in ${file}`)
  const { signal } = interrupted
  const files = [...new Set(chosen.map(({ test }) => test))]
  const [compileError, { failures, otherErrors }] = await Promise.all([
    copy.compile(),
    copy.observe(files, { signal, timeoutMs: timeoutMs * 3, mustPass: true, environment }),
  ])
  return [...(compileError ? [compileError] : []), ...failures.map(({ title }) => title), ...otherErrors]
}

async function tryOne(copy: CheckoutCopy, { environment }: Tests, mutation: Mutation): Promise<Verdict> {
  copy.put(mutation)
  const notCompiled = new AbortController()
  const signal = AbortSignal.any([interrupted.signal, notCompiled.signal])
  const compiling = copy.compile().then((error) => {
    if (error !== null) notCompiled.abort()
    return error
  })
  const [error, observation] = await Promise.all([
    compiling,
    copy.observe([mutation.test], { signal, timeoutMs, environment }),
  ])
  return error === null ? judge(observation) : { verdict: 'does not compile', reason: error }
}

// ── the services ─────────────────────────────────────────────────────────────────────────────────────────────

type Tests = {
  readonly environment: NodeJS.ProcessEnv
  /** Those that are there now. */
  keepDatabases(): Promise<void>
  /** Those that failed tests left, and templates that a fault migrated. */
  dropDatabases(): Promise<void>
}

/** All tests share the services, so that they start once. */
async function openTests(services: Services | null): Promise<Tests> {
  const { databaseUrl = null, redisUrl = null } = services ?? {}
  const environment = {
    ...process.env,
    ...(databaseUrl !== null && { TEST_DATABASE_URL: databaseUrl }),
    ...(redisUrl !== null && { TEST_REDIS_URL: redisUrl }),
  }
  // In a given Postgres others may be at work.
  if (databaseUrl === null || process.env.TEST_DATABASE_URL)
    return { environment, keepDatabases: async () => {}, dropDatabases: async () => {} }
  const admin = async (sql: string, values: readonly unknown[] = []) => {
    const client = new pg.Client(databaseUrl)
    await client.connect()
    try {
      return (await client.query<{ name: string }>(sql, [...values])).rows.map(({ name }) => name)
    } finally {
      await client.end()
    }
  }
  let kept: readonly string[] = []
  return {
    environment,
    async keepDatabases() {
      kept = await admin('select datname as name from pg_database')
    },
    async dropDatabases() {
      const left = await admin('select datname as name from pg_database where datname <> all ($1)', [kept])
      for (const name of left) await admin(`drop database ${pg.escapeIdentifier(name)} with (force)`)
    },
  }
}

// ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

const shortTest = (test: string) => test.replace(/^test\/(.*)\.test\.ts$/, '$1')

function openTable(mutations: readonly Mutation[]) {
  const widest = (texts: readonly string[]) => Math.max(...texts.map(({ length }) => length))
  const widths = [
    'promise'.length,
    widest(mutations.map(({ name }) => name)),
    widest(mutations.map(({ test }) => shortTest(test))),
    'failed otherwise'.length,
  ]
  const row = (...cells: readonly string[]) =>
    cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ')
  line(row('promise', 'fault', 'test', 'verdict', ' s', 'by'))
  return ({ promise, name, test }: Mutation, { verdict, reason }: Verdict, seconds: number) => {
    const text = row(promise, name, shortTest(test), verdict, String(seconds).padStart(2), reason)
    line(verdict === 'noticed' ? text : styleText('red', text))
  }
}

process.exitCode = await main()
