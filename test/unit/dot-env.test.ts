import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expectWritable, withValues, writeDotEnv } from '../../src/cli/dot-env.ts'
import { ambiguousIn, ignoredIn } from '../../src/config/environment.ts'
import { mountSmallDisk } from '../support/small-disk.ts'

const name = fc.stringMatching(/^[A-Z][A-Z0-9_]{0,8}$/)
/** A value of three kinds of quotes cannot be written; a key has none of them. */
const value = fc
  .string({ maxLength: 30 })
  .map((text) => text.replaceAll(/[\r\n\0`]/g, '').trim())
  .filter((text) => text !== '' && !(text.includes("'") && text.includes('"')))

describe('.env', () => {
  it('is read as it was written, and what was there besides stays', () => {
    const values = fc.dictionary(name, value, { maxKeys: 5 })
    fc.assert(
      fc.property(values, values, (before, after) => {
        const first = withValues('# a comment\n\n', before)
        expect(parseEnv(first)).toEqual({ ...before })
        const second = withValues(first, after)
        expect(parseEnv(second)).toEqual({ ...before, ...after })
        expect(second).toMatch(/^# a comment\n\n/)
      }),
    )
  })

  it('keeps a backslash before an n, whatever quotes there are', () => {
    const values = { A: "'\\n" }
    expect(parseEnv(withValues('', values))).toEqual(values)
  })

  it('is told of lines that set nothing, without their text (P9)', () => {
    const told = (line: number) => `line ${line} sets nothing. Write NAME=VALUE, with an equals sign.`
    const text = [
      ...['PAGE_SIZE: 500', '# OFF: 1', 'export HTTP_PORT 99', 'A=1', 'a few words', 'BI_ROLE'],
      ...['KEY="-----BEGIN', 'Proc-Type: 4', 'NAME: inside', '-----END"', 'LAST: x', 'B: 1', 'B=2'],
    ].join('\n')
    expect(ignoredIn(text)).toEqual([1, 3, 6, 11, 12].map(told))
  })

  it('is known not to be writable before anybody is asked', () => {
    expect(() => expectWritable('/dev/null/.env')).toThrow(
      '/dev/null/.env cannot be written: a part of that path is a file (ENOTDIR).',
    )
    const folder = mkdtempSync(join(tmpdir(), 'dot-env-'))
    expectWritable(join(folder, '.env'))
    expect(readdirSync(folder)).toEqual([])
  })

  it('has no value that was left empty', () => {
    expect(withValues('A=1\nexport B=2\n', { A: '', B: 'x y', C: '' })).toBe("# A=\nB='x y'\n")
  })

  const odd = [
    'a$b $HOME $(id)',
    'a#b #c',
    'a "b" c',
    'a;b&c|d>e',
    '~/x',
    'a\\nb',
    '0 3 * * *',
    'a`id`b',
    '{"x": 1}',
  ]

  it('means the same to a shell, and is not in doubt elsewhere', () => {
    const values = Object.fromEntries(odd.map((text, at) => [`V${at}`, text]))
    const file = withValues('', values)
    expect(parseEnv(file)).toEqual(values)
    const shown = Object.keys(values).map((key) => `printf '%s\\0' "$${key}"`)
    const shell = execFileSync('sh', ['-c', `${file}\n${shown.join('\n')}`], { encoding: 'utf8' })
    expect(shell.split('\0')).toEqual([...odd, ''])
    expect(ambiguousIn(file)).toEqual([])
  })

  it.each([
    ['A=pass#word', '#'],
    ['A=pa$$word', '$'],
    ['A="pa$word"', '$'],
    ['A="C:\\new"', '\\'],
    ['A=`x`', '`'],
  ])('says that programs disagree on %s', (line, sign) => {
    expect(ambiguousIn(`# a comment with $\n${line} # and $\n`)).toEqual([
      `line 2: programs disagree on the ${sign} in A. Write its value between single quotes.`,
    ])
  })

  it.each(['A=plain', "A='pa$$ #word'", 'A=0 3 * * * # nightly', 'A= # none', 'A="a b"', '# A=$b', ''])(
    'says nothing of %s',
    (line) => expect(ambiguousIn(line)).toEqual([]),
  )

  it.skipIf(process.getuid?.() !== 0)('says where the disk is full, and leaves nothing behind', () => {
    const place = mkdtempSync(join(tmpdir(), 'tidemark-dot-env-'))
    const disk = mountSmallDisk(place, 1)
    try {
      const file = join(place, '.env')
      expect(() => writeDotEnv(file, { API_KEY: 'x'.repeat(2_000_000) })).toThrow(
        `${file} cannot be written: the disk is full; make room on it, or name a place on another one (ENOSPC).`,
      )
      expect(readdirSync(place)).toEqual([])
    } finally {
      disk.leave()
      rmSync(place, { recursive: true })
    }
  })
})
