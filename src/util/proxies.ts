// Proxies on the way out: for which addresses which proxy is used, and the connections that go through it. The tunnel, the credentials and
// the certificates are the platform's business.

import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { BlockList, isIP } from 'node:net'

export type Proxies = {
  /** For `https:` addresses; null: none. It may hold a password (P9). */
  readonly https: string | null
  readonly http: string | null
  /** NO_PROXY: names with all below them, addresses, networks, each with a port or without; `*` is everything. */
  readonly exceptions: readonly string[]
}
export const noProxies: Proxies = { https: null, http: null, exceptions: [] }

/** The proxy for an address; null: it is asked directly. This machine is never asked through one. */
export function proxyOf(url: URL, proxies: Proxies): URL | null {
  const proxy = url.protocol === 'https:' ? proxies.https : proxies.http
  const host = plainHost(url.hostname)
  const port = url.port || (url.protocol === 'https:' ? '443' : '80')
  if (proxy === null || isLoopback(host)) return null
  return proxies.exceptions.some((one) => isMeant(one.toLowerCase(), host, port)) ? null : new URL(proxy)
}

/** Without the brackets of an address, and without the dot that may end a name. */
export const plainHost = (hostname: string): string =>
  hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase()

const isLoopback = (host: string): boolean => /^(?:(?:.+\.)?localhost|::1|127(?:\.\d+){3})$/.test(host)

function isMeant(exception: string, host: string, port: string): boolean {
  if (exception === '*') return true
  const [, text = exception, network] = /^([\d.]+|[\da-f:]+)\/(\d+)$/.exec(exception) ?? []
  if (network !== undefined) return isInNetwork(host, text, Number(network))
  const [, named = '', wantedPort] = /^(\[[^\]]*\]|[^:]*|[\da-f:]+)(?::(\d+))?$/.exec(exception) ?? []
  const name = named.replace(/^\[|\]$/g, '').replace(/^\*?\./, '')
  if (name === '' || (wantedPort !== undefined && wantedPort !== port)) return false
  return host === name || (isIP(host) === 0 && host.endsWith(`.${name}`))
}

function isInNetwork(host: string, network: string, prefix: number): boolean {
  const version = isIP(network)
  if (version === 0 || isIP(host) !== version || prefix > (version === 4 ? 32 : 128)) return false
  const family = version === 4 ? 'ipv4' : 'ipv6'
  const list = new BlockList()
  list.addSubnet(network, prefix, family)
  return list.check(host, family)
}

export type Agents = { readonly http: HttpAgent; readonly https: HttpsAgent }

/** A proxy that takes the connection and then says nothing is given up after this. */
const tunnelMs = 15_000

export function openAgents(proxies: Proxies, { keepAlive }: { readonly keepAlive: boolean }) {
  const how = { keepAlive, maxSockets: 32 }
  const direct = { http: new HttpAgent(how), https: new HttpsAgent(how) }
  // Which addresses go past the proxies is decided above, as curl has it: the platform's own rules leave out what is below a name.
  const proxyEnv = {
    ...(proxies.http !== null && { HTTP_PROXY: proxies.http }),
    ...(proxies.https !== null && { HTTPS_PROXY: proxies.https }),
  }
  const through = { ...how, proxyEnv, timeout: tunnelMs }
  const proxied = { http: new HttpAgent(through), https: new HttpsAgent(through) }
  return {
    of: (url: URL): Agents => (proxyOf(url, proxies) === null ? direct : proxied),
    close() {
      for (const agent of [direct.http, direct.https, proxied.http, proxied.https]) agent.destroy()
    },
  }
}
