// The routes of the console, served for one test around actions that only write down what was asked for.

import { PassThrough } from 'node:stream'
import { afterEach } from 'vitest'
import { openLog } from '../../src/log.ts'
import type { Order } from '../../src/operator/actions.ts'
import { actionRoutes, type Perform } from '../../src/web/actions.ts'
import { readAssets } from '../../src/web/assets.ts'
import { identified, openAuthentication } from '../../src/web/auth.ts'
import { pageRoutes } from '../../src/web/page-routes.ts'
import { openLookUp } from '../../src/web/people-store.ts'
import { openProxyIdentity } from '../../src/web/proxy-identity.ts'
import { type HttpServer, startHttpServer } from '../../src/web/server.ts'
import { signInRoutes } from '../../src/web/sign-in.ts'
import { quietLog } from './database.ts'

export const adminToken = 'an-admin-token-of-the-tests'
export const viewerToken = 'a-viewer-token-of-the-tests'
export const sessionMs = 12 * 3_600_000
const servers: HttpServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

type Served = {
  readonly url: string
  readonly orders: readonly Order[]
  pass(ms: number): void
  /** What is logged of proxies that say who somebody is. */
  told(): string
}

export async function serveActions(
  token: string | null = adminToken,
  trustedProxies: readonly string[] = [],
  identityProxies: readonly string[] = [],
): Promise<Served> {
  let nowMs = 1_700_000_000_000
  const told = new PassThrough()
  const now = () => nowMs
  const orders: Order[] = []
  const perform: Perform = async (_name, order) => {
    orders.push(order)
    if (order.target === 'broken') throw new Error('password=hunter2')
    return { text: `<b>${order.target}</b> is noted`, json: { noted: order.target } }
  }
  const authentication = openAuthentication({
    tokens: (role) => (token === null ? [] : [role === 'admin' ? token : viewerToken]),
    // As while Postgres is away: what is then known, the worker knows by itself.
    lookUp: openLookUp(() => null),
    ...{ sessionMs, log: quietLog, onLockedOut() {}, now },
    proxied: openProxyIdentity({
      ...{ proxies: identityProxies, userHeader: 'x-forwarded-user', groupsHeader: 'x-forwarded-groups' },
      groups: { admin: ['bosses'], operator: ['ops'], viewer: ['staff', 'Außendienst'] },
      log: openLog({ level: 'info', stream: told }),
    }),
  })
  const assets = readAssets()
  const server = await startHttpServer({
    host: '127.0.0.1',
    port: 0,
    trustedProxies,
    log: quietLog,
    routes: [
      identified(authentication, [
        actionRoutes({
          ...{ authentication, streams: () => ['assignment', 'broken'], perform, assets },
          log: quietLog,
        }),
        signInRoutes({
          authentication,
          provider: null,
          isOpen: true,
          assets,
          note: async () => {},
          log: quietLog,
        }),
        pageRoutes({ statusQueries: () => null, viewerOf: authentication.viewerOf, assets, log: quietLog }),
      ]),
    ],
  })
  servers.push(server)
  return { url: server.url, orders, pass: (ms) => (nowMs += ms), told: () => String(told.read() ?? '') }
}
export const pausing = '/streams/assignment/pause'
