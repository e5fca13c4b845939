import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withValues } from '../../src/cli/dot-env.ts'

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

  it('has no value that was left empty', () => {
    expect(withValues('A=1\nexport B=2\n', { A: '', B: 'x y', C: '' })).toBe("# A=\nB='x y'\n")
  })
})
