// The workers of the soak: real processes that are killed, frozen and started again.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Environment } from '../../src/config/load.ts'

const ownProgram = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))

export type SoakWorker = {
  readonly name: string
  /** Resident memory in MB; null while there is no process. */
  memoryMb(): number | null
  /** Processor time used so far by the process, in seconds. */
  cpuSeconds(): number
  kill(): Promise<void>
  start(): void
  freeze(): void
  thaw(): void
  /** Returns how it ended and how long that took. */
  stop(): Promise<{ readonly code: number | null; readonly tookMs: number }>
  /** Ends nobody asked for. */
  readonly surprises: readonly string[]
}

type Options = {
  readonly name: string
  readonly directory: string
  readonly environment: Environment
  /** Left out: that of this checkout. */
  readonly program?: string
}

export function openSoakWorker({ name, directory, environment, program = ownProgram }: Options): SoakWorker {
  const log = createWriteStream(`${directory}/${name}.log`, { flags: 'a' })
  const surprises: string[] = []
  let child: ChildProcess | null = null
  let isExpected = false

  function start(): void {
    isExpected = false
    // By its first line, which bounds its memory.
    const started = spawn(program, ['serve'], {
      cwd: directory,
      env: { PATH: process.env.PATH, ...environment },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    started.stderr?.pipe(log, { end: false })
    started.on('exit', (code, signal) => {
      if (!isExpected) surprises.push(`${name} ended by itself with ${code ?? signal}`)
    })
    child = started
  }

  const procFile = (file: string): string | null => {
    try {
      return readFileSync(`/proc/${child?.pid}/${file}`, 'utf8')
    } catch {
      return null
    }
  }
  start()
  return {
    name,
    surprises,
    memoryMb() {
      const kilobytes = /VmRSS:\s+(\d+)/.exec(procFile('status') ?? '')?.[1]
      return kilobytes === undefined ? null : Number(kilobytes) / 1024
    },
    cpuSeconds() {
      const fields = procFile('stat')?.split(') ')[1]?.split(' ') ?? []
      return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / 100
    },
    async kill() {
      isExpected = true
      const ended = child && child.exitCode === null ? once(child, 'exit') : null
      child?.kill('SIGKILL')
      await ended
    },
    start,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    async stop() {
      isExpected = true
      const startedMs = performance.now()
      if (!child || child.exitCode !== null) return { code: child?.exitCode ?? null, tookMs: 0 }
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      const [code] = await ended
      return { code, tookMs: Math.round(performance.now() - startedMs) }
    },
  }
}
