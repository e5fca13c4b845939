// A real proxy of a few lines: tunnels for https, whole addresses for http. Every name is on this machine for it, so that tests need no DNS.

import { createServer, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { Duplex } from 'node:stream'

export type TestProxy = AsyncDisposable & {
  readonly url: string
  readonly host: string
  /** What was asked for: `CONNECT host:443` or `GET http://…`. */
  readonly asked: readonly string[]
  readonly credentials: readonly (string | null)[]
  /** Answers this instead of opening tunnels; null: opens them; `silent`: says nothing. */
  refusal: number | 'silent' | null
}

/** `ports`: where a port of the names is on this machine. */
export async function startProxy(ports: Readonly<Record<string, number>>): Promise<TestProxy> {
  const asked: string[] = []
  const credentials: (string | null)[] = []
  const sockets = new Set<Duplex>()
  const note = (what: string, authorization: string | undefined) => {
    asked.push(what)
    credentials.push(
      authorization ? Buffer.from(authorization.split(' ')[1] ?? '', 'base64').toString() : null,
    )
  }
  const server = createServer((asking, answering) => {
    note(`${asking.method} ${asking.url}`, asking.headers['proxy-authorization'])
    const url = new URL(asking.url ?? '')
    const { method, headers } = asking
    const port = ports[url.port || '80']
    const onward = request({ port, method, headers, path: `${url.pathname}${url.search}` }, (answer) => {
      answering.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(answering)
    })
    asking.pipe(onward)
  })
  const proxy = { refusal: null as TestProxy['refusal'] }
  server.on('connect', ({ url = '', headers }, client: Duplex) => {
    note(`CONNECT ${url}`, headers['proxy-authorization'])
    sockets.add(client)
    client.on('error', () => {})
    if (proxy.refusal === 'silent') return
    if (proxy.refusal !== null) {
      client.end(`HTTP/1.1 ${proxy.refusal} Refused\r\ncontent-length: 0\r\n\r\n`)
      return
    }
    const target = connect(ports[url.split(':').at(-1) ?? ''] ?? 0, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      target.pipe(client)
      client.pipe(target)
    })
    sockets.add(target)
    target.on('error', () => client.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return Object.assign(proxy, {
    ...{ host, url: `http://${host}`, asked, credentials },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  })
}
