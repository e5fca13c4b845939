// Whether a delivery was signed with our secret, and whether it was here before. How the upstream signs is documented nowhere, so the usual
// ways are tried: a header that is about a signature, with an HMAC of the body, of `timestamp.body` or of `id.timestamp.body`, in hex or
// base64. Pure; time is an argument.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { bounded } from './limits.ts'

export type Signature =
  /** No header is about a signature. */
  | 'none'
  | 'right'
  /** It is right, and was right before: somebody sends an old delivery again. */
  | 'seen'
  /** It is right, but says another time than now. */
  | 'old'
  /** It has a known form, but was made with another secret or for another body. */
  | 'wrong'
  /** Its form is not known. */
  | 'unknown'

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

/** A delivery counts once within this time, and one whose signed time is further from now is refused. */
export const replayWindowMs = 5 * 60_000

const aboutSignature = /signature|(?:^|-)(?:hmac|sig|sign)(?:-|$)/i
const algorithmOfLength: Readonly<Record<number, string>> = { 20: 'sha1', 32: 'sha256', 64: 'sha512' }
// Each digest is compared with each text that could have been signed, and whoever sends chooses how many there are of both (P10).
const most = { digests: 3, times: 2, ids: 1, remembered: 10_000 }

/** Checks deliveries, and remembers those that were right. */
export function openSignatureCheck(secret: string) {
  /** What was signed, and until when it is remembered. */
  const seen = bounded<number>(most.remembered)
  return (headers: Headers, body: Buffer, nowMs: number): Signature => {
    const found = findSigned(secret, headers, body)
    if (typeof found === 'string') return found
    if (found.timeMs !== null && Math.abs(nowMs - found.timeMs) > replayWindowMs) return 'old'
    const hash = createHash('sha256')
    for (const part of found.parts) hash.update(part)
    const key = hash.digest('base64')
    if ((seen.get(key) ?? 0) > nowMs) return 'seen'
    seen.set(key, Math.max(nowMs, found.timeMs ?? 0) + replayWindowMs)
    return 'right'
  }
}

/** A text that may have been signed, in parts; the time that is in it, where there is one and it can be read. */
type SignedText = { readonly parts: readonly (string | Buffer)[]; readonly timeMs: number | null }

function findSigned(
  secret: string,
  headers: Headers,
  body: Buffer,
): SignedText | Extract<Signature, 'none' | 'wrong' | 'unknown'> {
  const entries = Object.entries(headers).map(([name, value]) => [name, [value].flat().join(',')] as const)
  const signatures = entries.filter(([name, value]) => aboutSignature.test(name) && value !== '')
  if (signatures.length === 0) return 'none'
  const digests = signatures.flatMap(([, value]) => digestsIn(value)).slice(0, most.digests)
  if (digests.length === 0) return 'unknown'
  const algorithms = new Set(digests.map(({ length }) => algorithmOfLength[length] ?? 'sha256'))
  const isSigned = ({ parts }: SignedText) =>
    [...algorithms].some((algorithm) => {
      const hmac = createHmac(algorithm, secret)
      for (const part of parts) hmac.update(part)
      const right = hmac.digest()
      return digests.some((digest) => digest.length === right.length && timingSafeEqual(right, digest))
    })
  return signedTexts(entries, signatures, body).find(isSigned) ?? 'wrong'
}

/** `sha256=HEX`, `t=1700000000,v1=HEX`, `v1,BASE64 v1,BASE64`, or nothing but the digest. */
function digestsIn(value: string): Buffer[] {
  return value.split(/[\s,;]+/).flatMap((part) => {
    const text = part.replace(/^[a-z]\w{0,15}=(?=.)/i, '').replaceAll('"', '')
    const bytes = /^(?:[0-9a-f]{2})+$/i.test(text)
      ? Buffer.from(text, 'hex')
      : /^[\w+/-]+={0,2}$/.test(text)
        ? Buffer.from(text, 'base64')
        : Buffer.alloc(0)
    return algorithmOfLength[bytes.length] ? [bytes] : []
  })
}

type Entries = readonly (readonly [name: string, value: string])[]

function signedTexts(headers: Entries, signatures: Entries, body: Buffer): readonly SignedText[] {
  const inside = signatures.flatMap(([, value]) => /(?:^|[\s,;])t=(\d{1,20})/.exec(value)?.[1] ?? [])
  const times = [...inside, ...valuesOf(headers, /timestamp/i)].slice(0, most.times)
  const ids = valuesOf(headers, /^(?:webhook|svix|x-webhook)-id$/i).slice(0, most.ids)
  const timed = times.map((time): SignedText => ({ parts: [time, '.', body], timeMs: momentOf(time) }))
  const named = ids.flatMap((id) => timed.map((text) => ({ ...text, parts: [id, '.', ...text.parts] })))
  return [{ parts: [body], timeMs: null }, ...timed, ...named]
}

const valuesOf = (headers: Entries, pattern: RegExp): readonly string[] =>
  headers.flatMap(([name, value]) => (pattern.test(name) && !aboutSignature.test(name) ? [value] : []))

/** Seconds or milliseconds since 1970, or a date. */
function momentOf(time: string): number | null {
  const moment = /^\d{1,15}$/.test(time) ? Number(time) * (time.length > 11 ? 1 : 1000) : Date.parse(time)
  return Number.isNaN(moment) ? null : moment
}
