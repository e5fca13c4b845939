// The programs that the bench starts: the static upstream, and the loader as the worker itself is started.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Database } from '../src/store/server/connect.ts'
import type { KindOfRecords } from './static-records.ts'

const upstreamProgram = fileURLToPath(new URL('./upstream.ts', import.meta.url))
const loadProgram = fileURLToPath(new URL('./load-once.ts', import.meta.url))
const quickStart = fileURLToPath(new URL('../bin/quick-start.js', import.meta.url))

export type BenchUpstream = { readonly address: string; stop(): void }

export async function startUpstream(
  recordCount: number,
  kind: KindOfRecords = 'recorded',
): Promise<BenchUpstream> {
  const words = ['--max-old-space-size=8000', upstreamProgram, String(recordCount), kind]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data')
  return { address: String(line).trim(), stop: () => child.kill() }
}

export type LoadOptions = {
  readonly pageSize: number
  readonly delayMs?: number
  readonly readers?: number
  /** The second of two readings by one program is measured. */
  readonly isAgain?: boolean
}
export type Program = {
  readonly words: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

export function loader(
  { url }: Pick<Database, 'url'>,
  upstream: string,
  kind: string,
  { pageSize, delayMs = 0, readers = 1, isAgain = false }: LoadOptions,
): Program {
  const flags = ['--max-semi-space-size=8', '--import', quickStart]
  return {
    words: [process.execPath, ...flags, loadProgram, kind, ...(isAgain ? ['again'] : [])],
    environment: {
      // As the program itself is started.
      MALLOC_ARENA_MAX: '2',
      MALLOC_MMAP_THRESHOLD_: '262144',
      MALLOC_TRIM_THRESHOLD_: '262144',
      ASSIGNMENT_BASE_URL: `${upstream}${delayMs > 0 ? `/${delayMs}ms` : ''}/assignment`,
      AUTH_URL: `${upstream}/auth`,
      SUBJECT_ID: 'bench',
      API_KEY: 'a-key-of-the-bench',
      CLIENT_GUID: '6f1c1d52-3a0b-4f0e-9a53-0b7c9d1e2a11',
      DATABASE_URL: url,
      PAGE_SIZE: String(pageSize),
      LOAD_CONNECTIONS: String(readers),
    },
  }
}

export type Started = { readonly child: ChildProcess; readonly printed: Promise<string> }

/** What it prints is known when it has ended. */
export function start({ words: [command = '', ...rest], environment }: Program): Started {
  const child = spawn(command, rest, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  return { child, printed: once(child, 'close').then(() => printed) }
}
