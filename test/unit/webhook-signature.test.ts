// The ways in which deliveries of webhooks are usually signed.

import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { checkSignature } from '../../src/web/webhook-signature.ts'

const secret = 'the-secret-of-the-tests'
const body = Buffer.from('{"event":"AssignmentChanged"}')
const hmac = (text: string, encoding: 'hex' | 'base64' = 'hex', algorithm = 'sha256') =>
  createHmac(algorithm, secret).update(text).digest(encoding)
const check = (headers: Record<string, string>, changed = body) => checkSignature(secret, headers, changed)

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
    expect(checkSignature('another secret', headers, body)).toBe('wrong')
  })

  it('of another form is not known, and headers about other things are none', () => {
    expect(check({ 'x-signature': 'keyId="a",algorithm="rsa"' })).toBe('unknown')
    expect(check({ 'x-signature': '' })).toBe('none')
    expect(
      check({ 'x-design': hmac('x'), authorization: `Bearer ${hmac('x')}`, 'x-webhook-event': 'e' }),
    ).toBe('none')
  })
})
