// Very many deliveries to a webhook, as fast as a worker takes them.

import { connect } from 'node:net'
import { text } from 'node:stream/consumers'

/** Sends them over one connection without waiting for answers in between; returns the statuses. */
export async function deliver(url: string, times: number): Promise<readonly number[]> {
  const { hostname, port, pathname } = new URL(url)
  const socket = connect(Number(port), hostname)
  const delivery = (connection: string) =>
    `POST ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: ${connection}\r\nContent-Length: 2\r\n\r\n{}`
  socket.write(delivery('keep-alive').repeat(times - 1) + delivery('close'))
  const answers = await text(socket)
  return [...answers.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, status]) => Number(status))
}
