// Sends one mail: as much of SMTP as that takes (RFC 5321, STARTTLS, AUTH). Whatever is not told by the server in time is told by the
// signal. A password goes only over a connection that nobody else can listen to, and into no error (P9).

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { connect as connectTls } from 'node:tls'
import type { Mailbox } from '../config/alert-receivers.ts'
import { errorOf } from '../util/errors.ts'

type Letter = { readonly subject: string; readonly text: string }
type Reply = { readonly code: number; readonly lines: readonly string[] }
type Dialogue = {
  /** Sends a line and returns the reply; rejects unless its code begins with one of these digits. `what` names the line in errors. */
  ask(line: string | null, wanted: string, what: string): Promise<Reply>
  /** Bytes that came before they were asked for. */
  hasMore(): boolean
}

const longestReply = 64 * 1024

/** Returns what the server said of addressees that it refused, while it took others. */
export async function sendMail(
  mailbox: Mailbox,
  letter: Letter,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { host, port, isTls, mayBePlain, from, to } = mailbox
  const plain = isTls ? null : connect({ host, port })
  const sockets: Socket[] = [plain ?? secured(mailbox)]
  const onAbort = () => {
    for (const socket of sockets) socket.destroy(new Error('it took too long'))
  }
  signal.addEventListener('abort', onAbort)
  try {
    if (signal.aborted) throw new Error('it was stopped')
    let server = await opened(sockets[0] as Socket, isTls ? 'secureConnect' : 'connect')
    await server.ask(null, '2', 'The greeting')
    let offers = await greet(server)
    const canSecure = plain !== null && offers.some((one) => /^STARTTLS$/i.test(one))
    if (plain !== null && !canSecure && !mayBePlain)
      throw new Error('the mail server offers no TLS, and the way there is not private')
    if (plain !== null && canSecure) {
      await server.ask('STARTTLS', '2', 'STARTTLS')
      // Whoever is on the way could have put it there.
      if (server.hasMore()) throw new Error('the mail server said more than it was asked before TLS began')
      plain.removeAllListeners('data')
      const socket = secured(mailbox, plain)
      sockets.push(socket)
      server = await opened(socket, 'secureConnect')
      offers = await greet(server)
    }
    await signIn(server, mailbox, offers)
    await server.ask(`MAIL FROM:<${from}>`, '2', 'The sender')
    const refused: Error[] = []
    for (const one of to)
      await server
        .ask(`RCPT TO:<${one}>`, '2', `The addressee ${one}`)
        .catch((error) => refused.push(errorOf(error)))
    if (refused.length === to.length) throw refused[0]
    await server.ask('DATA', '3', 'The mail')
    await server.ask(`${mailText(mailbox, letter)}\r\n.`, '2', 'The mail')
    await server.ask('QUIT', '2', 'QUIT').catch(() => {})
    return refused.map(({ message }) => message)
  } finally {
    signal.removeEventListener('abort', onAbort)
    for (const socket of sockets) socket.destroy()
  }
}

/** Where it might as well be plain, any certificate will do. */
const secured = ({ host, port, mayBePlain }: Mailbox, socket?: Socket): Socket =>
  connectTls({
    host,
    ...(socket ? { socket } : { port }),
    ...(isIP(host) === 0 && { servername: host }),
    rejectUnauthorized: !mayBePlain,
  })

async function opened(socket: Socket, event: 'connect' | 'secureConnect'): Promise<Dialogue> {
  let received = ''
  let failure: Error | null = null
  let wake = () => {}
  const fail = (error: Error) => {
    failure ??= error
    wake()
  }
  socket.on('error', fail)
  socket.on('close', () => fail(new Error('the mail server closed the connection')))
  await Promise.race([once(socket, event), once(socket, 'close').then(() => Promise.reject(failure))])
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    received += text
    if (received.length > longestReply) socket.destroy(new Error('the mail server says too much'))
    wake()
  })
  async function reply(): Promise<Reply> {
    for (;;) {
      const [whole] = /^(?:\d{3}-[^\n]*\n)*\d{3}(?:[ \r][^\n]*)?\n/.exec(received) ?? []
      if (whole !== undefined) {
        received = received.slice(whole.length)
        const lines = whole.trimEnd().split(/\r?\n/)
        return { code: Number(lines[0]?.slice(0, 3)), lines: lines.map((line) => line.slice(4).trim()) }
      }
      if (/^(?!\d{1,3}$|\d{3}[ \r\n-])./s.test(received)) throw new Error('it is no mail server')
      if (failure !== null) throw failure
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return {
    async ask(line, wanted, what) {
      if (line !== null) socket.write(`${line}\r\n`)
      const answer = await reply()
      if (wanted.includes(String(answer.code)[0] ?? '')) return answer
      const words = answer.lines
        .join(' ')
        .replaceAll(/\P{L}*[\p{Cc}\p{Cf}]+/gu, ' ')
        .slice(0, 200)
      throw new Error(`${what} was refused by the mail server: ${answer.code} ${words}`)
    },
    hasMore: () => received !== '',
  }
}

async function greet(server: Dialogue): Promise<readonly string[]> {
  const name = /^[\w.-]{1,200}$/.test(hostname()) ? hostname() : 'localhost'
  return (await server.ask(`EHLO ${name}`, '2', 'EHLO')).lines
}

async function signIn(
  server: Dialogue,
  { user, password }: Mailbox,
  offers: readonly string[],
): Promise<void> {
  if (user === null || password === null) return
  const ways =
    offers
      .find((one) => /^AUTH[ =]/i.test(one))
      ?.toUpperCase()
      .split(/[ =]/) ?? []
  const inBase64 = (text: string) => Buffer.from(text).toString('base64')
  if (ways.includes('PLAIN'))
    await server.ask(`AUTH PLAIN ${inBase64(`\0${user}\0${password}`)}`, '2', 'The password')
  else if (ways.includes('LOGIN')) {
    await server.ask('AUTH LOGIN', '3', 'The sign-in')
    await server.ask(inBase64(user), '3', 'The user')
    await server.ask(inBase64(password), '2', 'The password')
  } else throw new Error('the mail server takes no password (neither AUTH PLAIN nor LOGIN)')
}

/** All text is in base64, so that nothing in it can be a line of the header or the end of the mail. */
export function mailText(
  { from, to }: Pick<Mailbox, 'from' | 'to'>,
  { subject, text }: Letter,
  now = new Date(),
): string {
  // Six characters of one code point each are 24 bytes at most; a word of a header has at most 75 characters.
  const words = [...subject].reduce<string[]>((parts, character, index) => {
    if (index % 11 === 0) parts.push('')
    parts[parts.length - 1] += character
    return parts
  }, [])
  const encoded = words.map((word) => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`)
  const body = Buffer.from(text.replaceAll('\n', '\r\n')).toString('base64').replaceAll(/.{76}/g, '$&\r\n')
  return [
    `Date: ${now.toUTCString().replace('GMT', '+0000')}`,
    `From: Tidemark <${from}>`,
    `To: ${to.join(',\r\n ')}`,
    `Subject: ${encoded.join('\r\n ')}`,
    `Message-ID: <${randomUUID()}@${from.slice(from.indexOf('@') + 1)}>`,
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: base64',
    'Auto-Submitted: auto-generated',
    '',
    body,
  ].join('\r\n')
}
