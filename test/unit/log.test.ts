// No secret leaves through the log, whatever it is wrapped in (P9).

import { createHash } from 'node:crypto'
import { Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { keepSecret, keepToken, openLog, redact } from '../../src/log.ts'

const canary = 'canary"sings/at dawn'

function logged(write: (log: ReturnType<typeof openLog>) => void, isTTY = false): string {
  let text = ''
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk)
      done()
    },
  })
  write(
    openLog({ level: 'trace', stream: Object.assign(stream, { isTTY }) as unknown as NodeJS.WritableStream }),
  )
  return text
}

describe('the log', () => {
  it('cuts a known secret from messages, fields, nested errors and their causes (P9)', () => {
    keepSecret(canary)
    const cause = Object.assign(new Error(`refused ${canary}`), {
      options: { headers: { authorization: `Bearer ${canary}` } },
    })
    const text = logged((log) => {
      log.trace({ deep: { list: [canary] }, err: new Error('outer', { cause }) }, `told ${canary}`)
      log.info({ url: `https://host/path?key=${encodeURIComponent(canary)}` }, 'asked')
    })
    expect(text).toContain('outer')
    expect(text).toContain('[secret]')
    expect(text).not.toContain('canary')
    expect(
      text
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    ).toHaveLength(2)
  })

  it('cuts a known secret however JSON, a URL, a form or HTML spells it (P9)', () => {
    const key = 'k3y+of/the "tests"&é'
    keepSecret(key)
    const json = JSON.stringify(key)
    for (const spelled of [
      json,
      JSON.stringify(json),
      json.replaceAll('/', '\\/'),
      'k3y\\u002Bof/the \\u0022tests\\u0022\\u0026\\u00E9',
      JSON.stringify('k3y\\u002bof\\/the \\u0022tests\\u0022\\u0026\\u00e9'),
      encodeURIComponent(key),
      encodeURIComponent(key).toLowerCase(),
      encodeURIComponent(encodeURIComponent(key)),
      String(new URLSearchParams({ key })),
      'k3y&#x2B;of/the &quot;tests&quot;&amp;&#xE9;',
      'k3y&#43;of&#47;the &#34;tests&#34;&amp;&#233;',
    ])
      expect(redact(`seen: ${spelled}.`), spelled).not.toMatch(/k3y|tests/)
  })

  it('never fails for a text of megabytes (P9, P10)', () => {
    for (const [before, piece] of [
      ['{"password":"', 'x'],
      ['{"password":"', '\\x'],
      ['Bearer ', 'x'],
    ] as const)
      expect(redact(`${before}${piece.repeat(10_000_000)}`)).toBe(`${before}[secret]`)
  })

  it('takes no longer for a text that is made to take long (P10)', () => {
    keepSecret('"+/key" that begins with odd characters')
    keepSecret('a key \\\\\\\\\\\\\\\\\\\\ with many backslashes')
    const pieces = ['\\', '%25', '&amp;', '"+/key" ', '"', 'a key \\\\\\\\\\\\']
    const lookalikes = ['a.', 'a-', 'eyJ-', 'eyJ.', '-eyJa.', 'a://', 'a:', 'Bearer ', 'password\\']
    for (const piece of [...pieces, ...lookalikes]) {
      const startedAtMs = performance.now()
      redact(piece.repeat(65_536 / piece.length))
      // A square of the length takes 2,000 ms and more.
      expect(performance.now() - startedAtMs, piece).toBeLessThan(500)
    }
  })

  it('cuts a known secret in base64 and in hexadecimal digits, alone or within something longer (P9)', () => {
    const key = 'a~key?with>all>digits~~~'
    keepSecret(key)
    for (const before of ['', 'u', 'user:', 'user1:', 'another user:']) {
      const bytes = Buffer.from(`${before}${key}:after`)
      for (const encoding of ['base64', 'base64url', 'hex'] as const)
        for (const spelled of [bytes.toString(encoding), encodeURIComponent(bytes.toString(encoding))]) {
          const clean = redact(`Basic ${spelled} was refused`)
          expect(clean, spelled).toMatch(/^Basic .{0,26}\[secret\].{0,16} was refused$/)
        }
      expect(redact(bytes.toString('hex').toUpperCase())).toContain('[secret]')
    }
    // Of some letters too many other words would look like them.
    keepSecret('brief')
    expect(redact(Buffer.from('brief').toString('hex'))).toBe('6272696566')
  })

  it('takes no longer for many tokens than for one (P10)', () => {
    const line = `${JSON.stringify({ msg: 'assignment: read 120 changed rows' })} `.repeat(2_000)
    const timeFor = () => {
      const startedAt = process.cpuUsage()
      for (let round = 0; round < 10; round++) redact(line)
      return process.cpuUsage(startedAt).user
    }
    keepToken('the-only-token-here')
    timeFor()
    const one = timeFor()
    for (let number = 0; number < 100; number++)
      keepToken(createHash('sha512').update(String(number)).digest('base64'))
    expect(timeFor()).toBeLessThan(5 * one)
  })

  it('cuts the password of a URL from what drivers say of it (P9)', () => {
    keepSecret('redis://:open%2Bsesame@queue.example:6379')
    keepSecret('postgres://postgres:postgres@db.example/tidemark')
    keepSecret('redis://:short@queue.example')
    keepSecret('postgres://db.example/x?user=u&password=a%26query-word&sslpassword=of-the-key')
    expect(redact('AUTH default open+sesame')).toBe('AUTH default [secret]')
    expect(redact('a&query-word, of-the-key')).toBe('[secret], [secret]')
    expect(redact('postgres on short notice')).toBe('postgres on short notice')
    const refused = Object.assign(new Error('WRONGPASS'), { command: { name: 'auth', args: ['short'] } })
    const broken = Object.assign(new Error('gone'), {
      client: { connectionParameters: { user: 'a' } },
      cause: refused,
    })
    const text = logged((log) => log.warn({ err: broken }, 'waiting'))
    expect(text).toContain('WRONGPASS')
    expect(text).not.toMatch(/short|connectionParameters/)
  })

  it('remembers the newest tokens and every configured secret, however many tokens come (P9, P10)', () => {
    keepSecret('a key for ever')
    const tokens = Array.from({ length: 1_000 }, (_, number) => `token-number-${number}-`)
    for (const token of tokens) keepToken(token)
    keepToken('token-number-950-')
    const cut = tokens.filter((token) => redact(token) === '[secret]')
    expect(cut).toEqual(tokens.slice(-100))
    expect(redact('a key for ever')).toBe('[secret]')
  })

  it('lets no text of others forge a line, or move the cursor of a terminal', () => {
    const hostile = 'x\r\n{"level":50,"msg":"forged"}\n\u001b[2J\u001b]0;title\u0007\u009b1A\u202ekcab'
    const write = (log: ReturnType<typeof openLog>) =>
      log.warn({ name: hostile, err: new Error(hostile) }, hostile)
    expect(logged(write).split('\n')).toHaveLength(2)
    const shown = stripVTControlCharacters(logged(write, true))
    expect(shown).toContain('\\u{1b}[2J')
    expect(shown).not.toMatch(/[^\P{Cc}\n\t]|\u202e/u)
  })

  it('cuts what looks like a secret, known or not (P9)', () => {
    for (const [given, expected] of [
      ['postgres://user:p%40ss@host/db', 'postgres://user:[secret]@host/db'],
      ['redis://:hidden@host:6379', 'redis://:[secret]@host:6379'],
      ['Authorization: Bearer abc.def-ghi', 'Authorization: Bearer [secret]'],
      ['{"apiKey":"abc","clientId":3}', '{"apiKey":"[secret]","clientId":3}'],
      ['{"access_token":"abc"}', '{"access_token":"[secret]"}'],
      ['see a.b-eyJhbGciOiJI.eyJzdWIi.c2ln.d', 'see a.b-[secret].d'],
      ['eyJhbGciOiJI.eyJzdWIi., as it was', '[secret], as it was'],
      ['x_amqp+ssl://u:hidden@host', 'x_amqp+ssl://u:[secret]@host'],
    ] as const)
      expect(redact(given)).toBe(expected)
  })

  it('leaves what is no secret alone', () => {
    for (const text of ['https://host/a:b@c', 'assignment 5 at 12:30', '{"subject":"the bearer of news"}'])
      expect(redact(text)).toBe(text)
  })

  // The last: these are looked for from then on.
  const odd = [
    ['of 100 kB', `head.${'Ab3_'.repeat(25_000)}tail`],
    ['of 100 kB of one letter', 'a'.repeat(100_000)],
    ['of nothing but backslashes', '\\'.repeat(100_000)],
    ['of lone surrogates', '\ud800'.repeat(5_000)],
    ['of signs', '"+/&%<'.repeat(2_000)],
    ['of pictures', '\u{1f511}'.repeat(5_000)],
    ['with many backslashes within', `before${'\\'.repeat(300)}afterwards`],
  ] as const
  it.each(odd)(
    'cuts a secret %s, however it is spelled (P9, P10)',
    (_, secret) => {
      keepSecret(secret)
      const before = process.threadCpuUsage()
      const plain = secret.toWellFormed()
      for (const spelled of [
        secret,
        JSON.stringify(secret),
        encodeURIComponent(plain),
        String(new URLSearchParams({ secret: plain })),
        Buffer.from(secret).toString('base64'),
        Buffer.from(secret).toString('hex'),
      ]) {
        const left = redact(`seen: ${spelled}.`).replaceAll('[secret]', '')
        expect(left.length).toBeLessThan(1_000)
      }
      const text = logged((log) => log.info({ err: new Error(secret) }, secret))
      expect(JSON.parse(text)).toMatchObject({ level: 30 })
      expect(text.length).toBeLessThan(20_000)
      // A square of the length takes minutes. Others use this machine: only what this thread computed counts.
      const { user, system } = process.threadCpuUsage(before)
      expect((user + system) / 1_000).toBeLessThan(15_000)
    },
    120_000,
  )
})
