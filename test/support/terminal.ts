// The real program on a pseudo-terminal, which `script` makes.

import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'
import type { Environment } from '../../src/config/load.ts'

export const hasTerminal = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0
const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))

export function onTerminal(
  words: readonly string[],
  columns: number,
  environment: Environment,
  cwd = inject('scratch'),
) {
  const command = `stty cols ${columns} rows 30; exec ${process.execPath} ${program} ${words.join(' ')}`
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'xterm', LANG: 'C.UTF-8', ...environment },
  })
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
  })
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  return { ended, shown: () => shown, type: (text: string) => child.stdin.write(text) }
}
