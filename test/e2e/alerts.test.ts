// `tidemark alerts test`, as the real program to a real receiver.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { environmentFor } from '../support/environment.ts'
import { runHere } from '../support/verbs.ts'

it('sends a test message, and says when it does not arrive, without the address (P9)', async () => {
  const received: unknown[] = []
  let status = 200
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      received.push(JSON.parse(body))
      response.writeHead(status).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  await using simulator = await startSimulator()
  const environment = environmentFor(simulator, null, {
    ALERT_WEBHOOK_URL: `http://127.0.0.1:${port}/canary-of-the-alerts`,
    ALERT_FORMAT: 'json',
  })
  try {
    expect(await runHere(['alerts', 'test'], environment)).toEqual({
      code: 0,
      stdout: 'A test message was sent, in the form of json. Look whether it is there.\n',
      stderr: '',
    })
    expect(received).toEqual([expect.objectContaining({ version: 1, test: true, problems: [] })])
    status = 404
    const { code, stderr } = await runHere(['alerts', 'test'], environment)
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'An alert could not be delivered: the receiver answered 404. Check ALERT_WEBHOOK_URL.\n',
    })
    const unset = await runHere(['alerts', 'test'], { ...environment, ALERT_WEBHOOK_URL: '' })
    expect([unset.code, unset.stderr]).toEqual([2, expect.stringContaining('Set ALERT_WEBHOOK_URL')])
  } finally {
    server.close()
  }
})
