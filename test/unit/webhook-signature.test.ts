// The ways in which deliveries of webhooks are usually signed, what is sent again, and how long a hostile one may take.

import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { openSignatureCheck, replayWindowMs } from '../../src/web/webhook-signature.ts'

const secret = 'the-secret-of-the-tests'
const body = Buffer.from('{"event":"AssignmentChanged"}')
const nowMs = 1_700_000_000_000
const hmac = (text: string, encoding: 'hex' | 'base64' = 'hex', algorithm = 'sha256') =>
  createHmac(algorithm, secret).update(text).digest(encoding)
const check = (headers: Record<string, string>, changed = body, by = secret) =>
  openSignatureCheck(by)(headers, changed, nowMs)

describe('a signature', () => {
  it.each<[string, Record<string, string>]>([
    ['of the stand-in', { 'x-webhook-signature': `sha256=${hmac(String(body))}` }],
    [
      'of GitHub',
      {
        'x-hub-signature-256': `sha256=${hmac(String(body))}`,
        'x-hub-signature': `sha1=${hmac(String(body), 'hex', 'sha1')}`,
      },
    ],
    ['of Shopify', { 'x-shopify-hmac-sha256': hmac(String(body), 'base64') }],
    ['of Stripe', { 'stripe-signature': `t=1700000000,v1=${hmac(`1700000000.${body}`)},v0=abc` }],
    ['of Slack', { 'x-signature': hmac(`1700000000.${body}`), 'x-request-timestamp': '1700000000' }],
    [
      'of Standard Webhooks',
      {
        'webhook-id': 'msg_1',
        'webhook-timestamp': '1700000000',
        'webhook-signature': `v1,${hmac(`msg_1.1700000000.${body}`, 'base64')}`,
      },
    ],
    ['in capitals, with SHA-512', { 'x-sign': hmac(String(body), 'hex', 'sha512').toUpperCase() }],
  ])('%s is known, and a changed body is not believed', (_, headers) => {
    expect(check(headers)).toBe('right')
    expect(check(headers, Buffer.from('{}'))).toBe('wrong')
    expect(check(headers, body, 'another secret')).toBe('wrong')
  })

  it('of another form is not known, and headers about other things are none', () => {
    expect(check({ 'x-signature': 'keyId="a",algorithm="rsa"' })).toBe('unknown')
    expect(check({ 'x-signature': '' })).toBe('none')
    expect(
      check({ 'x-design': hmac('x'), authorization: `Bearer ${hmac('x')}`, 'x-webhook-event': 'e' }),
    ).toBe('none')
  })

  it('counts once within five minutes, however its time is written', () => {
    for (const time of ['1700000000', '1700000000000', '2023-11-14T22:13:20Z']) {
      const at = openSignatureCheck(secret)
      const headers = { 'x-signature': hmac(`${time}.${body}`), 'x-timestamp': time }
      expect(at(headers, body, nowMs + replayWindowMs + 1), time).toBe('old')
      expect(at(headers, body, nowMs - replayWindowMs - 1), time).toBe('old')
      expect(at(headers, body, nowMs - replayWindowMs), time).toBe('right')
      expect(at(headers, body, nowMs + replayWindowMs - 1), time).toBe('seen')
      // Another time was not signed.
      expect(at({ ...headers, 'x-timestamp': '1700000001' }, body, nowMs), time).toBe('wrong')
    }
  })

  it('of the same body by another algorithm is the same delivery, and one that says no time counts again later', () => {
    const at = openSignatureCheck(secret)
    expect(at({ 'x-signature': hmac(String(body)) }, body, nowMs)).toBe('right')
    expect(at({ 'x-signature': hmac(String(body), 'hex', 'sha1') }, body, nowMs + 1)).toBe('seen')
    expect(at({ 'x-signature': hmac('other') }, Buffer.from('other'), nowMs + 1)).toBe('right')
    expect(at({ 'x-signature': hmac(String(body)) }, body, nowMs + replayWindowMs)).toBe('right')
  })

  it('takes milliseconds to be found wrong, however many digests, times and ids somebody sends with it (P10)', () => {
    const digests = Array.from({ length: 200 }, (_, index) => hmac(`${index}`, 'hex', 'sha512')).join(',')
    const times = Array.from({ length: 100 }, (_, index) => [`x-timestamp-${index}`, `${index}`])
    const headers = {
      'x-signature': `t=1,${digests}`,
      ...Object.fromEntries(times),
      ...{ 'webhook-id': 'a', 'svix-id': 'b', 'x-webhook-id': 'c' },
    }
    const large = Buffer.alloc(65_536, 'x')
    check(headers, large)
    const took = Array.from({ length: 5 }, () => {
      const startedAtMs = performance.now()
      expect(check(headers, large)).toBe('wrong')
      return performance.now() - startedAtMs
    })
    expect(Math.min(...took)).toBeLessThan(10)
  })
})
