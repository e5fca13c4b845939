// The connections of the HTTP server: how many there may be, and which give way. Each is an open file, of which the rest of the program
// needs some as well.

import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Logger } from '../log.ts'

const mostConnections = { ofOneAddress: 200, inAll: 1_000 }
/** Open files that are left for Postgres, the queue, the upstream and the program itself. */
const filesBeside = 200
const leastFiles = 512
const fullLogMs = 60_000

/** Null: there are enough. */
export const tooFewFiles = (openFiles: number): string | null =>
  openFiles >= leastFiles
    ? null
    : `This process may have ${openFiles} files open at once, and Tidemark needs ${leastFiles} for its connections. Raise the limit: \`ulimit -n 4096\` in the shell, LimitNOFILE=4096 for systemd, or ulimits with nofile: 4096 for Docker.`

/** Infinite where the system has no such limit, or does not tell. Node has raised it as far as it may. */
export function openFilesLimit(): number {
  // Otherwise the names of all connections are looked up for the report.
  Object.assign(process.report, { excludeNetwork: true })
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly open_files?: { readonly soft?: unknown } }
  }
  const soft = userLimits?.open_files?.soft
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY
}

// A client that opens connections and sends nothing must not keep others out (P10): a new connection takes the place of the oldest one
// that waits for a request. Connections that are being answered, such as a page that follows the worker, stay.
export function limitConnections(
  server: Server,
  {
    openFiles,
    isTrusted,
    log,
  }: {
    /** How many files this process may have open; a connection is one. */
    readonly openFiles: number
    /** A proxy brings the connections of many. */
    readonly isTrusted: (address: string) => boolean
    readonly log: Logger
  },
) {
  const most = { ...mostConnections, inAll: Math.min(mostConnections.inAll, openFiles - filesBeside) }
  // Sets keep the order in which the connections came.
  const waiting = new Map<string, Set<Socket>>()
  const counts = new Map<string, number>()
  let inAll = 0
  let toldAtMs = Number.NEGATIVE_INFINITY

  const tell = () => {
    if (performance.now() - toldAtMs < fullLogMs) return
    toldAtMs = performance.now()
    log.warn(
      { connections: inAll, limit: most.inAll, fromHowManyAddresses: counts.size },
      'all connections over HTTP are in use: new ones take the place of those that say nothing, or are closed. Somebody opens very many, or the limit of open files (ulimit -n) is low',
    )
  }
  const count = (address: string, change: 1 | -1) => {
    inAll += change
    const left = (counts.get(address) ?? 0) + change
    if (left > 0) counts.set(address, left)
    else counts.delete(address)
  }
  const waits = (address: string, socket: Socket) => {
    const sockets = waiting.get(address) ?? new Set()
    waiting.set(address, sockets.add(socket))
  }
  const waitsNoMore = (address: string, socket: Socket) => {
    const sockets = waiting.get(address)
    sockets?.delete(socket)
    if (sockets?.size === 0) waiting.delete(address)
  }
  const oldestOf = (address: string): Socket | undefined => waiting.get(address)?.values().next().value
  const busiest = () => [...waiting].toSorted(([, one], [, other]) => other.size - one.size)[0]?.[0] ?? ''

  server.on('connection', (socket) => {
    const address = socket.remoteAddress ?? ''
    const isTooMany = (counts.get(address) ?? 0) >= most.ofOneAddress && !isTrusted(address)
    if (inAll >= most.inAll) tell()
    const gives = isTooMany ? oldestOf(address) : inAll >= most.inAll ? oldestOf(busiest()) : null
    if (gives === undefined) return void socket.destroy()
    gives?.destroy()
    count(address, 1)
    waits(address, socket)
    socket.once('close', () => {
      waitsNoMore(address, socket)
      count(address, -1)
    })
  })
  server.on('request', (request, response) => {
    const { socket, headers } = request
    const address = socket.remoteAddress ?? ''
    // Somebody who sends a body slowly is still one who is waited for.
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if (hasBody) request.once('end', () => waitsNoMore(address, socket))
    else waitsNoMore(address, socket)
    response.once('close', () => !socket.destroyed && waits(address, socket))
  })
}
