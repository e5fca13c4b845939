// Whether a delivery was signed with our secret. How the upstream signs is documented nowhere, so the usual ways are tried: a header
// that is about a signature, with an HMAC of the body, of `timestamp.body` or of `id.timestamp.body`, in hex or base64. Pure.

import { createHmac, timingSafeEqual } from 'node:crypto'

export type Signature =
  /** No header is about a signature. */
  | 'none'
  | 'right'
  /** It has a known form, but was made with another secret or for another body. */
  | 'wrong'
  /** Its form is not known. */
  | 'unknown'

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

const aboutSignature = /signature|(?:^|-)(?:hmac|sig|sign)(?:-|$)/i
const algorithmOfLength: Readonly<Record<number, string>> = { 20: 'sha1', 32: 'sha256', 64: 'sha512' }
const mostCandidates = 20

export function checkSignature(secret: string, headers: Headers, body: Buffer): Signature {
  const entries = Object.entries(headers).map(([name, value]) => [name, [value].flat().join(',')] as const)
  const signatures = entries.filter(([name, value]) => aboutSignature.test(name) && value !== '')
  if (signatures.length === 0) return 'none'
  const digests = signatures.flatMap(([, value]) => digestsIn(value)).slice(0, mostCandidates)
  if (digests.length === 0) return 'unknown'
  const messages = signedTexts(entries, signatures, body)
  const isRight = digests.some((digest) =>
    messages.some((parts) => {
      const hmac = createHmac(algorithmOfLength[digest.length] ?? 'sha256', secret)
      for (const part of parts) hmac.update(part)
      return timingSafeEqual(hmac.digest(), digest)
    }),
  )
  return isRight ? 'right' : 'wrong'
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

function signedTexts(headers: Entries, signatures: Entries, body: Buffer): (string | Buffer)[][] {
  const inside = signatures.flatMap(([, value]) => /(?:^|[\s,;])t=(\d{1,20})/.exec(value)?.[1] ?? [])
  const times = [...inside, ...valuesOf(headers, /timestamp/i)]
  const ids = valuesOf(headers, /^(?:webhook|svix|x-webhook)-id$/i)
  const timed = times.map((time) => [time, '.', body])
  return [[body], ...timed, ...ids.flatMap((id) => timed.map((parts) => [id, '.', ...parts]))]
}

const valuesOf = (headers: Entries, pattern: RegExp): readonly string[] =>
  headers.flatMap(([name, value]) => (pattern.test(name) && !aboutSignature.test(name) ? [value] : []))
