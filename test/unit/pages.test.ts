// The words of the pages, and that nothing put into a page becomes markup.

import { describe, expect, it } from 'vitest'
import {
  age,
  ageInWords,
  foreign,
  html,
  markupOf,
  momentInWords,
  spanInWords,
  stamp,
  time,
} from '../../src/web/html.ts'

const hostile = `<script>alert("1")</script>'&\0`

describe('html', () => {
  it('escapes whatever is not a template, wherever it stands', () => {
    const escaped = '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;\ufffd'
    expect(markupOf(html`<p title="${hostile}">${hostile}</p>`)).toBe(`<p title="${escaped}">${escaped}</p>`)
    expect(markupOf(html`${[hostile, [hostile]]}`)).toBe(escaped + escaped)
  })

  it('keeps templates in templates and in lists as they are', () => {
    const rows = ['a', '<b>'].map((name) => html`<li>${name}</li>`)
    expect(markupOf(html`<ul>${rows}</ul>`)).toBe('<ul><li>a</li><li>&lt;b&gt;</li></ul>')
  })

  it('shows numbers, and nothing for what is not there', () => {
    expect(markupOf(html`${0} ${12n} ${null}${undefined}${false}${''}|`)).toBe('0 12 |')
  })

  it('is not fooled by data that looks like a template', () => {
    const forged: unknown = JSON.parse('{"markup":"<script>","Symbol(markup)":"<script>"}')
    expect(() => markupOf(html`${forged as string[]}`)).toThrow()
  })
})

describe('words', () => {
  it.each([
    [-5, 'just now'],
    [999, 'just now'],
    [1_000, '1 second ago'],
    [3_400, '3 seconds ago'],
    [59_999, '59 seconds ago'],
    [60_000, '1 minute ago'],
    [7_199_000, '1 hour ago'],
    [86_400_000 * 1_234, '1,234 days ago'],
  ])('tell an age of %i ms', (ms, words) => expect(ageInWords(ms)).toBe(words))

  it('tell moments on either side of now, and spans', () => {
    const now = new Date('2026-01-02T03:04:05.678Z')
    expect(momentInWords(new Date(now.getTime() + 90_000), now)).toBe('in 1 minute')
    expect(momentInWords(new Date(now.getTime() + 200), now)).toBe('any moment')
    expect(momentInWords(new Date(now.getTime() - 2_000), now)).toBe('2 seconds ago')
    expect(spanInWords(600_000)).toBe('10 minutes')
    expect(stamp(now)).toBe('2026-01-02 03:04:05 UTC')
    expect(markupOf(time(now))).toBe(
      '<time datetime="2026-01-02T03:04:05.678Z">2026-01-02 03:04:05 UTC</time>',
    )
    expect(markupOf(age(now, now))).toContain('>just now</time>')
  })

  it('cut foreign text between characters, and keep its direction to itself', () => {
    expect(markupOf(foreign('😀'.repeat(5), 3))).toBe('<bdi>😀😀😀…</bdi>')
    expect(markupOf(foreign('\u202e<b>', 10))).toBe('<bdi>\u202e&lt;b&gt;</bdi>')
    expect(markupOf(foreign('abc', 3))).toBe('<bdi>abc</bdi>')
  })
})
