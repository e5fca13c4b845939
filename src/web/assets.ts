// The files that pages load: styles and script. Read once at the start; their addresses hold their hash, so that
// browsers may keep them for good.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Routes } from './server.ts'

export type Assets = {
  /** The address of a file, by its name. */
  urlOf(name: AssetName): string
  readonly routes: Routes
}
type AssetName = keyof typeof files

const files = {
  'page.css': import.meta.resolve('./assets/page.css'),
  'parts.css': import.meta.resolve('./assets/parts.css'),
  'page.js': import.meta.resolve('./assets/page.js'),
} as const

const types = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' }

export function readAssets(): Assets {
  const assets = new Map(
    Object.entries(files).map(([name, url]) => {
      const body = readFileSync(fileURLToPath(url))
      const hash = createHash('sha256').update(body).digest('hex').slice(0, 16)
      return [name, { body, hash, type: name.endsWith('.css') ? types.css : types.js }]
    }),
  )
  return {
    urlOf: (name) => `/assets/${name}?${assets.get(name)?.hash}`,
    routes(server) {
      server.get<{ Params: { name: string } }>('/assets/:name', async (request, reply) => {
        const asset = assets.get(request.params.name)
        if (!asset) return reply.callNotFound()
        const etag = `"${asset.hash}"`
        const isCurrent = request.url.endsWith(`?${asset.hash}`)
        reply.headers({
          etag,
          'cache-control': isCurrent ? 'public, max-age=31536000, immutable' : 'no-cache',
        })
        if (request.headers['if-none-match'] === etag) return reply.code(304).send()
        return reply.type(asset.type).send(asset.body)
      })
    },
  }
}
