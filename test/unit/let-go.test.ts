// What a request or a reading leaves behind when it is over: nothing that would hold its pages in memory (P10).

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { openAsking } from '../../src/sync/changes/asking.ts'
import type { Ask } from '../../src/sync/changes/state.ts'
import type { Answer } from '../../src/sync/ports/source.ts'
import { readAnswerOf } from '../../src/upstream/http/read.ts'
import { noProxies, openAgents } from '../../src/util/proxies.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

it('keeps a connection, and nothing of the request that opened it (P10)', async () => {
  const server = createServer((_, response) => response.end('[]')).listen(0, '127.0.0.1')
  await using _ = { [Symbol.asyncDispose]: async () => void server.close() }
  await new Promise((resolve) => server.once('listening', resolve))
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  const kept = openAgents(noProxies, { keepAlive: true })
  const agents = kept.of(url)
  const { signal } = new AbortController()
  const limits = { connectMs: 10_000, requestMs: 10_000 }
  await readAnswerOf({ url, headers: {}, agents, ...limits, signal, take: () => undefined })
  await expect.poll(() => Object.values(agents.http.freeSockets).flat()).toHaveLength(1)
  const sockets = Object.values(agents.http.freeSockets).flat()
  const listeners = sockets.flatMap((socket) =>
    ['lookup', 'connect', 'secureConnect'].map((event) => socket?.listenerCount(event)),
  )
  expect(listeners).toEqual([0, 0, 0])
  kept.close()
})

it('lets go of the pages that were asked for early when the reading is over, whoever still holds its signal (P10)', async () => {
  const held: AbortSignal[] = []
  const answers: WeakRef<Answer>[] = []
  const asked: Ask = {
    kind: 'ask',
    request: { since: 0n, page: 2, pageSize: 100, sorts: 'ascending' },
    ...{ mayBeNothing: true, isOnlyLook: false, mayYield: false },
  }
  await (async () => {
    const asking = openAsking({
      source: {
        async changes(_, signal) {
          held.push(signal)
          const answer = { records: [{ Id: 1 }], bytes: 1 }
          answers.push(new WeakRef(answer.records[0] as never))
          return answer
        },
      },
      ...{ keyFields: ['Id'], versionFields: [], signal: new AbortController().signal },
    })
    asking.begin(asked)
    await new Promise((resolve) => setImmediate(resolve))
    asking.stop()
    expect(held.map(({ aborted }) => aborted)).toEqual([true])
  })()
  await new Promise((resolve) => setImmediate(resolve))
  collectGarbage()
  expect(answers.map((answer) => answer.deref())).toEqual([undefined])
})
