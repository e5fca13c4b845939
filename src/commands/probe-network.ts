// Whether the hosts that are configured can be found, reached and trusted. Sends nothing to them.

import { lookup } from 'node:dns/promises'
import { connect as connectPlain } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { Check } from './probe-check.ts'

const patienceMs = 10_000
const soonMs = 21 * 86_400_000

/** One line for the name, and one for the connection. */
export async function probeHost(text: string): Promise<readonly Check[]> {
  const url = new URL(text)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  try {
    const addresses = await lookup(host, { all: true })
    const dns: Check = {
      name: `dns ${host}`,
      isFine: true,
      says: addresses.map(({ address }) => address).join(', '),
    }
    return [dns, await probeConnection(url, host)]
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return [
      { name: `dns ${host}`, isFine: false, says: `cannot be found (${code}): check the URL and the DNS` },
    ]
  }
}

async function probeConnection(url: URL, host: string): Promise<Check> {
  const isTls = url.protocol === 'https:'
  const port = Number(url.port || (isTls ? 443 : 80))
  const name = `${isTls ? 'tls' : 'tcp'} ${host}:${port}`
  return await new Promise<Check>((resolve) => {
    const end = (isFine: boolean, says: string) => {
      socket.destroy()
      resolve({ name, isFine, says })
    }
    const socket = isTls
      ? connectTls({ host, port, servername: host }, () => {
          const { isFine, says } = certificate(socket as TLSSocket)
          end(isFine, says)
        })
      : connectPlain({ host, port }, () => end(true, 'reached, without encryption'))
    socket.setTimeout(patienceMs, () => end(false, 'no answer in time: check the firewall'))
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) =>
      end(
        false,
        isTls && code && /CERT|SELF_SIGNED|UNABLE_TO/.test(code)
          ? `the certificate is not accepted (${code}): name its authority in NODE_EXTRA_CA_CERTS`
          : `cannot be reached (${code ?? message}): check the URL, the port and the firewall`,
      ),
    )
  })
}

function certificate(socket: TLSSocket): { readonly isFine: boolean; readonly says: string } {
  const { valid_to } = socket.getPeerCertificate()
  const protocol = socket.getProtocol() ?? 'TLS'
  const endsAt = new Date(valid_to)
  const isSoon = endsAt.getTime() - Date.now() < soonMs
  return {
    isFine: true,
    says: `${protocol}, the certificate is good until ${endsAt.toISOString().slice(0, 10)}${isSoon ? ': soon' : ''}`,
  }
}
