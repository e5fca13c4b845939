// Standard output that cannot be written, as on a full disk.

import { spawnSync } from 'node:child_process'
import { chmodSync, closeSync, mkdtempSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, inject, it } from 'vitest'
import { runTidemark } from '../support/program.ts'

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

describe('a .env that other users can read', () => {
  it('is told once, and one that they cannot is not', async () => {
    const directory = mkdtempSync(join(inject('scratch'), 'modes-'))
    const file = join(directory, '.env')
    writeFileSync(file, 'DATABASE_URL=none\n')
    const told = async (mode: number) => {
      chmodSync(file, mode)
      const { code, stderr } = await runTidemark(['status'], {}, undefined, directory)
      return [code, stderr.split('\n').filter((line) => line.includes('chmod 600 .env'))]
    }
    expect(await told(0o640)).toEqual([2, [expect.stringContaining('(mode 0640)')]])
    expect(await told(0o600)).toEqual([2, []])
  })
})
