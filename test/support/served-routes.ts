// Routes over HTTP, served until the test is over.

import { onTestFinished } from 'vitest'
import { type Routes, startHttpServer } from '../../src/web/server.ts'
import { quietLog } from './database.ts'

export async function serve(...routes: Routes[]): Promise<string> {
  const server = await startHttpServer({ host: '127.0.0.1', port: 0, routes, log: quietLog })
  onTestFinished(() => server.close())
  return server.url
}
