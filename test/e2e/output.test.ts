// Standard output that cannot be written, as on a full disk.

import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))

describe('standard output that cannot be written', () => {
  it('is told in one line, and is a failure', () => {
    const readOnly = openSync(program, 'r')
    const { status, stderr } = spawnSync(process.execPath, [program, '--help'], {
      stdio: ['ignore', readOnly, 'pipe'],
      encoding: 'utf8',
    })
    closeSync(readOnly)
    expect([status, stderr]).toEqual([1, 'Standard output cannot be written (EBADF).\n'])
  })
})
