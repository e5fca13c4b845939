// Where the compiled code is kept: Node runs what lies there, so nobody else may be able to write it.

import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'

const project = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-compile-cache-')))
const directory = join(project, 'node_modules/.cache', `tidemark-${process.getuid?.() ?? 'user'}`)
cpSync(fileURLToPath(new URL('../../bin', import.meta.url)), join(project, 'bin'), { recursive: true })

/** What the program says of it; null when there is none. */
function cacheOf(): string | null {
  const source = `process.stdout.write(String(require('node:module').getCompileCacheDir() ?? ''))`
  const words = ['--import', join(project, 'bin/quick-start.js'), '--eval', source]
  return execFileSync(process.execPath, words, { env: {}, encoding: 'utf8' }) || null
}

describe('the compile cache', () => {
  afterAll(() => rmSync(project, { recursive: true }))

  it('lies beside the code, in a directory for this user alone', () => {
    expect(cacheOf()?.startsWith(directory)).toBe(true)
    expect(statSync(directory).mode & 0o777).toBe(0o700)
  })

  it('is not used once somebody else could write in it, or put it there', () => {
    chmodSync(directory, 0o777)
    expect(cacheOf()).toBeNull()
    rmSync(directory, { recursive: true })
    mkdirSync(join(project, 'elsewhere'), { mode: 0o700 })
    symlinkSync(join(project, 'elsewhere'), directory)
    expect(cacheOf()).toBeNull()
  })
})
