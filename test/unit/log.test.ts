// No secret leaves through the log, whatever it is wrapped in (P9).

import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { keepSecret, openLog, redact } from '../../src/log.ts'

const canary = 'canary"sings/at dawn'

function logged(write: (log: ReturnType<typeof openLog>) => void): string {
  let text = ''
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk)
      done()
    },
  })
  write(openLog({ level: 'trace', stream: stream as unknown as NodeJS.WritableStream }))
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
