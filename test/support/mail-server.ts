// A real mail server, as far as senders of mail notice: it greets, offers STARTTLS and AUTH, takes or refuses, and keeps what it took.

import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'

export type TakenMail = {
  readonly from: string
  readonly to: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  readonly subject: string
  readonly text: string
  readonly isSecure: boolean
  /** User and password; null: nobody signed in. */
  readonly by: string | null
}
export type MailServer = AsyncDisposable & {
  readonly port: number
  readonly taken: TakenMail[]
}
type Options = {
  readonly certificate?: { readonly key: string; readonly cert: string }
  /** TLS from the first byte. */
  readonly isTls?: boolean
  readonly ways?: readonly ('PLAIN' | 'LOGIN')[]
  readonly refuses?: readonly string[]
  /** Says this instead of the greeting; null: nothing at all. */
  readonly greeting?: string | null
  /** Is said behind the answer to STARTTLS, before TLS begins. */
  readonly injected?: string
  readonly password?: string
}

export async function startMailServer(options: Options = {}): Promise<MailServer> {
  const { certificate, isTls = false } = options
  const taken: TakenMail[] = []
  const sockets = new Set<Socket>()
  const meet = (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => {})
    talk(socket, options, taken, isTls, true)
  }
  const server: Server = isTls ? createTlsServer({ ...certificate }, meet) : createServer(meet)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    taken,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

function talk(socket: Socket, options: Options, taken: TakenMail[], isSecure: boolean, isNew: boolean): void {
  const { certificate, ways = [], refuses = [], greeting = '220 mail.example at your service' } = options
  const say = (line: string) => socket.write(`${line}\r\n`)
  if (isNew && greeting !== null) say(greeting)
  let [from, to, by]: [string, string[], string | null] = ['', [], null]
  let lines: string[] | null = null
  const asked: ((answer: string) => void)[] = []
  const decoded = (text = '') => Buffer.from(text, 'base64').toString()
  const signedIn = (user: string, password: string) => {
    by = `${user}:${password}`
    say(password === (options.password ?? password) ? '235 welcome' : '535 5.7.8 wrong password')
  }
  const reader = createInterface({ input: socket })
  reader.on('line', (line) => {
    if (lines !== null) {
      if (line !== '.') return void lines.push(line.replace(/^\./, ''))
      taken.push({ ...readMail(lines), from, to, isSecure, by })
      lines = null
      return say('250 taken')
    }
    const next = asked.shift()
    if (next) return next(line)
    const [verb = '', rest = ''] = [line.slice(0, 4).toUpperCase(), line.slice(5)]
    if (verb === 'EHLO') {
      if (certificate && !isSecure) say('250-STARTTLS')
      if (ways.length > 0) say(`250-AUTH ${ways.join(' ')}`)
      return say('250 mail.example')
    }
    if (/^STARTTLS$/i.test(line) && certificate) {
      reader.close()
      socket.write(`220 go on\r\n${options.injected ?? ''}`)
      const secured = new TLSSocket(socket, { isServer: true, ...certificate })
      secured.on('error', () => {})
      return talk(secured, options, taken, true, false)
    }
    if (/^AUTH PLAIN /i.test(line)) {
      const [, user = '', password = ''] = decoded(line.slice(11)).split('\0')
      return signedIn(user, password)
    }
    if (/^AUTH LOGIN$/i.test(line)) {
      asked.push((user) => {
        asked.push((password) => signedIn(decoded(user), decoded(password)))
        say('334 UGFzc3dvcmQ6')
      })
      return say('334 VXNlcm5hbWU6')
    }
    const address = /<([^>]*)>/.exec(rest)?.[1] ?? ''
    if (verb === 'MAIL') [from, to] = [address, []]
    if (verb === 'RCPT' && refuses.includes(address)) return say('550 5.1.1 nobody of that name')
    if (verb === 'RCPT') to.push(address)
    if (verb === 'DATA') {
      lines = []
      return say('354 go on')
    }
    if (verb === 'QUIT') return void socket.end('221 bye\r\n')
    say('250 fine')
  })
}

function readMail(lines: readonly string[]): Pick<TakenMail, 'headers' | 'subject' | 'text'> {
  const end = lines.indexOf('')
  const unfolded = lines
    .slice(0, end)
    .join('\n')
    .replaceAll(/\n[ \t]/g, ' ')
    .split('\n')
  const headers = Object.fromEntries(
    unfolded.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 2),
    ]),
  )
  const words = (headers.subject ?? '').replaceAll(/\?= =\?/g, '?==?').matchAll(/=\?UTF-8\?B\?([^?]*)\?=/g)
  return {
    headers,
    subject: [...words].map(([, word = '']) => Buffer.from(word, 'base64').toString()).join(''),
    text: Buffer.from(lines.slice(end + 1).join(''), 'base64').toString(),
  }
}
