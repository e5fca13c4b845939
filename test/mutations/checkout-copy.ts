// A copy of the checkout for one fault after the other: what compiles there, and what its tests see.

import { type ChildProcess, fork, spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Mutation, mutated } from './mutation.ts'
import { judge, type Observation } from './verdict.ts'

const checkout = fileURLToPath(new URL('../..', import.meta.url))
const observer = fileURLToPath(new URL('observe.ts', import.meta.url))
const unshrunk = fileURLToPath(new URL('unshrunk.ts', import.meta.url))
/** A test that noticed may leave a connection that keeps its file from ending. */
const graceMs = 5_000
const notCopied = new Set(['.git', '.tidemark', 'coverage', 'node_modules'])

export type CheckoutCopy = Disposable & {
  hasPlaceFor(mutation: Mutation): boolean
  /** Replaces the fault that was put in before. */
  put(mutation: Mutation): void
  /** The first error of the compiler; null when it has none. */
  compile(): Promise<string | null>
  observe(tests: readonly string[], options: ObserveOptions): Promise<Observation>
}
type ObserveOptions = {
  readonly signal: AbortSignal
  readonly timeoutMs: number
  /** To the end, not only to the first assertion that fails. */
  readonly mustPass?: boolean
  readonly environment: NodeJS.ProcessEnv
}

export function copyCheckout(): CheckoutCopy {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-mutations-'))
  const root = join(directory, 'tidemark')
  // Whatever tests leave behind goes with the copy. Root's Postgres runs as another user, who must be able to enter.
  const scratch = join(directory, 'scratch')
  mkdirSync(scratch)
  chmodSync(directory, 0o755)
  const modules = join(checkout, 'node_modules')
  cpSync(checkout, root, { recursive: true, filter: (path) => !notCopied.has(basename(path)) })
  symlinkSync(modules, join(root, 'node_modules'))
  const withFault = (mutation: Mutation) => {
    const path = join(root, mutation.file)
    const text = readFileSync(path, 'utf8')
    return { path, text, faulty: mutated(text, mutation) }
  }
  let restore = () => {}
  return {
    hasPlaceFor: (mutation) => withFault(mutation).faulty !== null,
    put(mutation) {
      restore()
      const { path, text, faulty } = withFault(mutation)
      if (faulty === null) throw new Error(`${mutation.file} does not hold exactly once: ${mutation.find}`)
      writeFileSync(path, faulty)
      restore = () => writeFileSync(path, text)
    },
    async compile() {
      // What the compiler knows of the files that did not change makes it four times as fast.
      const known = ['--incremental', '--tsBuildInfoFile', join(directory, 'compiled')]
      const words = [join(modules, 'typescript/bin/tsc'), '--noEmit', '--pretty', 'false', ...known]
      const { status, output } = await runToEnd(words, root)
      if (status === 0) return null
      return output.split('\n').find((line) => line.includes('error TS')) ?? `tsc ended with ${status}`
    },
    observe: (tests, { environment, ...options }) =>
      observeIn(root, tests, { ...options, environment: { ...environment, TMPDIR: scratch } }),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  }
}

function runToEnd(
  words: readonly string[],
  root: string,
): Promise<{ readonly status: number | null; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, words, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    child.once('error', reject)
    child.once('close', (status) => resolve({ status, output }))
  })
}

function observeIn(root: string, tests: readonly string[], options: ObserveOptions): Promise<Observation> {
  const { signal, timeoutMs, mustPass = false, environment } = options
  return new Promise((resolve, reject) => {
    const child = fork(observer, tests, {
      cwd: root,
      env: {
        ...environment,
        MUST_PASS: mustPass ? 'yes' : 'no',
        NODE_OPTIONS: `${environment.NODE_OPTIONS ?? ''} --import ${JSON.stringify(unshrunk)}`,
      },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      // A group of its own, so that whatever the tests started ends with it.
      detached: true,
    })
    let seen: Observation | null = null
    let failure = 'the tests ended without a result'
    const end = (why: string) => {
      failure = why
      killGroup(child)
    }
    let timer = setTimeout(() => end(`no result after ${timeoutMs / 1000} s`), timeoutMs)
    const abort = () => end('interrupted')
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    child.on('message', (observation: Observation) => {
      seen = observation
      if (mustPass || judge(observation).verdict !== 'noticed') return
      clearTimeout(timer)
      timer = setTimeout(() => end('noticed'), graceMs)
    })
    child.once('error', reject)
    child.once('exit', () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
      killGroup(child)
      resolve(seen ?? { passed: 0, failures: [], otherErrors: [failure] })
    })
  })
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Nobody is left of it.
  }
}
