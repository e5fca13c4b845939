// Whether the hosts that are configured can be found, reached and trusted, through a proxy where one is used. Sends nothing to them.

import { lookup } from 'node:dns/promises'
import { request as httpsRequest } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { networkError } from '../upstream/http/network-failures.ts'
import { openAgents, type Proxies, proxyOf } from '../util/proxies.ts'
import { type Check, good, wrong } from './check.ts'

const networkTimeoutMs = 10_000
const soonMs = 21 * 86_400_000

/** One line for the name, and one for the connection; where a proxy is used, it looks up the name. */
export async function probeHost(text: string, proxies: Proxies): Promise<readonly Check[]> {
  const url = new URL(text)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const proxy = proxyOf(url, proxies)
  if (proxy) return [await probeThrough(proxy, url, proxies)]
  try {
    const addresses = await lookup(host, { all: true })
    const dns = addresses.map(({ address }) => address).join(', ')
    return [good(`dns ${host}`, dns), await probeConnection(url, host)]
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return [wrong(`dns ${host}`, `has no address (${code}): check the URL, and the DNS of this machine`)]
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
          end(true, certificate(socket as TLSSocket))
        })
      : connectPlain({ host, port }, () => end(true, 'reached, not encrypted'))
    socket.setTimeout(networkTimeoutMs, () => end(false, 'no answer within 10 s: check the firewall'))
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) =>
      end(
        false,
        isTls && code && /CERT|SELF_SIGNED|UNABLE_TO/.test(code)
          ? `its certificate is not trusted (${code}): put the certificate of its authority in a file and name it in EXTRA_CA_FILE`
          : `cannot be reached (${code ?? message}): check the URL, the port and the firewall`,
      ),
    )
  })
}

async function probeThrough(proxy: URL, url: URL, proxies: Proxies): Promise<Check> {
  const name = `proxy ${proxy.host}`
  const way = `${url.host} is asked through it`
  if (url.protocol === 'http:') {
    const { isFine, says } = await probeConnection(proxy, proxy.hostname)
    return { name, isFine, says: `${says}; ${way}` }
  }
  const agents = openAgents(proxies, { keepAlive: false })
  return await new Promise<Check>((resolve) => {
    const request = httpsRequest(url, { agent: agents.of(url).https })
    const end = (isFine: boolean, says: string) => {
      request.destroy()
      agents.close()
      resolve({ name, isFine, says: `${way}: ${says}` })
    }
    // There is none before the tunnel is open and the certificate is found good. Nothing is sent.
    request.on('socket', (socket) => end(true, certificate(socket as TLSSocket)))
    request.on('error', ({ code = 'ECONNRESET', message }: NodeJS.ErrnoException) => {
      const failure = { code, message, phase: 'request' } as const
      end(false, networkError({ method: 'GET', url, body: null, proxy }, failure).problem)
    })
  })
}

function certificate(socket: TLSSocket): string {
  const { valid_to } = socket.getPeerCertificate()
  const protocol = socket.getProtocol() ?? 'TLS'
  const endsAt = new Date(valid_to)
  const isSoon = endsAt.getTime() - Date.now() < soonMs
  return `${protocol}, certificate valid until ${endsAt.toISOString().slice(0, 10)}${isSoon ? ', which is soon' : ''}`
}
