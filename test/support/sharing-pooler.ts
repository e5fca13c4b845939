// A TCP proxy before Postgres that does what a pooler in transaction mode does: all clients share one session of the server. Good for
// one client speaking at a time.

import { connect, createServer, type Socket } from 'node:net'

export type SharingPooler = AsyncDisposable & { readonly port: number }

const ready = 0x5a
/** Parameters, the key for cancelling, and that the server is ready: all that follows a sign-in. */
const greetings = new Set([0x53, 0x4b, ready])
const terminate = 0x58
const signedIn = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0])

export async function startSharingPooler(target: { host: string; port: number }): Promise<SharingPooler> {
  const session = connect(target)
  const clients = new Set<Socket>()
  let greeting = Buffer.alloc(0)
  let asking: Socket | null = null
  session.on('error', () => {})
  session.on('data', (data) => {
    if (!isComplete(greeting)) greeting = Buffer.concat([greeting, data])
    asking?.write(data)
  })

  const server = createServer((client) => {
    clients.add(client)
    let isGreeted = clients.size === 1
    client.on('error', () => {})
    client.on('close', () => clients.delete(client))
    client.on('data', (data) => {
      if (!isGreeted) {
        isGreeted = true
        const known = messages(greeting).filter(({ type }) => greetings.has(type))
        client.write(Buffer.concat([signedIn, ...known.map(({ bytes }) => bytes)]))
        return
      }
      if (data[0] === terminate) return
      asking = client
      session.write(data)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    async [Symbol.asyncDispose]() {
      for (const socket of [session, ...clients]) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const isComplete = (bytes: Buffer): boolean => messages(bytes).some(({ type }) => type === ready)

function messages(bytes: Buffer): { readonly type: number; readonly bytes: Buffer }[] {
  const found: { type: number; bytes: Buffer }[] = []
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    if (end > bytes.length) break
    found.push({ type: bytes.readUInt8(at), bytes: bytes.subarray(at, end) })
    at = end
  }
  return found
}
