// The log: pino on stderr, pretty on a terminal, JSON otherwise. Secrets are taken out of the finished line, whatever
// object, error cause or URL they came in (P9).

import { Writable } from 'node:stream'
import { type Logger, pino, stdSerializers } from 'pino'
import pretty from 'pino-pretty'
import { visible } from './visible.ts'

export type { Logger } from 'pino'

const mask = '[secret]'

/** Secrets known to this process: configured ones at the start, tokens as they are received. */
const secrets = new Set<string>()

/** From now on this text is cut from everything that is printed. Very short texts are not: they would match by chance. */
export function keepSecret(secret: string): void {
  if (secret.length < 4) return
  for (const form of [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
    secrets.add(form)
}

const shapes: readonly [RegExp, string][] = [
  [/(\b[a-z][a-z0-9+.-]*:\/\/[^\s:/?#@"\\]*:)[^\s/?#"\\]*(?=@)/gi, `$1${mask}`],
  [/\b(Bearer\s+)[A-Za-z0-9._~+/=-]{10,}/gi, `$1${mask}`],
  [/\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/g, mask],
  [
    /((?:api[-_]?key|access[-_]?token|refresh[-_]?token|password|authorization|subject[-_]?id)\\*"?\s*[:=]\s*\\*")(?:[^"\\]|\\(?!"))*/gi,
    `$1${mask}`,
  ],
]

export function redact(text: string): string {
  let clean = text
  for (const secret of secrets) if (clean.includes(secret)) clean = clean.replaceAll(secret, mask)
  for (const [shape, replacement] of shapes) clean = clean.replace(shape, replacement)
  return clean
}

export function openLog(options: {
  readonly level: string
  readonly stream?: NodeJS.WritableStream & { isTTY?: boolean }
}): Logger {
  const target = options.stream ?? process.stderr
  const redacting = new Writable({
    decodeStrings: false,
    write(line, _encoding, done) {
      target.write(redact(String(line)))
      done()
    },
  })
  const sink = target.isTTY
    ? visibly(pretty({ destination: redacting, colorize: true, ignore: 'pid,hostname', sync: true }))
    : redacting
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: stdSerializers.errWithCause },
    },
    sink,
  )
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
