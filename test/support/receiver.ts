// A receiver of alerts, which keeps what it was told.

import { once } from 'node:events'
import { createServer } from 'node:http'

export type AlertReceiver = AsyncDisposable & {
  readonly url: string
  readonly told: string[]
  answer: number
}

export async function startAlertReceiver(): Promise<AlertReceiver> {
  const told: string[] = []
  const receiver = { told, answer: 200 }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      if (receiver.answer === 200) told.push(JSON.parse(Buffer.concat(chunks).toString()).text)
      response.writeHead(receiver.answer).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/hook`,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  })
}
