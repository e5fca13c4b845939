// A receiver of alerts: a real HTTP server that keeps what it was sent, in the form for programs.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export type SentProblem = { readonly event: 'began' | 'over'; readonly key: string; readonly what: string }
export type AlertReceiver = AsyncDisposable & {
  readonly url: string
  /** Of all messages, in the order in which they came. */
  received(): readonly SentProblem[]
}

export async function receiveAlerts(): Promise<AlertReceiver> {
  const received: SentProblem[] = []
  const server = createServer(async (request, response) => {
    const { problems } = JSON.parse(await text(request)) as { problems: readonly SentProblem[] }
    received.push(...problems)
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/alerts`,
    received: () => received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
