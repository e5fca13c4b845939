// No secret leaves through the log, whatever it is wrapped in (P9).

import { Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { keepSecret, openLog, redact } from '../../src/log.ts'

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
    ] as const)
      expect(redact(given)).toBe(expected)
  })

  it('leaves what is no secret alone', () => {
    for (const text of ['https://host/a:b@c', 'assignment 5 at 12:30', '{"subject":"the bearer of news"}'])
      expect(redact(text)).toBe(text)
  })
})
