// Whatever an upstream answers, reading it takes no more memory than a worker is given (P10): each answer is read by a program of its own.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { startServer } from '../support/client.ts'

const readList = fileURLToPath(new URL('../support/read-list.ts', import.meta.url))
// As the program is started.
const quickStart = fileURLToPath(new URL('../../bin/quick-start.js', import.meta.url))
const [firstLine = ''] = readFileSync(new URL('../../bin/tidemark.js', import.meta.url), 'utf8').split('\n')
const flags = [...(firstLine.match(/--\S+/g) ?? []), '--import', quickStart]
const env = {
  ...process.env,
  ...Object.fromEntries([...firstLine.matchAll(/(\w+)=(\d+) /g)].map(([, name, value]) => [name, value])),
}
const mostMegabytes = 256

/** Parts of a body, `count` of them. */
type Body = { readonly count: number; part(index: number): string }

async function send(response: ServerResponse, { count, part }: Body): Promise<void> {
  response.on('error', () => {})
  const closed = once(response, 'close')
  let gathered = ''
  for (let index = 0; index < count && !response.destroyed; index++) {
    gathered += part(index)
    if (gathered.length < 262_144 && index < count - 1) continue
    const isTaken = response.write(gathered)
    gathered = ''
    if (!isTaken && !response.destroyed) await Promise.race([once(response, 'drain'), closed])
  }
  response.end()
}

async function read(body: Body) {
  await using server = await startServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    void send(response, body)
  })
  const program = [...flags, readList, server.url]
  const { stdout } = await promisify(execFile)(process.execPath, program, { timeout: 60_000, env })
  return JSON.parse(stdout) as { rows?: number; code?: string; problem?: string; megabytes: number }
}

const list = (count: number, record: (index: number) => string): Body => ({
  count: count + 1,
  part: (index) => (index === count ? ']' : `${index === 0 ? '[' : ','}${record(index)}`),
})
const filler = 'x'.repeat(1_000)

describe('P10: an answer', { timeout: 120_000 }, () => {
  it('of 40 MB is read whole', async () => {
    const record = (index: number) => `{"AssignmentId":${index},"RowVersion":${index},"Text":"${filler}"}`
    const { rows, megabytes } = await read(list(40_000, record))
    expect(rows).toBe(40_000)
    expect(megabytes).toBeLessThan(mostMegabytes)
  })

  it('in which each of many records has another of many fields is read whole', async () => {
    const record = (index: number) => `{"AssignmentId":${index},"RowVersion":${index},"F${index % 900}":1}`
    const { rows, megabytes } = await read(list(100_000, record))
    expect(rows).toBe(100_000)
    expect(megabytes).toBeLessThan(mostMegabytes)
  })

  it.each<[string, Body]>([
    [
      'of hundreds of megabytes, because paging is unknown there,',
      list(300_000, (index) => `{"AssignmentId":${index},"RowVersion":1,"Text":"${filler}"}`),
    ],
    ['of millions of records', list(10_000_000, () => '{}')],
    [
      'of millions of values in an object',
      {
        ...list(10_000_000, () => '[]'),
        part: (i) => (i === 0 ? '{"a":[[]' : i < 10_000_000 ? ',[]' : ']}'),
      },
    ],
    [
      'of millions of values in one record of a list',
      {
        ...list(10_000_000, () => '[]'),
        part: (i) => (i === 0 ? '[{"AssignmentId":1,"RowVersion":1,"a":[[]' : i < 10_000_000 ? ',[]' : ']}]'),
      },
    ],
    ['of one endless string', { count: 300, part: (index) => (index === 0 ? '["' : 'x'.repeat(1_000_000)) }],
  ])('%s is refused, and says what to do', async (_, body) => {
    const { code, problem, megabytes } = await read(body)
    expect(code).toBe('UPSTREAM_TOO_LARGE')
    expect(problem).toContain('PAGE_SIZE')
    expect(megabytes).toBeLessThan(mostMegabytes)
  })

  it('of millions of brackets is refused', async () => {
    const { code, problem, megabytes } = await read({ count: 40, part: () => '['.repeat(1_000_000) })
    expect(code).toBe('UPSTREAM_JSON')
    expect(problem).toContain('nested deeper than 500 levels')
    expect(megabytes).toBeLessThan(mostMegabytes)
  })
})
