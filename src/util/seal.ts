// Keeps a text where others can read what is stored: sealed with a key that is not stored there, and bound to what it is for, so that it
// cannot be moved to anything else.

import { createCipheriv, createDecipheriv, randomBytes, scryptSync } from 'node:crypto'

export type Seal = ReturnType<typeof openSeal>

const [ivBytes, tagBytes] = [12, 16]
const cipher = 'aes-256-gcm'

/** Whoever has what is stored may try keys: each takes them a tenth of a second. */
export function openSeal(secret: string) {
  let known: Buffer | null = null
  const key = () =>
    (known ??= scryptSync(secret, 'tidemark seal', 32, { N: 32_768, maxmem: 64 * 1024 * 1024 }))
  return {
    close(text: string, purpose: string): string {
      const iv = randomBytes(ivBytes)
      const closing = createCipheriv(cipher, key(), iv).setAAD(Buffer.from(purpose))
      const closed = Buffer.concat([closing.update(text, 'utf8'), closing.final()])
      return Buffer.concat([iv, closing.getAuthTag(), closed]).toString('base64url')
    },
    /** Null: it was sealed with another key, or for something else. */
    open(sealed: string, purpose: string): string | null {
      const bytes = Buffer.from(sealed, 'base64url')
      const [iv, tag] = [bytes.subarray(0, ivBytes), bytes.subarray(ivBytes, ivBytes + tagBytes)]
      if (tag.length < tagBytes) return null
      try {
        const opening = createDecipheriv(cipher, key(), iv, { authTagLength: tagBytes })
          .setAAD(Buffer.from(purpose))
          .setAuthTag(tag)
        const opened = opening.update(bytes.subarray(ivBytes + tagBytes))
        return Buffer.concat([opened, opening.final()]).toString('utf8')
      } catch {
        return null
      }
    },
  }
}
