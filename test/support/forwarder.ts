// An address that leads elsewhere, as a name or a load balancer does: new connections go to where it leads now, old ones stay.

import { connect, createServer, type Socket } from 'node:net'

export type Forwarder = AsyncDisposable & {
  readonly port: number
  lead(to: number): void
}

export async function startForwarder(to: number): Promise<Forwarder> {
  const sockets = new Set<Socket>()
  let target = to
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.pipe(upstream).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    lead(port) {
      target = port
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
