// The worker in the process of the test, between the stand-in, a test database and one of the backends.

import { PassThrough } from 'node:stream'
import { type Config, loadConfig } from '../../src/config/load.ts'
import { openLog } from '../../src/log.ts'
import type { Simulator } from '../../src/simulator/simulator.ts'
import { serve, type TidemarkWorker } from '../../src/worker/serve.ts'
import { environmentFor } from './environment.ts'

export const adminToken = 'an-admin-token-of-the-tests'
export const webhookSecret = 'a-webhook-secret-of-the-tests'

export type TestWorker = TidemarkWorker & {
  readonly config: Config
  /** Lines of the log from `info` on. */
  logged(): readonly string[]
  get(path: string): Promise<Response>
  post(path: string, headers?: Record<string, string>): Promise<Response>
  /** The value of one line of the metrics, e.g. `tidemark_up{part="queue"}`. */
  metric(line: string): Promise<number | null>
}

type Variables = Readonly<Record<string, string | undefined>>

export async function startTestWorker(
  simulator: Simulator,
  database: { readonly url: string },
  variables: Variables = {},
  more: Pick<Parameters<typeof serve>[0], 'now'> = {},
): Promise<TestWorker> {
  const stream = new PassThrough()
  const lines: string[] = []
  stream.on('data', (line) => lines.push(String(line)))
  const environment = environmentFor(simulator, database, {
    HTTP_PORT: '0',
    ADMIN_TOKEN: adminToken,
    WEBHOOK_SECRET: webhookSecret,
    REQUEST_TIMEOUT: '2s',
    ...variables,
  })
  const config = loadConfig(environment)
  const worker = await serve({ ...more, config, environment, log: openLog({ level: 'info', stream }) })
  const get = (path: string) => fetch(`${worker.url}${path}`)
  return {
    ...worker,
    config,
    logged: () => lines,
    get,
    post: (path, headers = {}) => fetch(`${worker.url}${path}`, { method: 'POST', headers, body: '{}' }),
    async metric(line) {
      const text = await (await get('/metrics')).text()
      const found = text.split('\n').find((one) => one.startsWith(`${line} `))
      return found === undefined ? null : Number(found.slice(line.length + 1))
    },
  }
}
