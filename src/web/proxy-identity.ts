// Who somebody is, as a proxy in front of the worker says in headers that it adds: only from the addresses that IDENTITY_PROXIES names.

import type { FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { type RoleGroups, roleOf } from '../operator/roles.ts'
import { networkOf, openLimit } from './limits.ts'
import { printable } from './oidc.ts'
import { isOneOf } from './server.ts'
import type { Person } from './sessions.ts'

export type ProxyIdentity = {
  /** Null: no proxy that may say so names anybody. */
  readonly person: Person | null
  /** Why somebody whom the proxy names has no rights here. */
  readonly problem: string | null
}

type Options = {
  /** Addresses and networks; nothing: no proxy is believed. */
  readonly proxies: readonly string[]
  readonly userHeader: string
  readonly groupsHeader: string
  readonly groups: RoleGroups
  readonly log: Logger
}

const nobody: ProxyIdentity = { person: null, problem: null }
/** Of each address. */
const toldOnce = { most: 1, withinMs: 60_000 }

/** Node takes each byte of a header for a character. */
const asUtf8 = (header: string): string => Buffer.from(header, 'latin1').toString()

export function openProxyIdentity({ proxies, userHeader, groupsHeader, groups, log }: Options) {
  const isTrusted = isOneOf(proxies)
  const told = openLimit(toldOnce)
  const tell = (address: string, text: string) => {
    if (told.waitMs(networkOf(address), Date.now()) > 0) return
    told.count(networkOf(address), Date.now())
    log.warn({ address }, text)
  }
  return ({ socket, raw }: Pick<FastifyRequest, 'socket' | 'raw'>): ProxyIdentity => {
    const users = raw.headersDistinct[userHeader]
    if (proxies.length === 0 || users === undefined) return nobody
    const address = socket.remoteAddress ?? 'nowhere'
    if (!isTrusted(address)) {
      tell(address, `${userHeader} came from an address that IDENTITY_PROXIES does not name, and was ignored`)
      return nobody
    }
    const lists = raw.headersDistinct[groupsHeader] ?? []
    // Two of them: the proxy let one through that a client wrote.
    const [user = ''] = users.map(asUtf8)
    const isClear = users.length === 1 && lists.length <= 1
    const name = printable(user)
    const [list = ''] = lists.map(asUtf8)
    const role = roleOf(
      list.split(',').map((one) => one.trim()),
      groups,
    )
    if (isClear && name !== '' && role !== null)
      return { person: { role, who: `proxy:${name}` }, problem: null }
    const problem = !isClear
      ? `${userHeader} or ${groupsHeader} came twice, so nobody was signed in. Let the proxy remove those that clients send.`
      : name === ''
        ? `${userHeader} is empty, so nobody was signed in.`
        : `The proxy knows you as ${name}, but none of the groups in ${groupsHeader} gives a role here. Ask an admin to put you into one that VIEWER_GROUPS, OPERATOR_GROUPS or ADMIN_GROUPS names.`
    tell(address, problem)
    return { person: null, problem }
  }
}
