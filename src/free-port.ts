// A port of this machine that nobody listens on.

import { createServer } from 'node:net'

/** The wanted one when it is free, otherwise any. */
export const freePort = async (wanted = 0): Promise<number> =>
  (await listenOnce(wanted)) ?? (await listenOnce(0)) ?? wanted

function listenOnce(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(null))
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : null))
    })
  })
}
