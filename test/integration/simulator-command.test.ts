// `tidemark simulate` as its user meets it: what it prints works, and what is written wrongly is told.

import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { openOutput } from '../../src/cli/output.ts'
import { parseCall } from '../../src/cli/parse.ts'
import { simulate } from '../../src/cli/simulate.ts'
import { UsageError } from '../../src/util/errors.ts'

type Running = { readonly printed: string; stop(): Promise<number> }

async function start(...words: string[]): Promise<Running> {
  const stopping = new AbortController()
  const stdout = new PassThrough({ encoding: 'utf8' })
  const ended = simulate.run({
    ...parseCall(simulate, words),
    signal: stopping.signal,
    log: pino({ enabled: false }),
    catalogue: [],
    environment: {},
    stdout: openOutput(stdout, {}),
    stderr: openOutput(new PassThrough(), {}),
    commands: async () => [],
  })
  const printed = await Promise.race([nextText(stdout), ended.then(() => 'ended early')])
  return {
    printed,
    stop() {
      stopping.abort()
      return ended
    },
  }
}

const nextText = (stream: PassThrough) =>
  new Promise<string>((resolve) => stream.once('data', (text) => resolve(String(text))))

const setting = (printed: string, name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(printed)?.[1] ?? ''

async function assignments(printed: string, query: string): Promise<Response> {
  const response = await fetch(`${setting(printed, 'AUTH_URL')}/Token/GenerateAccessTokenFromCache`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      clientId: 3,
      subjectId: setting(printed, 'SUBJECT_ID'),
      apiKey: setting(printed, 'API_KEY'),
    }),
  })
  const { accessToken } = (await response.json()) as { accessToken: string }
  return fetch(`${setting(printed, 'ASSIGNMENT_BASE_URL')}/api/Assignment/neworchanged/0?${query}`, {
    headers: { authorization: `Bearer ${accessToken}`, clientId: setting(printed, 'CLIENT_GUID') },
  })
}

describe('tidemark simulate', () => {
  it('says in one line that its port is taken', async () => {
    const first = await start('--port', '0', '--assignments', '1')
    const { port } = new URL(setting(first.printed, 'AUTH_URL'))
    const second = start('--port', port)
    await expect(second).rejects.toThrow(UsageError)
    await expect(second).rejects.toThrow(
      `The stand-in cannot listen on 127.0.0.1:${port} (EADDRINUSE): give it another port, or 0 for a free one`,
    )
    await first.stop()
  })

  it('prints settings that work, and ends when it is told to', async () => {
    const running = await start('--port', '0', '--assignments', '12', '--malformed', 'no-key,an-array')
    const records = (await (await assignments(running.printed, 'PageSize=100')).json()) as unknown[]
    expect(records.length).toBe(14)
    expect(running.printed).toContain('curl -s')
    expect(await running.stop()).toBe(0)
    await expect(assignments(running.printed, '')).rejects.toThrow()
  })

  it('takes the switches and the faults', async () => {
    const words = [
      '--port=0',
      '--order=row-version',
      '--page-cap=3',
      '--row-versions=string',
      '--inclusive',
      '--gzip',
    ]
    const running = await start(...words, '--fault', '429:nth=1,retry-after=9', '--fault', '500:nth=1')
    const first = await assignments(running.printed, '')
    expect([first.status, first.headers.get('retry-after')]).toEqual([429, '9'])
    expect((await assignments(running.printed, '')).status).toBe(500)
    const third = await assignments(running.printed, 'PageSize=10')
    expect(third.headers.get('content-encoding')).toBe('gzip')
    const records = (await third.json()) as { assignmentId: number; sysRowVersion: string }[]
    expect(records.length).toBe(3)
    expect(records[0]?.sysRowVersion).toMatch(/^\d+$/)
    await running.stop()
  })

  it('looks like the recorded service, unless it is told otherwise, and may have another client', async () => {
    const otherGuid = 'c2a7e9b4-58d1-4c36-8b7f-7d20f4a69e02'
    const running = await start('--port=0', '--assignments=30', `--other-client=${otherGuid}`)
    expect(running.printed).toContain('Sorts=SysRowVersion')
    expect(setting(running.printed, 'SOURCE_TIMEZONE')).toBe('Europe/Oslo')
    const records = (await (await assignments(running.printed, 'PageSize=2')).json()) as object[]
    expect(Object.keys(records[0] ?? {})).toEqual(
      expect.arrayContaining(['assignmentIdext', 'sysRowVersion']),
    )
    const others = await assignments(
      running.printed.replace(/^CLIENT_GUID=.*$/m, `CLIENT_GUID=${otherGuid}`),
      '',
    )
    expect(await others.json()).toHaveLength(3)
    await running.stop()
    const plain = await start('--port=0', '--look=plain', '--assignments=3')
    expect(setting(plain.printed, 'SOURCE_TIMEZONE')).toBe('UTC')
    const [record] = (await (await assignments(plain.printed, '')).json()) as object[]
    expect(record).toMatchObject({ StatusName: expect.any(String), RowVersion: expect.any(Number) })
    await plain.stop()
  })

  it('is the upstream of many clients, and writes what a worker needs for them', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tidemark-simulated-'))
    const running = await start('--port=0', '--fleet=5', '--assignments=10', '--write-sources', folder)
    expect(running.printed).toContain('of 5 clients is up')
    const settings = readFileSync(join(folder, '.env'), 'utf8')
    expect(setting(settings, 'SOURCES_FILE')).toBe('sources.yaml')
    expect((await assignments(settings, 'PageSize=3&Sorts=SysRowVersion')).status).toBe(200)
    const { sources } = parse(readFileSync(join(folder, 'sources.yaml'), 'utf8'))
    expect(Object.keys(sources)).toEqual(['c002', 'c003', 'c004', 'c005'])
    expect(await running.stop()).toBe(0)
    await expect(assignments(settings, '')).rejects.toThrow()
  })

  it('restores a backup after a while: row versions fall', async () => {
    const running = await start('--port=0', '--assignments=50', '--churn=1000', '--restore-backup-after=1')
    const highest = async () => {
      const response = await assignments(running.printed, 'PageSize=1&Sorts=-SysRowVersion')
      const [record] = (await response.json()) as { sysRowVersion: number }[]
      return record?.sysRowVersion ?? 0
    }
    let top = 0
    await expect
      .poll(async () => {
        const now = await highest()
        const hasFallen = now < top
        top = Math.max(top, now)
        return hasFallen
      })
      .toBe(true)
    await running.stop()
  })

  it.each([
    [['--port', '70000'], /--port must be a whole number from 0 to 65535, not "70000"/],
    [['--assignments', 'many'], /--assignments must be a whole number .* not "many"/],
    [['--order', 'sideways'], /--order: "sideways" should be one of heap, row-version, id/],
    [['--page-cap', '0'], /--page-cap: .* or none/],
    [['--late-fraction', '3'], /from 0 to 1/],
    [['--fault', '200'], /--fault 200: .*neither a status/],
    [['--fault', '500:nth=x'], /"nth=x" should be nth=N/],
    [['--look', 'nice'], /--look must be one of recorded, plain, not "nice"/],
    [['--faults', 'some'], /--faults takes only "all", not "some"/],
    [['--malformed', 'badly'], /--malformed knows no "badly"\. It takes all, or some of nul-in-string/],
    [['--first-row-version', '-1'], /--first-row-version/],
    [['--api-key', ''], /--api-key is empty/],
    [['--fleet', '1'], /--fleet must be a whole number from 2 to 1000, not "1"/],
    [['--hosts', '2'], /--hosts is about many clients: say how many there are with --fleet/],
    [
      ['--fleet', '3', '--look', 'plain'],
      /--look is about one client, so it cannot be combined with --fleet/,
    ],
    [['--oder', 'id'], /Did you mean --order/],
    [
      ['--time-zone', 'Mars/Base'],
      /--time-zone: "Mars\/Base" should be the name of a time zone, such as Europe\/Oslo/,
    ],
    [
      ['--host', 'nowhere.invalid'],
      /cannot listen on nowhere\.invalid:8090 \(ENOTFOUND\): --host must be an address of this machine$/,
    ],
    [
      ['--port', '0', '--fleet', '2', '--write-sources', '/dev/null/folder'],
      /^\/dev\/null\/folder cannot be written: a part of that path is a file \(ENOTDIR\)\.$/,
    ],
    [['now'], /takes options only/],
  ])('%j is refused with what to write', async (words, message) => {
    const attempt = start(...words)
    await expect(attempt).rejects.toThrow(UsageError)
    await expect(attempt).rejects.toThrow(message)
  })
})
