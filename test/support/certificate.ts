// A certificate that signs itself, for servers that speak TLS in tests.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type Certificate = {
  readonly key: string
  readonly cert: string
  readonly keyFile: string
  readonly certFile: string
}

/** In a directory that goes with the tests. `names` such as `DNS:api.example,IP:127.0.0.1`. */
export function makeCertificate(within: string, names: string): Certificate {
  const directory = mkdtempSync(join(within, 'certificate-'))
  const [keyFile, certFile] = [join(directory, 'key'), join(directory, 'cert')]
  const kind = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test'.split(
    ' ',
  )
  const files = ['-keyout', keyFile, '-out', certFile]
  execFileSync('openssl', ['req', ...kind, '-addext', `subjectAltName=${names}`, ...files], {
    stdio: 'ignore',
  })
  return { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8'), keyFile, certFile }
}
