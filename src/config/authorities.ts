// Certificates of further authorities (EXTRA_CA_FILE), which every TLS connection of this program trusts that names none of its own. When the
// file changes, connections made from then on go by it.

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { Logger } from '../log.ts'

const variable = 'EXTRA_CA_FILE'
let ofNode: readonly string[] | null = null
let trusted = ''

/** Throws in words when there is none in it. */
function readAuthorities(file: string): readonly string[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(
      `${variable} names ${file}, which cannot be read (${(cause as NodeJS.ErrnoException).code})`,
    )
  }
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g)
  if (!found) throw new Error(`${variable} names ${file}, which holds no certificate in PEM`)
  try {
    for (const one of found) new X509Certificate(one)
  } catch (cause) {
    throw new Error(
      `${variable} names ${file}, which holds a certificate that cannot be read (${(cause as Error).message})`,
    )
  }
  return found
}

function trust(authorities: readonly string[]): void {
  ofNode ??= getCACertificates('default')
  trusted = authorities.join('\n')
  setDefaultCACertificates([...new Set([...ofNode, ...authorities])])
}

export function trustAuthorities(file: string | null, complain: (problem: string) => void): void {
  if (!file) return
  try {
    trust(readAuthorities(file))
  } catch (error) {
    complain((error as Error).message)
  }
}

/** Looks whether the file has changed. A mistake in it is told once, and those from before are trusted on. */
export function watchAuthorities(file: string | null, log: Logger): () => void {
  let told: string | null = null
  return () => {
    if (!file) return
    let problem: string | null = null
    try {
      const found = readAuthorities(file)
      if (found.join('\n') !== trusted) {
        trust(found)
        log.info(`The certificates in ${variable} changed, and hold for connections from now on.`)
      }
    } catch (error) {
      problem = (error as Error).message
      if (problem !== told) log.warn(`${problem}. The certificates that were there before are trusted on.`)
    }
    told = problem
  }
}
