// A TCP proxy before Postgres that cuts all connections at one statement: before the server hears of it, or after, so that
// the program never hears the answer. The nearest thing to pulling a plug.

import { connect, createServer, type Socket } from 'node:net'

export type Cut = {
  /** How many statements pass. */
  readonly after: number
  /** Whether the server still gets the statement that is cut. */
  readonly isHeard: boolean
  /** Only statements that hold this text, or have it in their name, are counted. */
  readonly mark?: string
}
export type CuttingProxy = {
  /** Of the database behind it; no TLS, or statements could not be counted. */
  readonly url: string
  hasCut(): boolean
  /** How many statements were let through. */
  statementCount(): number
  /** From now on nothing is cut. */
  heal(): void
  close(): Promise<void>
}

// Frontend messages that make the server work: a simple query, and the sync at the end of a prepared one.
const statementTypes = new Set([0x51, 0x53])

export const never: Cut = { after: Number.POSITIVE_INFINITY, isHeard: true }

export async function startCuttingProxy(
  databaseUrl: string,
  cut: Cut,
  onCut: () => void = () => {},
): Promise<CuttingProxy> {
  const { hostname, port } = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  let passed = 0
  let hasCut = false
  let isHealed = false

  const server = createServer((client) => {
    const upstream = connect(Number(port || 5432), hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    upstream.pipe(client)
    const countStatements = statementCounter()
    client.on('data', (data) => {
      const counted = countStatements(data)
      passed += isHealed ? 0 : cut.mark === undefined ? counted : Number(data.includes(cut.mark))
      if (isHealed || passed <= cut.after) {
        upstream.write(data)
        return
      }
      if (!hasCut) onCut()
      hasCut = true
      // The answer would only arrive at a socket that is gone.
      client.destroy()
      if (cut.isHeard) upstream.end(data)
      for (const socket of sockets) if (socket !== upstream || !cut.isHeard) socket.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const url = new URL(databaseUrl)
  url.hostname = '127.0.0.1'
  url.port = String(typeof address === 'object' && address ? address.port : 0)
  url.search = 'sslmode=disable'
  return {
    url: url.href,
    hasCut: () => hasCut,
    statementCount: () => passed,
    heal() {
      isHealed = true
    },
    close() {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

/** Follows the framing of the protocol through chunks that end anywhere. */
function statementCounter(): (data: Buffer) => number {
  let pending = Buffer.alloc(0)
  let isStartup = true
  let toSkip = 0
  return (data) => {
    let statements = 0
    let rest = Buffer.concat([pending, data])
    while (rest.length > 0) {
      if (toSkip > 0) {
        const skipped = Math.min(toSkip, rest.length)
        toSkip -= skipped
        rest = rest.subarray(skipped)
        continue
      }
      const header = isStartup ? 4 : 5
      if (rest.length < header) break
      const length = rest.readUInt32BE(header - 4)
      if (!isStartup && statementTypes.has(rest.readUInt8(0))) statements++
      // The length counts itself, but not the letter of the type.
      toSkip = isStartup ? length : length + 1
      isStartup = false
    }
    pending = rest
    return statements
  }
}
