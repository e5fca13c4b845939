// Alerts by mail, to a real server over real sockets: in the plain, by STARTTLS, by TLS, with and without a password.

import { createServer } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Mailbox } from '../../src/config/alert-receivers.ts'
import { deliver, sendTest } from '../../src/problems/deliver.ts'
import { mailText, sendMail } from '../../src/problems/smtp.ts'
import { makeCertificate } from '../support/certificate.ts'
import { neverAborted } from '../support/context.ts'
import { startMailServer } from '../support/mail-server.ts'

const letter = { subject: 'Tidemark: a problem needs you: ✓ ß', text: '3 of 4 rows disappeared.\n.\nQUIT' }
const mailboxAt = (port: number, more: Partial<Mailbox> = {}): Mailbox => ({
  ...{ host: '127.0.0.1', port, isTls: false, mayBePlain: true, user: null, password: null },
  ...{ from: 'tidemark@example.com', to: ['ada@example.com', 'bob@example.com'] },
  ...more,
})
const signed = { user: 'ada', password: 'canary-of-the-mail' }

describe('a mail', () => {
  const authorities = getCACertificates('default')
  let certificate = { key: '', cert: '' }
  beforeAll(() => {
    certificate = makeCertificate(inject('scratch'), 'IP:127.0.0.1')
  })
  afterAll(() => setDefaultCACertificates(authorities))

  it('arrives whole, whatever is in it', async () => {
    await using server = await startMailServer()
    expect(await sendMail(mailboxAt(server.port), letter, neverAborted)).toEqual([])
    expect(server.taken).toMatchObject([
      {
        from: 'tidemark@example.com',
        to: ['ada@example.com', 'bob@example.com'],
        subject: letter.subject,
        text: letter.text.replaceAll('\n', '\r\n'),
        ...{ isSecure: false, by: null },
      },
    ])
    expect(server.taken[0]?.headers).toMatchObject({
      to: 'ada@example.com, bob@example.com',
      'auto-submitted': 'auto-generated',
      date: expect.stringMatching(/^\w{3}, \d\d \w{3} \d{4} [\d:]{8} \+0000$/),
    })
  })

  it('holds nothing that could be another line of its header', () => {
    const hostile = `x\r\nBcc: eve@example.com\r\n\r\n.\r\n${'😀'.repeat(400)}`
    const text = mailText(mailboxAt(25), { subject: hostile, text: hostile })
    const lines = text.split('\r\n')
    expect(text.replaceAll('\r\n', '')).not.toMatch(/[\r\n]/)
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(79)
    expect(lines.filter((line) => /^(?:bcc|\.$)/i.test(line))).toEqual([])
  })

  it.each([
    ['STARTTLS', false, 'PLAIN'],
    ['STARTTLS', false, 'LOGIN'],
    ['TLS', true, 'PLAIN'],
  ] as const)('is sent by %s (%s) with a password, by AUTH %s', async (_, isTls, way) => {
    await using server = await startMailServer({ certificate, isTls, ways: [way] })
    const mailbox = mailboxAt(server.port, { ...signed, isTls, mayBePlain: false })
    setDefaultCACertificates(authorities)
    await expect(sendMail(mailbox, letter, neverAborted)).rejects.toThrow(/self.signed certificate/)
    expect(server.taken).toEqual([])
    setDefaultCACertificates([...authorities, certificate.cert])
    await sendMail(mailbox, letter, neverAborted)
    expect(server.taken).toMatchObject([{ isSecure: true, by: 'ada:canary-of-the-mail' }])
  })

  it('is not sent in the plain over a way that is not private, nor on what came before TLS', async () => {
    await using plain = await startMailServer({ ways: ['PLAIN'] })
    const mailbox = { ...signed, mayBePlain: false }
    await expect(sendMail(mailboxAt(plain.port, mailbox), letter, neverAborted)).rejects.toThrow(
      'offers no TLS',
    )
    await using injecting = await startMailServer({ certificate, injected: '250-AUTH PLAIN\r\n' })
    await expect(sendMail(mailboxAt(injecting.port, mailbox), letter, neverAborted)).rejects.toThrow(
      'said more than it was asked',
    )
    expect([plain.taken, injecting.taken]).toEqual([[], []])
  })

  it('goes to those whom the server takes, and says whom it does not', async () => {
    await using server = await startMailServer({ refuses: ['bob@example.com'] })
    const receiver = { mail: mailboxAt(server.port), name: 'post', setting: 'receiver post of alerts.yml' }
    expect(await sendTest(receiver, new Date(), neverAborted)).toBe(
      'A test message was sent to post, by mail. The addressee bob@example.com was refused by the mail server: 550 5.1.1 nobody of that name.',
    )
    expect(server.taken).toMatchObject([{ to: ['ada@example.com'], subject: 'Tidemark: a test' }])
    const nobody = { ...receiver, mail: mailboxAt(server.port, { to: ['bob@example.com'] }) }
    await expect(sendTest(nobody, new Date(), neverAborted)).rejects.toThrow(
      'An alert could not be delivered to post: The addressee bob@example.com was refused by the mail server: 550 5.1.1 nobody of that name. Check receiver post of alerts.yml.',
    )
  })

  it.each([
    [
      'refuses the password',
      { ways: ['PLAIN'], password: 'another' },
      signed,
      /password was refused.* 535 5.7.8/,
    ],
    ['takes no password', {}, signed, /takes no password/],
    ['is none', { greeting: 'SSH-2.0-OpenSSH_9' }, {}, /it is no mail server/],
    [
      'turns everybody away',
      { greeting: '421 too busy' },
      {},
      /greeting was refused by the mail server: 421 too busy/,
    ],
  ] as const)(
    'says in a line that the server %s, without the password (P9)',
    async (_, options, more, expected) => {
      await using server = await startMailServer(options as Parameters<typeof startMailServer>[0])
      const error = await sendMail(mailboxAt(server.port, more), letter, neverAborted).catch(
        (thrown) => thrown,
      )
      expect(error.message).toMatch(expected)
      expect(error.message).not.toMatch(/canary|\n/)
    },
  )

  it('is given up when the server hangs, is gone, or says too much', async () => {
    await using hanging = await startMailServer({ greeting: null })
    const stop = new AbortController()
    const sending = sendMail(mailboxAt(hanging.port), letter, stop.signal)
    setImmediate(() => stop.abort())
    await expect(sending).rejects.toThrow(/it took too long|closed the connection/)
    const mail = mailboxAt(1)
    await expect(
      deliver({ mail }, { begun: [], over: [], now: new Date(), isTest: true }, neverAborted),
    ).rejects.toThrow('ECONNREFUSED')
    const talking = createServer((socket) => socket.on('error', () => {}).write('220-x\r\n'.repeat(20_000)))
    await new Promise<void>((resolve) => talking.listen(0, '127.0.0.1', resolve))
    const { port } = talking.address() as { port: number }
    await expect(sendMail(mailboxAt(port), letter, neverAborted)).rejects.toThrow('says too much')
    talking.close()
  })
})
