// `GET /events`: what changed on the pages, as server-sent events. One look at the desk serves all who listen, and nobody looks when
// nobody listens. Only what changed is sent; who comes new gets everything.

import type { ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import type { Desk } from './desk.ts'
import { markupOf } from './html.ts'
import type { Routes } from './http-server.ts'
import { cellsOf } from './live-cells.ts'
import { concernCells } from './pages/concerns.ts'

type Options = {
  /** Null while the worker waits for what it needs. */
  readonly desk: () => Pick<Desk, 'sight' | 'concerns'> | null
  readonly everyMs?: number
  readonly mostListeners?: number
  readonly log: Logger
}

type LiveEvents = { readonly routes: Routes; close(): void }
type Update = { readonly cells: Readonly<Record<string, string>>; readonly rates: unknown }

const defaultEveryMs = 2_000
const defaultMostListeners = 100
/** Who does not take what is sent is let go, and comes back by itself. */
const mostUnsentBytes = 1_048_576
const retryMs = 2_000
/** A look that takes longer is waited for, but not silently. */
const patienceMs = 5_000

export function openLiveEvents(options: Options): LiveEvents {
  const { desk, everyMs = defaultEveryMs, mostListeners = defaultMostListeners, log } = options
  const closing = new AbortController()
  const listeners = new Set<ServerResponse>()
  let known: Update | null = null
  let isLooking = false

  function send(event: string, data: unknown, to: Iterable<ServerResponse> = listeners): void {
    for (const listener of to) {
      if (listener.writableLength > mostUnsentBytes) listener.destroy()
      else listener.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    }
  }

  /** Whoever comes now is told nothing that may be over. */
  function away(): void {
    known = null
    send('away', null)
  }

  async function look(): Promise<void> {
    const there = desk()
    if (!there) return away()
    const [seen, concerns] = await Promise.all([there.sight(), there.concerns()])
    const pieces = [...cellsOf(seen), ...concernCells(concerns)]
    const cells = Object.fromEntries(pieces.map(([key, cell]) => [key, cell ? markupOf(cell) : '']))
    const { from, streams, ...rest } = seen.rates
    const before = known?.cells ?? {}
    known = { cells, rates: { ...rest, from: from.getTime(), streams: Object.fromEntries(streams) } }
    const gone = Object.keys(before).filter((key) => !(key in cells))
    send('update', {
      cells: Object.fromEntries([
        ...Object.entries(cells).filter(([key, markup]) => before[key] !== markup),
        ...gone.map((key) => [key, '']),
      ]),
      rates: known.rates,
    })
  }

  async function keepLooking(): Promise<void> {
    if (isLooking) return
    isLooking = true
    while (listeners.size > 0 && !closing.signal.aborted) {
      const tooLong = setTimeout(away, patienceMs)
      await look().catch((error) => {
        log.debug({ err: error }, 'what the pages show could not be looked up')
        away()
      })
      clearTimeout(tooLong)
      await wait(everyMs, undefined, { signal: closing.signal, ref: false }).catch(() => {})
    }
    isLooking = false
    known = null
  }

  return {
    routes(server) {
      server.get('/events', { exposeHeadRoute: false }, (_request, reply) => {
        if (listeners.size >= mostListeners || closing.signal.aborted)
          return reply.code(503).header('retry-after', '10').send({ error: 'too many listen already' })
        reply.hijack()
        const listener = reply.raw
        listener.writeHead(200, {
          'content-type': 'text/event-stream; charset=utf-8',
          'cache-control': 'no-store',
          'x-content-type-options': 'nosniff',
          // Proxies would keep it until there is more.
          'x-accel-buffering': 'no',
        })
        listener.write(`retry: ${retryMs}\n\n`)
        listeners.add(listener)
        listener.on('close', () => listeners.delete(listener))
        listener.on('error', () => listeners.delete(listener))
        if (known) send('update', known, [listener])
        void keepLooking()
        return reply
      })
    },
    close() {
      closing.abort()
      for (const listener of listeners) listener.end()
    },
  }
}
