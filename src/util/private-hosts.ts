// Which hosts only this machine or a private network reaches: there plain text is the owner's business. Names are judged as they are
// written, and never looked up.

import { BlockList, isIP } from 'node:net'
import { plainHost } from './proxies.ts'

const privateNetworks = new BlockList()
for (const [network, prefix] of [
  ['127.0.0.0', 8],
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['169.254.0.0', 16],
] as const)
  privateNetworks.addSubnet(network, prefix, 'ipv4')
for (const [network, prefix] of [
  ['::1', 128],
  ['fc00::', 7],
  ['fe80::', 10],
] as const)
  privateNetworks.addSubnet(network, prefix, 'ipv6')

/** A name without dots is one of this network, unless it is a number: that is an address written oddly. */
const singleLabel = /^(?!\d+$|0x[\da-f]+$)[^.:]+$/
const privateEnding = /\.(?:localhost|local|internal|svc)$/

/** `host` as a URL has it. */
export function isPrivateHost(host: string): boolean {
  const name = plainHost(host)
  const version = isIP(name)
  if (version !== 0) return privateNetworks.check(name, version === 4 ? 'ipv4' : 'ipv6')
  return name === '' || singleLabel.test(name) || privateEnding.test(name)
}
