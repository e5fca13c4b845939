// The routes of the console, served for one test around actions that only write down what was asked for.

import { afterEach } from 'vitest'
import type { Order } from '../../src/operator/actions.ts'
import { actionRoutes, type Perform } from '../../src/web/actions.ts'
import { readAssets } from '../../src/web/assets.ts'
import { openAuthentication, openTokenCheck } from '../../src/web/auth.ts'
import { pageRoutes } from '../../src/web/page-routes.ts'
import { type HttpServer, startHttpServer } from '../../src/web/server.ts'
import { readOnlyViewer } from '../../src/web/sessions.ts'
import { signInRoutes } from '../../src/web/sign-in.ts'
import { quietLog } from './database.ts'

export const adminToken = 'an-admin-token-of-the-tests'
export const viewerToken = 'a-viewer-token-of-the-tests'
const servers: HttpServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

type Served = { readonly url: string; readonly orders: readonly Order[]; pass(ms: number): void }

export async function serveActions(
  token: string | null = adminToken,
  trustedProxies: readonly string[] = [],
): Promise<Served> {
  let nowMs = 1_700_000_000_000
  const now = () => nowMs
  const orders: Order[] = []
  const perform: Perform = async (_name, order) => {
    orders.push(order)
    if (order.target === 'broken') throw new Error('password=hunter2')
    return { text: `<b>${order.target}</b> is noted`, json: { noted: order.target } }
  }
  const authentication = openAuthentication(
    (role) => (token === null ? [] : [role === 'operator' ? token : viewerToken]),
    now,
  )
  const checkToken =
    authentication && openTokenCheck({ authentication, log: quietLog, onLockedOut() {}, now })
  const assets = readAssets()
  const server = await startHttpServer({
    host: '127.0.0.1',
    port: 0,
    trustedProxies,
    log: quietLog,
    routes: [
      actionRoutes({
        ...{ authentication, checkToken, streams: ['assignment', 'broken'] },
        ...{ perform, log: quietLog },
      }),
      signInRoutes({ authentication, checkToken, isOpen: true, assets, note: async () => {} }),
      pageRoutes({
        statusQueries: () => null,
        viewerOf: authentication?.viewerOf ?? (() => readOnlyViewer),
        assets,
        log: quietLog,
      }),
    ],
  })
  servers.push(server)
  return { url: server.url, orders, pass: (ms) => (nowMs += ms) }
}
export const pausing = '/streams/assignment/pause'
