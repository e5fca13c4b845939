// Several long answers at once take no more memory than one: they wait for each other, or are refused (P10).

import { setTimeout } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { openAnswerMemory } from '../../src/upstream/http/answer-memory.ts'
import { isRecordPage } from '../../src/wire/record-page.ts'
import { failureOf, noSignal, openServerClient, startServer } from '../support/client.ts'

const megabyte = 1024 * 1024
const record = `{"AssignmentId":1,"RowVersion":1,"Text":"${'x'.repeat(100_000)}"}`
const listOf = (bytes: number) =>
  `[${Array(Math.ceil(bytes / record.length))
    .fill(record)
    .join()}]`

describe('P10: answers at the same time', () => {
  it.each(['', 'gzip', 'announced'])(
    'come in one after the other where there is no room for all (%s)',
    async (how) => {
      const text = listOf(8 * megabyte)
      await using server = await startServer((_, response) => {
        const type = { 'content-type': 'application/json' }
        if (how === 'gzip')
          response.writeHead(200, { ...type, 'content-encoding': 'gzip' }).end(gzipSync(text))
        else if (how === 'announced')
          response.writeHead(200, { ...type, 'content-length': text.length }).end(text)
        else response.writeHead(200, type).end(text)
      })
      const answerMemory = openAnswerMemory(10 * megabyte)
      const client = openServerClient(server, { answerMemory })
      let held = 0
      let most = 0
      const read = async () => {
        const { body } = await client.callForRecords('listAssignments', {}, noSignal)
        most = Math.max(most, ++held)
        await setTimeout(20)
        held--
        if (!isRecordPage(body)) throw new Error('no page')
        expect(body.length).toBeGreaterThan(80)
        body.release()
      }
      await Promise.all(Array.from({ length: 4 }, read))
      expect(most).toBe(1)
      // Everything was given back.
      expect(answerMemory.open().take(10 * megabyte)).toBe(true)
    },
  )

  it('give their share back however they end', async () => {
    let answer: (response: Parameters<Parameters<typeof startServer>[0]>[1]) => void = () => {}
    await using server = await startServer((_, response) => {
      response.setHeader('content-type', 'application/json')
      answer(response)
    })
    const answerMemory = openAnswerMemory(10 * megabyte)
    const client = openServerClient(server, { answerMemory, maxResponseBytes: 9 * megabyte })
    const text = listOf(6 * megabyte)
    const ways: Record<string, typeof answer> = {
      UPSTREAM_STATUS: (response) => response.writeHead(418).end(text),
      UPSTREAM_JSON: (response) => response.end(`${text.slice(0, -1)}`),
      UPSTREAM_TRUNCATED: (response) => {
        response.writeHead(200, { 'content-length': text.length + 1 })
        response.write(text, () => response.destroy())
      },
      UPSTREAM_TOO_LARGE: (response) => response.end(`${text}${text}`),
      UPSTREAM_UNAUTHORIZED: (response) => response.writeHead(401).end(text),
    }
    for (const [code, way] of Object.entries(ways)) {
      answer = way
      const failure = await failureOf(client.call('listAssignments', {}, noSignal))
      expect(failure.code).toBe(code)
      const share = answerMemory.open()
      expect(share.take(10 * megabyte), code).toBe(true)
      share.leave()
    }
  })

  it('are refused in plain words, and asked for again, where each would wait for the others', async () => {
    const text = listOf(9 * megabyte)
    const begun: (() => void)[] = []
    const answerMemory = openAnswerMemory(17 * megabyte)
    const isFull = () => {
      const share = answerMemory.open()
      const isTaken = share.take(2 * megabyte)
      share.leave()
      return !isTaken
    }
    await using server = await startServer(async (_, response) => {
      response.setHeader('content-type', 'application/json')
      if (server.received.length > 2) return void response.end(text)
      // Both have begun before either goes on.
      response.write(text.slice(0, 5 * megabyte))
      begun.push(() => response.end(text.slice(5 * megabyte)))
      if (begun.length < 2) return
      while (!isFull()) await setTimeout(5)
      for (const goOn of begun) goOn()
    })
    const client = openServerClient(server, { answerMemory })
    const read = async () => (await client.call('listAssignments', {}, noSignal)).status
    expect(await Promise.all([read(), read()])).toEqual([200, 200])
    expect(client.told.retries).toMatchObject([{ reason: 'UPSTREAM_NO_ROOM', attempt: 1 }])
    expect(client.logged()).toMatch(
      /GET \/api\/Assignment: the answer has [89][.0-9]* MB or more, and together with other answers .* more than the 17 MB/,
    )
    expect(answerMemory.open().take(17 * megabyte)).toBe(true)
  })
})
