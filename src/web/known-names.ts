// Keeps pages from sites whose name was bound to this machine after their script was loaded (DNS rebinding): to the browser of
// somebody here, such a site and this worker would be one. It matters where only this machine is listened to; elsewhere whoever
// reaches the address may read the pages anyway.

import { isIP } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Routes } from './http-server.ts'

type Place = {
  readonly listensOn: string
  /** PUBLIC_URL. */
  readonly publicUrl: string | null
}

const refusal =
  'the worker is not known by this name: open it by its address or over TLS, or have the proxy send the address as Host and the name as X-Forwarded-Host'

/** Routes that answer only those who ask by a name that nobody else could have bound. */
export const byKnownNames =
  ({ listensOn, publicUrl }: Place, routes: readonly Routes[]): Routes =>
  (server) => {
    const publicName = publicUrl === null ? null : new URL(publicUrl).hostname
    const isKnown = (name: string) => isLoopback(name) || isIP(name) !== 0 || name === publicName
    async function admit(
      { headers }: FastifyRequest,
      reply: FastifyReply,
    ): Promise<FastifyReply | undefined> {
      if (!isLoopback(listensOn) || headers.host === undefined || isKnown(nameIn(headers.host))) return
      // Browsers send it to this machine and over TLS only, and no script can: there is a proxy that speaks TLS.
      if (headers['sec-fetch-site'] !== undefined) return
      return reply.code(421).send({ error: refusal })
    }
    server.register(async (scope) => {
      scope.addHook('onRequest', admit)
      for (const add of routes) add(scope)
    })
  }

const isLoopback = (host: string): boolean =>
  /^(?:.+\.)?localhost$/i.test(host) || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

/** Without its port, and an IPv6 address without its brackets. */
const nameIn = (host: string): string =>
  URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname.replace(/^\[|\]$/g, '') : ''
