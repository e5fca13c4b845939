// The log: pino on stderr, pretty on a terminal, JSON otherwise. Secrets are taken out of the finished line, whatever
// object, error cause or URL they came in (P9).

import { Writable } from 'node:stream'
import { type Logger, pino, type SerializedError, stdSerializers } from 'pino'
import pretty from 'pino-pretty'
import { mask, openSecrets } from './util/secrets.ts'
import { visible } from './util/text.ts'

export type { Logger } from 'pino'

/** What is known to this process: what was configured, and the newest tokens. */
const secrets = openSecrets()
const tokens = new Set<string>()
/** Older tokens are forgotten: they have ended and open nothing, and all of them together would fill the memory and take time (P10). */
const mostTokens = 100
const mostTokenCharacters = 131_072
/** Shorter ones are not cut: they would match by chance. */
const shortest = 4
const shortestPassword = 8

/** From now on this text is cut from everything that is printed, and the password in it when it is a URL. */
export function keepSecret(secret: string): void {
  if (secret.length >= shortest) secrets.add(secret)
  for (const password of URL.canParse(secret) ? passwordsIn(new URL(secret)) : []) secrets.add(password)
}

/** The same for a token that was received. */
export function keepToken(token: string): void {
  tokens.delete(token)
  tokens.add(token)
  secrets.add(token)
  let characters = [...tokens].reduce((sum, { length }) => sum + length, 0)
  for (const oldest of tokens) {
    if (oldest === token || (tokens.size <= mostTokens && characters <= mostTokenCharacters)) break
    characters -= oldest.length
    tokens.delete(oldest)
    secrets.remove(oldest)
  }
}

/** Passwords as drivers hold them, also from the query. A plain word or the user's name is left: cutting that out would spoil what people read. */
function passwordsIn({ username, password, searchParams }: URL): readonly string[] {
  try {
    const [user, plain] = [decodeURIComponent(username), decodeURIComponent(password)]
    const inQuery = ['password', 'sslpassword', 'sentinelPassword'].map(
      (name) => searchParams.get(name) ?? '',
    )
    return [plain, ...inQuery].filter((one) => one.length >= shortestPassword && one !== user)
  } catch {
    return []
  }
}

// Each of these looks at a character a bounded number of times: the answer of somebody else must not keep the worker busy (P10). Nothing but
// single characters is repeated: the engine would remember each repetition of more, and ends with an error when they are millions.
const lookalikes: readonly [RegExp, string][] = [
  [/((?<![a-z0-9+.-])[a-z0-9+.-]+:\/\/[^\s:/?#@"\\]*:)[^\s/?#"\\]*(?=@)/gi, `$1${mask}`],
  [/\b(Bearer\s+)[A-Za-z0-9._~+/=-]{10}[A-Za-z0-9._~+/=-]*/gi, `$1${mask}`],
  [
    /((?:api[-_]?key|access[-_]?token|refresh[-_]?token|password|authorization|subject[-_]?id)\\*"?\s*[:=]\s*\\*")[^"]*?(?=\\?(?:"|$))/gi,
    `$1${mask}`,
  ],
]

/** Signed tokens (JWT), three parts with dots between, in text without other characters. */
function withoutTokens(dotted: string): string {
  const parts = dotted.split('.')
  const kept: string[] = []
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at] ?? ''
    const start = parts[at + 1] && parts[at + 2] !== undefined ? part.search(/\beyJ[\w-]/) : -1
    kept.push(start < 0 ? part : `${part.slice(0, start)}${mask}`)
    if (start >= 0) at += 2
  }
  return kept.join('.')
}

export function redact(text: string): string {
  let clean = secrets.maskedIn(text)
  if (clean.includes('eyJ')) clean = clean.replace(/[\w.-]+/g, withoutTokens)
  for (const [lookalike, replacement] of lookalikes) clean = clean.replace(lookalike, replacement)
  return clean
}

export function openLog(options: {
  readonly level: string
  readonly stream?: NodeJS.WritableStream & { isTTY?: boolean }
  /** On a terminal only; without it there are colours there. */
  readonly isColoured?: boolean
}): Logger {
  const { isColoured = true } = options
  const target = options.stream ?? process.stderr
  const redacting = new Writable({
    decodeStrings: false,
    write(line, _encoding, done) {
      target.write(redact(String(line)))
      done()
    },
  })
  const sink = target.isTTY
    ? visibly(pretty({ destination: redacting, colorize: isColoured, ignore: 'pid,hostname', sync: true }))
    : redacting
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: withoutWork },
    },
    sink,
  )
}

/** Drivers attach what they were doing to their errors: a command to Redis holds its password, a Postgres client everything (P9). */
function withoutWork(error: Error): SerializedError {
  const seen = stdSerializers.errWithCause(error)
  for (let one: SerializedError | undefined = seen; one; one = one.cause) {
    delete one.command
    delete one.client
  }
  return seen
}

/** JSON shows what is not seen by itself; for people's eyes it is unpacked again. */
const visibly = (printer: NodeJS.WritableStream): Writable =>
  new Writable({
    decodeStrings: false,
    write(line, _encoding, done) {
      const seen = JSON.parse(String(line), (_name, value) =>
        typeof value === 'string' ? visible(value) : value,
      )
      printer.write(`${JSON.stringify(seen)}\n`)
      done()
    },
  })
