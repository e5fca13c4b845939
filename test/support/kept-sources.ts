// The sources of a worker as they are kept by a file of sources, in a test database: nothing is read of them, and how one is opened is up to
// the test.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { Environment } from '../../src/config/load.ts'
import type { SyncContext } from '../../src/context.ts'
import type { Fleet } from '../../src/fleet.ts'
import { openLog } from '../../src/log.ts'
import { keepSources } from '../../src/worker/sources.ts'
import type { TestDatabase } from './database.ts'

/** Settings of a source, of a client of that number; nothing answers there. */
export const settingsOf = (client: number, more: Readonly<Record<string, unknown>> = {}): object => ({
  assignment_base_url: 'http://127.0.0.1:9/assignment',
  auth_url: 'http://127.0.0.1:9/auth',
  client_guid: `00000000-0000-4000-8000-${String(client).padStart(12, '0')}`,
  subject_id: 'a-subject',
  streams: 'assignment',
  contract: 'off',
  api_key: 'env:A_KEY',
  ...more,
})

export type FileOfSources = { readonly path: string; write(content: object): void }
export function fileOfSources(content: object): FileOfSources {
  const path = join(mkdtempSync(join(tmpdir(), 'tidemark-sources-')), 'sources.yaml')
  const write = (said: object) => writeFileSync(path, JSON.stringify(said))
  write(content)
  return { path, write }
}

/** `open`: what opening one takes, until its tables are there. */
export function keepTestSources({
  database,
  file,
  environment = { A_KEY: 'a-key-of-the-tests' },
  open = async () => {},
}: {
  readonly database: TestDatabase
  readonly file: string | null
  readonly environment?: Environment
  readonly open?: (source: string) => Promise<void>
}) {
  const ending = new AbortController()
  const stream = new PassThrough()
  const logged: string[] = []
  stream.on('data', (line) => logged.push(String(line)))
  const opened: string[] = []
  const context = { streams: [], async [Symbol.asyncDispose]() {} } as unknown as SyncContext
  const sources = keepSources({
    fleet: { context: { database }, async add() {}, async remove() {} } as unknown as Fleet,
    config: { fleetBiRole: null, sourceTimezone: 'UTC' },
    ...{ environment, file, by: 'a test', onOpened() {}, onGone() {}, signal: ending.signal },
    log: openLog({ level: 'info', stream }),
    lookAt: async () => () => ({ isWhole: false, stored: [] }),
    async open({ source }, _seen, _signal, onTables) {
      await open(source)
      onTables()
      opened.push(source)
      return context
    },
  })
  return {
    ...{ sources, logged, opened },
    async [Symbol.asyncDispose]() {
      ending.abort()
    },
  }
}
