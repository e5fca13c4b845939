// How fast and in how much memory the real program reads the stand-in, each in a process of its own, over loopback HTTP.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Database } from '../src/store/server/connect.ts'
import { emptyStore, openBenchDatabase } from './postgres.ts'
import type { Result } from './report.ts'

const program = fileURLToPath(new URL('../bin/tidemark.js', import.meta.url))
const sizes = [200_000, 1_000_000]

type Environment = Readonly<Record<string, string | undefined>>
type Reading = { readonly rowsPerSecond: number; readonly requests: number; readonly megabytes: number }

/** `ceiling` is what one connection wrote at best in this run of the bench. */
export async function benchReading(ceiling: number, say: (what: string) => void): Promise<readonly Result[]> {
  const database = await openBenchDatabase()
  const results: Result[] = []
  try {
    for (const size of sizes) {
      await emptyStore(database)
      const upstream = await startUpstream(size)
      try {
        const environment = {
          ...process.env,
          ...upstream.environment,
          DATABASE_URL: database.url,
          LOG_LEVEL: 'error',
        }
        results.push(...(await measure(database, environment, size, ceiling, say)))
      } finally {
        upstream.stop()
      }
    }
    return results
  } finally {
    await database.close()
  }
}

async function measure(
  database: Database,
  environment: Environment,
  size: number,
  ceiling: number,
  say: (what: string) => void,
): Promise<readonly Result[]> {
  const rows = size.toLocaleString('en')
  const first = await sync(environment, [])
  say(`reading ${rows} rows: ${Math.round(first.rowsPerSecond)} rows/s, ${Math.round(first.megabytes)} MB`)
  const again = await sync(environment, ['--kind', 'lookback'])
  say(`reading them again: ${Math.round(again.rowsPerSecond)} rows/s, ${Math.round(again.megabytes)} MB`)
  const idle = await sync(environment, [])
  say(`an idle poll: ${idle.requests} request`)
  const { rows: counted } = await database.pool.query<{ count: string }>(
    'select count(*) from mirror.assignment',
  )
  if (Number(counted[0]?.count) !== size || idle.requests !== 1)
    throw new Error('the mirror is not what it should be')
  return [
    {
      what: `end to end, ${rows} assignments`,
      rowsPerSecond: first.rowsPerSecond,
      ratio: first.rowsPerSecond / ceiling,
      to: 'ceiling',
      wanted: 0.7,
    },
    { what: `end to end, the same again, all unchanged`, rowsPerSecond: again.rowsPerSecond },
    { what: `peak memory of that program, ${rows} assignments`, megabytes: first.megabytes, wanted: 256 },
  ]
}

async function startUpstream(assignments: number): Promise<{ environment: Environment; stop(): void }> {
  const words = ['simulate', '--port', '0', '--notes', '0', '--assignments', String(assignments)]
  // With room for its garbage: it is not what is measured.
  const child = spawn(process.execPath, ['--max-semi-space-size=64', program, ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let introduction = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    introduction += text
  })
  while (!/^API_KEY=.*\n/m.test(introduction)) await once(child.stdout, 'data')
  const variables = [...introduction.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name = '', value = '']) => [
    name,
    value,
  ])
  return {
    environment: Object.fromEntries(variables.filter(([name]) => name !== 'TOKEN')),
    stop: () => child.kill(),
  }
}

async function sync(environment: Environment, words: readonly string[]): Promise<Reading> {
  const child = spawn(program, ['sync', 'assignment', '--json', ...words], {
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let peakKilobytes = 0
  const watch = setInterval(() => {
    peakKilobytes = Math.max(peakKilobytes, peakOf(child.pid ?? 0))
  }, 100)
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  await once(child, 'close')
  clearInterval(watch)
  const [run] = JSON.parse(printed).streams
  if (run.status !== 'done' || !run.complete)
    throw new Error(`the sync ended ${run.status}: ${run.error ?? run.note}`)
  const rowCount = run.inserted + run.updated + run.unchanged
  return {
    rowsPerSecond: rowCount / (run.duration_ms / 1000),
    requests: run.requests,
    megabytes: peakKilobytes / 1024,
  }
}

/** What Linux says the process took at most so far, in KB. */
function peakOf(pid: number): number {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
